package host

import (
	"os"
	"time"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/host/internal/control"
)

// sweepTimeout bounds the wait for a dead coordinator's lock.
const sweepTimeout = time.Second

// sweep removes what a coordinator has left that could not do it any more.
// Nobody else would before the next start. Whoever holds the lock has its own,
// or is about to.
func (c *client) sweep() {
	// The end of a process is no instant: its connections may be closed before
	// its lock is.
	for deadline := time.Now().Add(sweepTimeout); !c.leave() && time.Now().Before(deadline); {
		time.Sleep(joinPoll)
	}
}

// leave is sweep without waiting, also for what this process itself has made
// when it comes to no coordinator. It reports whether it got the Domain lock.
func (c *client) leave() bool {
	lock, err := c.root.OpenLock()
	if err != nil {
		return true // nothing can be left of a Domain without a lock
	}
	defer lock.Close()
	if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		return false
	}
	c.sweepLocked()
	return true
}

// sweepLocked is sweep for the holder of the Domain lock: it removes the
// sockets, and the runtime directory if nothing else is in it.
func (c *client) sweepLocked() {
	for _, rt := range c.host.Runtimes() {
		dir := rt.DomainPath(c.domain.ID)
		control.Sweep(dir)
		_ = os.Remove(dir)
	}
}
