package guest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// The exit statuses of a command that did not start.
const (
	statusLazaret  = 125
	statusCannot   = 126
	statusNotFound = 127
)

// An ExecError says why a session's command did not start, and with what status
// the session ends.
type ExecError struct {
	Status int
	Reason string
	Err    error // may be nil
}

func (e *ExecError) Error() string {
	if e.Err != nil {
		return e.Reason + ": " + e.Err.Error()
	}
	return e.Reason
}

func (e *ExecError) Unwrap() error { return e.Err }

// defaultPath is searched when the session has no PATH.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Exec becomes the command of args, which are [--login] [--tty] [--cwd DIR] [--]
// COMMAND ARG..., so that the session's process is the command itself. With
// --login, and no command, it becomes the user's login shell. It returns only
// on failure: an *ExecError, or another error when args are not well-formed.
//
// With --tty, where the process has a terminal, the command runs on one of the
// sandbox's own, and Exec returns its status.
func Exec(args []string) (int, error) {
	var login, tty bool
	var cwd string
options:
	for len(args) > 0 {
		switch args[0] {
		case "--login":
			login, args = true, args[1:]
		case "--tty":
			tty, args = true, args[1:]
		case "--cwd":
			if len(args) < 2 {
				return 0, errors.New("--cwd needs a value")
			}
			cwd, args = args[1], args[2:]
		case "--":
			args = args[1:]
			break options
		default:
			break options
		}
	}
	if login != (len(args) == 0) {
		return 0, errors.New("_exec takes either a command or --login")
	}
	if cwd != "" {
		if err := os.Chdir(cwd); err != nil {
			return 0, &ExecError{Status: statusLazaret, Reason: fmt.Sprintf("cannot enter %q", cwd), Err: cause(err)}
		}
	}
	path, err := program(login, args)
	if err != nil {
		return 0, err
	}
	if login {
		args = []string{"-" + filepath.Base(path)}
	}
	if tty {
		return runOnTerminal(path, args, os.Environ())
	}
	return 0, execError(path, syscall.Exec(path, args, os.Environ()))
}

// program finds what to execute.
func program(login bool, args []string) (string, error) {
	if login {
		return loginShell(os.Getuid())
	}
	return lookUp(args[0], os.Getenv("PATH"))
}

// execError tells apart why a program could not be executed.
func execError(path string, err error) error {
	if errors.Is(err, syscall.ENOENT) {
		// The file was there a moment ago: what is missing is its interpreter.
		return &ExecError{Status: statusCannot, Reason: fmt.Sprintf("cannot execute %q: its interpreter does not exist", path)}
	}
	return &ExecError{Status: statusCannot, Reason: fmt.Sprintf("cannot execute %q", path), Err: err}
}

// lookUp finds a command as a shell does: a name with a slash is a path,
// another is searched for. Something that is there but cannot be executed is
// remembered: it explains more than "not found".
func lookUp(name, path string) (string, error) {
	if strings.Contains(name, "/") {
		err := executable(name)
		switch {
		case err == nil:
			return name, nil
		case errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
			return "", &ExecError{Status: statusNotFound, Reason: fmt.Sprintf("cannot find %q in the sandbox", name)}
		default:
			return "", &ExecError{Status: statusCannot, Reason: fmt.Sprintf("cannot execute %q", name), Err: cause(err)}
		}
	}
	if path == "" {
		path = defaultPath
	}
	var denied error
	if name != "" {
		for _, dir := range filepath.SplitList(path) {
			if dir == "" {
				dir = "."
			}
			// Not filepath.Join: "./x" must keep its dot.
			file := dir + "/" + name
			err := executable(file)
			if err == nil {
				return file, nil
			}
			if denied == nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
				denied = &ExecError{Status: statusCannot, Reason: fmt.Sprintf("cannot execute %q", file), Err: cause(err)}
			}
		}
	}
	if denied != nil {
		return "", denied
	}
	return "", &ExecError{Status: statusNotFound, Reason: fmt.Sprintf("cannot find %q in the sandbox's PATH", name)}
}

// executable reports why a file cannot be executed; nil when it can be.
func executable(file string) error {
	st, err := os.Stat(file)
	if err != nil {
		return err
	}
	if st.IsDir() {
		return syscall.EISDIR
	}
	if st.Mode()&0o111 == 0 {
		return syscall.EACCES // also for root, as execve has it
	}
	return os.NewSyscallError("access", syscall.Access(file, 1)) // X_OK
}

// cause strips the operation and the path, which the reason names already.
func cause(err error) error {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno
	}
	return err
}

// loginShell returns the shell of a user: that of /etc/passwd, else bash, else
// sh. A shell that is not there, or that refuses people, is passed over.
func loginShell(uid int) (string, error) {
	passwd, _ := os.ReadFile("/etc/passwd") // without one, the others are tried
	for _, c := range []string{passwdShell(string(passwd), uid), "/bin/bash", "/bin/sh"} {
		if c != "" && executable(c) == nil {
			return c, nil
		}
	}
	return "", &ExecError{Status: statusNotFound, Reason: "cannot find a shell in the sandbox"}
}

// passwdShell returns the shell that passwd(5) text has for a user, empty when
// there is none that lets anybody in.
func passwdShell(passwd string, uid int) string {
	for line := range strings.Lines(passwd) {
		f := strings.Split(strings.TrimRight(line, "\n"), ":")
		if len(f) != 7 || f[2] != strconv.Itoa(uid) {
			continue
		}
		switch filepath.Base(f[6]) {
		case "nologin", "false":
			return ""
		}
		if !filepath.IsAbs(f[6]) {
			return ""
		}
		return f[6]
	}
	return ""
}
