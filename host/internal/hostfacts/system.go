package hostfacts

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// limit is how long one probe may take.
const limit = 3 * time.Second

// Output is what a probed program did.
type Output struct {
	Stdout string
	Stderr string
	Status int // -1 when a signal ended it
}

// System is what the probes ask of the kernel beyond reading files.
type System interface {
	// Open opens a device for reading and writing, and closes it.
	Open(path string) error
	// FSType returns the magic number of the filesystem that holds path.
	FSType(path string) (int64, error)
	// FileCaps reports whether the file carries capabilities.
	FileCaps(path string) bool
	// Release returns the kernel's release, as uname -r prints it.
	Release() (string, error)
	// Run runs a program until it ends or ctx does. A program that cannot be
	// started, or is cut off, is an error; one that fails is not.
	Run(ctx context.Context, path string, args ...string) (Output, error)
}

// real is the System of this host.
type real struct{}

func (real) Open(path string) error {
	// O_NONBLOCK: a device that waits for its other end must not hold us.
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

func (real) FSType(path string) (int64, error) {
	var st unix.Statfs_t
	err := unix.Statfs(path, &st)
	return int64(st.Type), err
}

func (real) FileCaps(path string) bool {
	_, err := unix.Getxattr(path, "security.capability", make([]byte, 64))
	return err == nil
}

func (real) Release() (string, error) {
	var u unix.Utsname
	err := unix.Uname(&u)
	return unix.ByteSliceToString(u.Release[:]), err
}

func (real) Run(ctx context.Context, path string, args ...string) (Output, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var stdout, stderr bounded
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"}
	// What it started ends with it, and cannot hold the pipes open.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	cmd.WaitDelay = 100 * time.Millisecond
	err := cmd.Run()
	var exit *exec.ExitError
	if ctx.Err() != nil {
		return Output{}, errors.Join(ctx.Err(), err)
	}
	if err != nil && !errors.As(err, &exit) {
		return Output{}, err
	}
	return Output{Stdout: stdout.String(), Stderr: stderr.String(), Status: cmd.ProcessState.ExitCode()}, nil
}

// bounded keeps the first 64 KiB and swallows the rest.
type bounded struct{ bytes.Buffer }

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	if room := 64<<10 - b.Len(); room > 0 {
		b.Buffer.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}
