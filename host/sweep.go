package host

import (
	"time"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/host/internal/control"
	"lazaret.dev/lazaret/host/internal/generation"
)

// sweepTimeout bounds the wait for a dead coordinator's lock.
const sweepTimeout = time.Second

// sweep removes the sockets of a coordinator that could not do it any more.
// Nobody else would before the next start. Whoever holds the lock has its own,
// or is about to.
func (c *client) sweep(dead *control.Conn) {
	// The end of a process is no instant: its connections may be closed before
	// its lock is.
	for deadline := time.Now().Add(sweepTimeout); !c.leave(dead) && time.Now().Before(deadline); {
		time.Sleep(joinPoll)
	}
}

// leave is sweep without waiting. dead may be nil: when this process comes to no
// coordinator, only what it has made itself is to go. It reports whether it got
// the Domain lock.
func (c *client) leave(dead *control.Conn) bool {
	lock, err := c.root.OpenLock()
	if err != nil {
		return true // nothing can be left of a Domain without a lock
	}
	defer lock.Close()
	if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		return false
	}
	if dead != nil {
		dead.Sweep()
	}
	c.leaveLocked()
	return true
}

// leaveLocked removes the Domain's runtime directory if nothing is in it. The
// caller holds the Domain lock.
func (c *client) leaveLocked() {
	for _, rt := range c.host.Runtimes() {
		_ = generation.RemoveRuntime(rt.DomainPath(c.domain.ID))
	}
}
