package supervisor

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/protocol/faults"
	"lazaret.dev/lazaret/protocol/handoff"
	"lazaret.dev/lazaret/protocol/launch"
	"lazaret.dev/lazaret/protocol/wire"
	"lazaret.dev/lazaret/supervisor/internal/launcher"
	"lazaret.dev/lazaret/supervisor/internal/mounts"
	"lazaret.dev/lazaret/supervisor/internal/netfaults"
	"lazaret.dev/lazaret/supervisor/internal/netns"
	"lazaret.dev/lazaret/supervisor/internal/proc"
	"lazaret.dev/lazaret/supervisor/internal/slirp"
)

// maxPlan bounds a launch plan's encoding, in bytes.
const maxPlan = 8 << 20

// assembled is what the assemble stage hands to the serve stage, beside the
// handoff's own descriptors.
type assembled struct {
	plan  *os.File // the sealed plan
	slirp *slirp.Process
	netns *netns.Pair
	view  mounts.Descriptors
}

// assemble is the second stage: new user, mount and cgroup namespaces, the
// host's network namespace. It returns only when it failed; otherwise the
// process goes on as serve.
func assemble(args []string, stderr io.Writer) int {
	fs := flags(modeAssemble, stderr)
	entry, err := launcher.Enter(args, fs)
	if err != nil {
		return report(stderr, err)
	}
	faults.Point("start.rs.mapped")
	seq, err := wire.InheritSeq(handoff.SocketFD, "handoff")
	if err != nil {
		return report(stderr, err)
	}
	unix.CloseOnExec(handoff.LogFD)
	rep := newReporter(seq, os.NewFile(handoff.LogFD, "log"))
	rep.log.Info("assemble", "pid", os.Getpid(), "mapping", string(entry.Mapping))

	done, plan, err := build(context.Background(), seq, rep, entry)
	if err == nil {
		err = become(done, entry)
	}
	// Only failures come here. Everything that was made ends with the process,
	// the mounts included; slirp4netns is waited for so that its end precedes
	// the lease's.
	rep.failure(err)
	if done != nil && done.slirp != nil {
		if err := done.slirp.Stop(time.Second); err != nil {
			rep.log.Error("teardown", "error", err.Error())
		}
	}
	if plan != nil {
		if err := mounts.Cleanup(plan); err != nil {
			rep.log.Error("teardown", "error", err.Error())
		}
	}
	return exitFailed
}

// build says hello, receives the plan and makes everything but the sandbox.
//
// Order: the network first, while this thread's sockets are still the host's;
// slirp4netns before the mounts, so that the mount namespace of its own holds
// none of them and they can be unmounted while it lives. The deny routes are
// in place before slirp4netns starts (netns.Install).
func build(ctx context.Context, seq *wire.Seq, rep *reporter, entry launcher.Entry) (*assembled, *launch.Plan, error) {
	if err := hello(rep, entry.Mapping); err != nil {
		return nil, nil, err
	}
	faults.Point("start.rs.hello-sent")
	a := &assembled{}
	plan, file, err := receivePlan(seq)
	if err != nil {
		return nil, nil, err
	}
	a.plan = file
	faults.Point("start.rs.plan-received")
	rep.log.Info("plan", "domain", plan.DomainID, "generation", plan.Generation)

	if a.netns, err = netns.Create(&plan.Network, netfaults.Read().DropDeny); err != nil {
		return a, plan, &stepError{"network", err}
	}
	faults.Point("start.rs.netns")
	if a.slirp, err = slirp.Start(ctx, &plan.Slirp, &plan.Network, a.netns.Outer); err != nil {
		return a, plan, &stepError{"network", err}
	}
	faults.Point("start.rs.slirp")
	rep.log.Info("slirp4netns", "pid", a.slirp.Child.PID, "sandboxed", a.slirp.Sandboxed)
	made, err := mounts.Assemble(plan, a.netns.Inner)
	if err != nil {
		return a, plan, &stepError{"anchor", err}
	}
	faults.Point("start.rs.mounted")
	a.view = made.View
	rep.send(handoff.KindAnchorReady, handoff.AnchorReady{MountIDs: made.IDs})
	return a, plan, nil
}

// hello introduces the supervisor.
func hello(rep *reporter, mapping handoff.Mapping) error {
	self, err := proc.Identify(os.Getpid())
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Stat("/proc/self/ns/mnt", &st); err != nil {
		return os.NewSyscallError("stat mount namespace", err)
	}
	rep.send(handoff.KindHello, handoff.Hello{Version: handoff.Version, Proc: self, Mapping: mapping, MntNS: st.Ino})
	return nil
}

// receivePlan receives the plan's announcement and reads it.
func receivePlan(seq *wire.Seq) (*launch.Plan, *os.File, error) {
	var h handoff.PlanHeader
	p, err := seq.Expect(handoff.KindPlan, &h, 1)
	if err != nil {
		return nil, nil, fmt.Errorf("receive plan: %w", err)
	}
	plan, err := readPlan(p.Files[0], h.Size)
	if err != nil {
		p.CloseFiles()
		return nil, nil, err
	}
	return plan, p.Files[0], nil
}

// readPlan reads a plan from a memfd that nobody can change any more.
func readPlan(f *os.File, size int64) (*launch.Plan, error) {
	const want = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
	seals, err := unix.FcntlInt(f.Fd(), unix.F_GET_SEALS, 0)
	if err != nil {
		return nil, fmt.Errorf("read plan: %w", os.NewSyscallError("fcntl F_GET_SEALS", err))
	}
	if seals&want != want {
		return nil, fmt.Errorf("read plan: it is not sealed (%#x)", seals)
	}
	if size <= 0 || size > maxPlan {
		return nil, fmt.Errorf("read plan: %d bytes, limit %d", size, maxPlan)
	}
	b := make([]byte, size)
	if _, err := f.ReadAt(b, 0); err != nil {
		return nil, fmt.Errorf("read plan: %w", err)
	}
	return launch.Decode(b)
}

// become enters the outer network namespace, which enforces the policy, and
// replaces the process image, so that every thread of the next one is inside.
// It returns only an error.
//
// The calling thread is the one that started slirp4netns, and the one that
// survives the exec: the kernel gives it the process's identity, and with it
// keeps the children that it started. All others end.
func become(a *assembled, entry launcher.Entry) error {
	if err := unix.Setns(int(a.netns.Outer.Fd()), unix.CLONE_NEWNET); err != nil {
		return &stepError{"network", os.NewSyscallError("setns", err)}
	}
	view, err := a.view.Encode()
	if err != nil {
		return &stepError{"handoff", err}
	}
	faults.Point("start.rs.namespace-entered")
	argv := []string{
		"lazaret-supervisor", modeServe,
		"--view-fds=" + view,
		"--parent=" + strconv.Itoa(entry.Parent),
		"--death=" + strconv.Itoa(int(entry.Death)),
		"--plan-fd=" + strconv.Itoa(int(a.plan.Fd())),
		"--slirp=" + strconv.Itoa(a.slirp.Child.PID),
		"--slirp-exit-fd=" + strconv.Itoa(int(a.slirp.Exit.Fd())),
		"--slirp-sandboxed=" + strconv.FormatBool(a.slirp.Sandboxed),
	}
	for _, fd := range []uintptr{handoff.SocketFD, handoff.LogFD, a.plan.Fd(), a.slirp.Exit.Fd()} {
		if _, err := unix.FcntlInt(fd, unix.F_SETFD, 0); err != nil {
			return &stepError{"handoff", os.NewSyscallError("fcntl", err)}
		}
	}
	err = unix.Exec("/proc/self/exe", argv, os.Environ())
	return &stepError{"handoff", os.NewSyscallError("exec", err)}
}
