package supervisor

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/supervisor/internal/launcher"
)

// enter runs another program in a new user and mount namespace, as uid 0 with
// all capabilities there, with every descriptor that the caller passed on, and
// returns its exit status (128+n for signal n). Both die with the caller.
func enter(args []string, stderr io.Writer) int {
	fs := flags(modeEnter, stderr)
	m := mapFlags(fs)
	if err := fs.Parse(args); err != nil {
		return exitUsage
	}
	if fs.NArg() == 0 {
		_, _ = fmt.Fprintln(stderr, "lazaret-supervisor: usage: enter [MAP] -- PROGRAM ARG…")
		return exitUsage
	}
	if err := launcher.ArmDeath(unix.SIGKILL, unix.Getppid()); err != nil {
		return report(stderr, err)
	}
	child, err := launcher.Clone(launcher.Options{
		Mode:  modeEnterInside,
		Args:  append([]string{"--"}, fs.Args()...),
		Flags: unix.CLONE_NEWNS,
		Map:   *m,
		Death: unix.SIGKILL,
	})
	if err != nil {
		return report(stderr, err)
	}
	return wait(child.PID)
}

// wait waits for a child and renders its exit status as a shell does.
func wait(pid int) int {
	var ws unix.WaitStatus
	for {
		_, err := unix.Wait4(pid, &ws, 0, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return exitFailed
		}
		if ws.Signaled() {
			return 128 + int(ws.Signal())
		}
		return ws.ExitStatus()
	}
}

// enterInside is enter's side in the new namespaces. It returns only when the
// program could not be executed.
func enterInside(args []string, stderr io.Writer) int {
	fs := flags(modeEnterInside, stderr)
	if _, err := launcher.Enter(args, fs); err != nil {
		return report(stderr, err)
	}
	// Mounts that the program makes stay its own.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return report(stderr, os.NewSyscallError("make / private", err))
	}
	path, err := exec.LookPath(fs.Arg(0))
	if err != nil {
		return report(stderr, err)
	}
	return report(stderr, &os.PathError{Op: "exec", Path: path, Err: unix.Exec(path, fs.Args(), os.Environ())})
}
