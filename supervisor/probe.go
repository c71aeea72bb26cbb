package supervisor

import (
	"errors"
	"fmt"
	"io"
	"syscall"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/supervisor/internal/launcher"
	"lazaret.dev/lazaret/supervisor/internal/netns"
)

// probe tries what a start needs of user namespaces: new user, mount, network
// and cgroup namespaces, a tmpfs and a loopback interface. It exits with 0, or
// with 1 and one line on stderr, "<step>: <errno name>".
func probe(args []string, stderr io.Writer) int {
	fs := flags(modeProbe, stderr)
	m := mapFlags(fs)
	if err := fs.Parse(args); err != nil {
		return exitUsage
	}
	child, err := launcher.Clone(launcher.Options{
		Mode:  modeProbeInside,
		Flags: unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP,
		Map:   *m,
		Death: unix.SIGKILL,
	})
	if err != nil {
		if s, ok := errors.AsType[*launcher.StepError](err); ok {
			return probeFailed(stderr, s.Step, s.Err)
		}
		return probeFailed(stderr, "clone", err)
	}
	return wait(child.PID)
}

func probeInside(args []string, stderr io.Writer) int {
	if _, err := launcher.Enter(args, flags(modeProbeInside, stderr)); err != nil {
		return probeFailed(stderr, "idmap", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return probeFailed(stderr, "private", err)
	}
	// Over a directory that exists everywhere, in a namespace that ends with
	// this process.
	if err := unix.Mount("tmpfs", "/tmp", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, ""); err != nil {
		return probeFailed(stderr, "tmpfs", err)
	}
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return probeFailed(stderr, "netns", err)
	}
	if err := netns.LoopbackUp(); err != nil {
		return probeFailed(stderr, "loopback", err)
	}
	return 0
}

// probeFailed prints the probe's one line. An error that is no errno is
// printed whole.
func probeFailed(stderr io.Writer, step string, err error) int {
	what := err.Error()
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		what = unix.ErrnoName(errno)
	}
	_, _ = fmt.Fprintf(stderr, "%s: %s\n", step, what)
	return exitFailed
}
