package spawn

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// RaiseFileLimit raises the soft descriptor limit to the hard one, explicitly,
// so that children inherit it: gVisor holds a descriptor for each cached file
// (design section 7).
func RaiseFileLimit() error {
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
		return os.NewSyscallError("getrlimit", err)
	}
	lim.Cur = lim.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, (*syscall.Rlimit)(&lim)); err != nil {
		return os.NewSyscallError("setrlimit", err)
	}
	return nil
}
