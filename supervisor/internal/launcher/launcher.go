// Package launcher makes the user namespace in which everything else of the
// supervisor happens, and carries a process into it.
//
// It runs on both sides: Clone in the first stage, which is still in the
// host's namespaces and lives only until the id maps are written, and Enter in
// the process that Clone made. It does nothing that could not be undone by
// ending that process, and mounts and configures nothing.
//
//	first stage (host namespaces)            child (new namespaces)
//	 │ clone, exec itself ─────────────────► │ Enter: parent-death signal,
//	 │ newuidmap ∥ newgidmap                 │        then waits
//	 │ one byte on the pipe ───────────────► │ is uid 0 with all capabilities
//	 │ exits (supervise) or waits (enter)    ⋮
//
// If the first stage dies before the byte is sent, the child reads EOF and
// exits.
package launcher

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/protocol/faults"
	"lazaret.dev/lazaret/protocol/handoff"
)

// exe is the running binary, whatever its path has become.
const exe = "/proc/self/exe"

// Options say what Clone makes.
type Options struct {
	Mode  string   // the child's first argument
	Args  []string // the child's further arguments
	Flags uintptr  // namespaces beside the user namespace, CLONE_NEW*
	Map   IDMap

	// Adopt makes the child a sibling of the caller, a child of the caller's
	// parent, so that the caller may exit (CLONE_PARENT).
	Adopt bool

	// Death is the signal that the child gets when its parent dies.
	Death unix.Signal
}

// Child is a process in the namespaces that Clone made.
type Child struct {
	PID int
}

// StepError names the step in which making the namespaces failed.
type StepError struct {
	Step string // clone, idmap
	Err  error
}

func (e *StepError) Error() string { return e.Step + ": " + e.Err.Error() }

func (e *StepError) Unwrap() error { return e.Err }

// Hint tells about the usual reason for a refused clone.
func (e *StepError) Hint() string {
	var h interface{ Hint() string }
	if errors.As(e.Err, &h) {
		return h.Hint()
	}
	return "this system does not let you make user namespaces; lazaret doctor names the setting"
}

// Clone starts the child, writes its id maps and lets it go. The child
// inherits every descriptor that the caller holds without close-on-exec, under
// the same number. On error no child is left.
//
// The caller must run on a locked thread that lives as long as the child may,
// unless Adopt is set: the parent-death signal fires when the creating thread
// ends.
func Clone(o Options) (*Child, error) {
	if err := o.Map.Validate(); err != nil {
		return nil, &StepError{"idmap", err}
	}
	var sync [2]int
	if err := unix.Pipe2(sync[:], 0); err != nil {
		return nil, &StepError{"clone", os.NewSyscallError("pipe2", err)}
	}
	defer func() { _ = unix.Close(sync[1]) }()
	unix.CloseOnExec(sync[1])

	caps, err := allCaps()
	if err != nil {
		_ = unix.Close(sync[0])
		return nil, &StepError{"clone", err}
	}
	parent := os.Getpid()
	flags := unix.CLONE_NEWUSER | o.Flags
	if o.Adopt {
		parent = os.Getppid()
		flags |= unix.CLONE_PARENT
	}
	pidfd := -1
	argv := append([]string{
		"lazaret-supervisor", o.Mode,
		"--sync-fd=" + strconv.Itoa(sync[0]),
		"--parent=" + strconv.Itoa(parent),
		"--death=" + strconv.Itoa(int(o.Death)),
		"--mapping=" + string(o.Map.Mode()),
	}, o.Args...)
	pid, err := syscall.ForkExec(exe, argv, &syscall.ProcAttr{
		Env:   os.Environ(),
		Files: []uintptr{0, 1, 2},
		Sys: &syscall.SysProcAttr{
			Cloneflags: flags,
			PidFD:      &pidfd,
			// A process without id maps loses every capability at exec, except
			// ambient ones. Keeping them spares an exec, and with it the kernel's
			// clearing of the parent-death signal when capabilities grow.
			AmbientCaps: caps,
		},
	})
	// Whatever else runs from here on, the set-uid helpers first, gets nothing
	// but its standard descriptors.
	_ = unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC)
	_ = unix.Close(sync[0])
	if err != nil {
		return nil, &StepError{"clone", err}
	}
	kill := func() {
		_ = unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0)
		if !o.Adopt {
			var ws unix.WaitStatus
			for {
				if _, err := unix.Wait4(pid, &ws, 0, nil); !errors.Is(err, unix.EINTR) {
					break
				}
			}
		}
	}
	if pidfd >= 0 {
		defer func() { _ = unix.Close(pidfd) }()
	}
	faults.Point("start.rs.unmapped")
	if err := o.Map.write(pid); err != nil {
		kill()
		return nil, &StepError{"idmap", err}
	}
	if _, err := unix.Write(sync[1], []byte{1}); err != nil {
		kill()
		return nil, &StepError{"clone", os.NewSyscallError("write", err)}
	}
	return &Child{PID: pid}, nil
}

// allCaps lists every capability that the kernel knows.
func allCaps() ([]uintptr, error) {
	b, err := os.ReadFile("/proc/sys/kernel/cap_last_cap")
	if err != nil {
		return nil, err
	}
	last, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || last < 0 || last > 63 {
		return nil, fmt.Errorf("cap_last_cap is %q", b)
	}
	caps := make([]uintptr, last+1)
	for i := range caps {
		caps[i] = uintptr(i)
	}
	return caps, nil
}

// Entry is what a child learns from Clone's caller.
type Entry struct {
	Parent  int
	Death   unix.Signal
	Mapping handoff.Mapping
}

// ErrAbandoned reports that the first stage gave up or died.
var ErrAbandoned = errors.New("the launcher ended before the id maps were written")

// Enter completes the child's side of Clone: it arms the parent-death signal,
// waits for the id maps, and gives up ambient capabilities. args are the
// arguments after the mode; Enter returns those that are not its own. The
// caller must be on a locked thread, the one that execs next if any does.
func Enter(args []string, fs *flag.FlagSet) (Entry, error) {
	var e Entry
	syncFD := fs.Int("sync-fd", -1, "pipe from the launcher")
	fs.IntVar(&e.Parent, "parent", 0, "process that the caller must be a child of")
	death := fs.Int("death", 0, "signal at the parent's death")
	mapping := fs.String("mapping", "", "id mapping mode")
	if err := fs.Parse(args); err != nil {
		return e, err
	}
	e.Death, e.Mapping = unix.Signal(*death), handoff.Mapping(*mapping)
	if err := ArmDeath(e.Death, e.Parent); err != nil {
		return e, err
	}
	if err := await(*syncFD); err != nil {
		return e, err
	}
	if uid, gid := unix.Getuid(), unix.Getgid(); uid != 0 || gid != 0 {
		return e, fmt.Errorf("enter user namespace: ids are %d:%d, want 0:0", uid, gid)
	}
	return e, dropInheritable()
}

// ArmDeath asks for sig at the parent's death and refuses to go on when the
// parent is already another: the signal that would have told so is not sent
// for a death that happened before it was armed.
func ArmDeath(sig unix.Signal, parent int) error {
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(sig), 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl PR_SET_PDEATHSIG", err)
	}
	if got := unix.Getppid(); got != parent {
		return fmt.Errorf("the parent process is %d, want %d: it has ended", got, parent)
	}
	return nil
}

// await reads the launcher's byte.
func await(fd int) error {
	if fd < 3 {
		return errors.New("no --sync-fd")
	}
	defer func() { _ = unix.Close(fd) }()
	var b [1]byte
	for {
		n, err := unix.Read(fd, b[:])
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return os.NewSyscallError("read", err)
		case n == 0:
			return ErrAbandoned
		}
		return nil
	}
}

// dropInheritable empties the calling thread's inheritable set and with it the
// ambient one. Uid 0 keeps all capabilities over an exec without them, and
// what later changes its uid must not take any along.
func dropInheritable() error {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&hdr, &data[0]); err != nil {
		return os.NewSyscallError("capget", err)
	}
	data[0].Inheritable, data[1].Inheritable = 0, 0
	if err := unix.Capset(&hdr, &data[0]); err != nil {
		return os.NewSyscallError("capset", err)
	}
	return nil
}
