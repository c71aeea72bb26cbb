// Package netns makes the pair of network namespaces that enforces a derived
// network policy, and attests it.
//
//	host's   slirp4netns: sockets
//	───────────┬──────────────────────────────────────────────────────────────
//	outer    tap0, without address    denied prefixes → lo, the rest → gateway
//	         up0, without ARP         forwards; the supervisor runs here
//	───────────┬──────────────────────────────────────────────────────────────
//	inner    tap0 = up0's peer        the sandbox's address, the same routes;
//	                                  runsc moves both into the sandbox's kernel
//
// Two, since routes in the namespace that runsc reads are no boundary: the
// sandbox's kernel goes by the address or interface that a socket is bound to
// and passes a loopback route by. The outer namespace's kernel forwards by
// destination alone, and also for a sentry that is no longer itself. What it
// forwards to lo comes back addressed to nobody and is dropped (nobodyMAC). The
// inner routes make a denied connection fail without leaving the sandbox, and
// are what its prober sees.
//
// The package installs exactly the policy, observes what the kernel really
// holds, and decides nothing. It is the only one that speaks rtnetlink. It
// runs in the Runtime Supervisor: Create before the supervisor enters the
// outer namespace, Observe and DropRoute inside it.
package netns

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/protocol/netpolicy"
	"lazaret.dev/lazaret/supervisor/internal/netns/internal/sysctl"
)

// Pair is the two namespaces. The descriptors are close-on-exec and keep them
// alive.
type Pair struct {
	Outer, Inner *os.File
}

// Close closes both descriptors.
func (p *Pair) Close() { _ = errors.Join(p.Outer.Close(), p.Inner.Close()) }

// Fault is the index of a deny route that a fault point leaves out or takes
// away, for each namespace; below zero it is none.
type Fault struct {
	Outer, Inner int
}

// NoFault leaves everything in place.
var NoFault = Fault{Outer: -1, Inner: -1}

// Create makes the pair with the policy installed, but for what a fault leaves
// out. The caller owns the pair.
//
// The work is done on a thread of its own, which ends with the call: the
// caller's thread never leaves its namespace.
func Create(p *netpolicy.Policy, f Fault) (*Pair, error) {
	var pair *Pair
	err := onThread(func() (err error) {
		pair, err = create(p, f)
		return err
	})
	return pair, err
}

// onThread runs f on a thread that ends with it, so that f may change the
// thread's namespaces. The calling goroutine must be locked to its own thread,
// lest that one be taken.
func onThread(f func() error) error {
	c := make(chan error)
	go func() {
		// Never unlocked: the runtime ends the thread with the goroutine.
		runtime.LockOSThread()
		c <- f()
	}()
	return <-c
}

// within runs f in another network namespace, on a thread that ends with it.
func within(ns *os.File, f func() error) error {
	return onThread(func() error {
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			return os.NewSyscallError("setns", err)
		}
		return f()
	})
}

// create makes the pair on the calling thread and leaves it in the outer
// namespace.
//
// Order: what new interfaces are to be like comes first (no IPv6, no
// forwarding, nothing accepted). Then the deny routes, before there is an
// interface that leads anywhere; then the tap, the link to the sandbox, the
// routes that lead out, and forwarding last. So at no moment a denied
// destination has another route. slirp4netns attaches after all of this, and
// nothing runs in the inner namespace before it was attested.
// TestMissingDenyRoute is the test to run when touching it.
func create(p *netpolicy.Policy, f Fault) (_ *Pair, err error) {
	outer, err := newNamespace()
	if err != nil {
		return nil, err
	}
	inner, err := newNamespace()
	if err != nil {
		_ = outer.Close()
		return nil, err
	}
	pair := &Pair{Outer: outer, Inner: inner}
	defer func() {
		if err != nil {
			pair.Close()
		}
	}()
	// This thread is in the inner one. A handle stays in the namespace in which
	// it was opened; /proc/sys and the tap follow the thread.
	ins, outs := innerSide(p), outerSide(p)
	ih, err := openClosed()
	if err != nil {
		return nil, err
	}
	defer ih.Close()
	if err := unix.Setns(int(outer.Fd()), unix.CLONE_NEWNET); err != nil {
		return nil, os.NewSyscallError("setns", err)
	}
	oh, err := openClosed()
	if err != nil {
		return nil, err
	}
	defer oh.Close()

	for _, step := range []struct {
		name string
		run  func() error
	}{
		{"outer namespace: ", func() error { return oh.deny(outs, f.Outer) }},
		{"inner namespace: ", func() error { return ih.deny(ins, f.Inner) }},
		{"make " + netpolicy.TapName + ": ", func() error { return persistentTap(netpolicy.TapName) }},
		{"make " + upName + ": ", func() error { return oh.veth(p, inner) }},
		{"inner namespace: ", func() error { return ih.allow(ins) }},
		{"outer namespace: ", func() error { return oh.allow(outs) }},
		{"outer namespace: ", func() error { return sysctl.Set(outs.last) }},
	} {
		if err := step.run(); err != nil {
			return nil, fmt.Errorf("%s%w", step.name, err)
		}
	}
	return pair, nil
}

// newNamespace moves the calling thread into a new network namespace.
func newNamespace() (*os.File, error) {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return nil, os.NewSyscallError("unshare CLONE_NEWNET", err)
	}
	return os.Open("/proc/thread-self/ns/net")
}

// DropRoute removes deny routes, the calling thread's namespace being the outer
// one. Only a fault point calls it.
func DropRoute(p *netpolicy.Policy, inner *os.File, f Fault) error {
	return errors.Join(outerSide(p).drop(f.Outer), within(inner, func() error { return innerSide(p).drop(f.Inner) }))
}
