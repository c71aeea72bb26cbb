package escalate_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lazaret.dev/lazaret/escalate"
)

// asClient makes the test binary the client itself: subcommands that replace
// the process or kill others need one of their own.
const asClient = "LAZARET_TEST_AS_CLIENT"

func TestMain(m *testing.M) {
	if os.Getenv(asClient) == "1" {
		if err := os.Unsetenv(asClient); err != nil {
			panic(err)
		}
		os.Exit(escalate.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

func client(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(self, args...)
	c.Env = append(os.Environ(), asClient+"=1")
	return c
}

// run returns what the client printed and its exit status.
func run(t *testing.T, c *exec.Cmd) (stdout, stderr string, status int) {
	t.Helper()
	var o, e bytes.Buffer
	c.Stdout, c.Stderr = &o, &e
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return o.String(), e.String(), c.ProcessState.ExitCode()
}

func TestCommandLine(t *testing.T) {
	for name, tc := range map[string]struct {
		args   []string
		status int
		stdout string
		stderr string
	}{
		"request":             {[]string{"--reason", "to publish", "--timeout=5m", "--", "git", "push"}, 69, "", "lazaret: error: no coordinator"},
		"without dashes":      {[]string{"git", "push", "--help"}, 69, "", "\"git\" was not run"},
		"help":                {[]string{"--help"}, 0, "EXIT STATUS", ""},
		"no command":          {nil, 2, "", "no command"},
		"nothing after":       {[]string{"--"}, 2, "", "no command"},
		"unknown option":      {[]string{"--sudo", "--", "x"}, 2, "", "--sudo"},
		"no value":            {[]string{"--reason"}, 2, "", "needs a value"},
		"bad timeout":         {[]string{"--timeout", "soon", "--", "x"}, 2, "", "no duration"},
		"negative timeout":    {[]string{"--timeout", "-5s", "--", "x"}, 2, "", "no duration"},
		"unknown subcommand":  {[]string{"_sudo"}, 2, "", "unknown subcommand"},
		"end without session": {[]string{"_end", "0", ""}, 70, "", "no session"},
		"end of nonsense":     {[]string{"_end", "x", "y"}, 2, "", "sid"},
	} {
		t.Run(name, func(t *testing.T) {
			var o, e bytes.Buffer
			if got := escalate.Main(tc.args, strings.NewReader(""), &o, &e); got != tc.status {
				t.Errorf("status %d, want %d", got, tc.status)
			}
			if !strings.Contains(o.String(), tc.stdout) || tc.stdout == "" && o.Len() > 0 {
				t.Errorf("stdout %q", o.String())
			}
			if !strings.Contains(e.String(), tc.stderr) || tc.stderr == "" && e.Len() > 0 {
				t.Errorf("stderr %q", e.String())
			}
			for line := range strings.Lines(e.String()) {
				if !strings.HasPrefix(line, "lazaret: ") {
					t.Errorf("line %q", line)
				}
			}
		})
	}
}

func TestJSONSaysUnavailable(t *testing.T) {
	var o, e bytes.Buffer
	if got := escalate.Main([]string{"--json", "--", "x"}, nil, &o, &e); got != 69 {
		t.Errorf("status %d", got)
	}
	var v struct {
		Outcome  string `json:"outcome"`
		Approved *bool  `json:"approved"`
	}
	if err := json.Unmarshal(o.Bytes(), &v); err != nil || v.Outcome != "unavailable" || v.Approved == nil || *v.Approved {
		t.Errorf("%s: %v", o.String(), err)
	}
}

// The session's process becomes the command, and 126 and 127 are told apart
// (design section 5).
func TestExec(t *testing.T) {
	dir := t.TempDir()
	for name, f := range map[string]struct {
		text string
		mode os.FileMode
	}{
		"hello":       {"#!/bin/sh\necho \"hello $*\"; exit 7\n", 0o755},
		"plain":       {"text", 0o644},
		"interpreter": {"#!/nonexistent/interpreter\n", 0o755},
		"garbage":     {"\x7fELFnot", 0o755},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(f.text), f.mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		args   []string
		path   string
		status int
		stdout string
		stderr string
	}{
		"from PATH":           {[]string{"--", "hello", "a  b", "--login"}, dir, 7, "hello a  b --login\n", ""},
		"second in PATH":      {[]string{"--", "hello"}, "/nonexistent::" + dir, 7, "hello \n", ""},
		"by path":             {[]string{"--", dir + "/hello", "x"}, "", 7, "hello x\n", ""},
		"in a directory":      {[]string{"--cwd", dir, "--", "./hello"}, "", 7, "hello \n", ""},
		"empty PATH":          {[]string{"--", "sh", "-c", "echo $0"}, "", 0, "sh\n", ""},
		"not found":           {[]string{"--", "hallo"}, dir, 127, "", `lazaret: error: cannot find "hallo"`},
		"no such file":        {[]string{"--", "/nonexistent/x"}, dir, 127, "", `cannot find "/nonexistent/x"`},
		"below a file":        {[]string{"--", dir + "/plain/x"}, dir, 127, "", "cannot find"},
		"empty name":          {[]string{"--", ""}, dir, 127, "", `cannot find ""`},
		"not executable":      {[]string{"--", "plain"}, dir, 126, "", "permission denied"},
		"directory":           {[]string{"--", dir}, dir, 126, "", "is a directory"},
		"directory in PATH":   {[]string{"--", "folder"}, dir, 126, "", "is a directory"},
		"missing interpreter": {[]string{"--", "interpreter"}, dir, 126, "", "interpreter does not exist"},
		"no program":          {[]string{"--", "garbage"}, dir, 126, "", "exec format error"},
		"no directory":        {[]string{"--cwd", "/nonexistent", "--", "hello"}, dir, 125, "", "cannot enter"},
		"nothing":             {[]string{"--"}, dir, 2, "", "either"},
		"login and command":   {[]string{"--login", "--", "x"}, dir, 2, "", "either"},
	} {
		t.Run(name, func(t *testing.T) {
			c := client(t, append([]string{"_exec"}, tc.args...)...)
			c.Env = append(c.Env, "PATH="+tc.path)
			o, e, status := run(t, c)
			if status != tc.status || o != tc.stdout || !strings.Contains(e, tc.stderr) || tc.stderr == "" && e != "" {
				t.Errorf("status %d, stdout %q, stderr %q", status, o, e)
			}
		})
	}
}

func TestLoginShell(t *testing.T) {
	c := client(t, "_exec", "--login", "--")
	c.Stdin = strings.NewReader("echo \"$0\"; exit 3\n")
	o, e, status := run(t, c)
	if status != 3 || !strings.HasPrefix(o, "-") {
		t.Errorf("status %d, stdout %q, stderr %q", status, o, e)
	}
}
