package session

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/protocol/control"
)

// openPTY opens a terminal of the given size; it has it before any program is
// there to look. The master does not block, so that Close ends a Read or a
// Write. The slave passes bytes on as they are: the line discipline is that of
// the command's own terminal in the sandbox. Output is still made fit for a
// screen, for what is said before that terminal is there.
func openPTY(size control.Size) (master, slave *os.File, err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, &os.PathError{Op: "open", Path: "/dev/ptmx", Err: err}
	}
	master = os.NewFile(uintptr(fd), "/dev/ptmx")
	defer func() {
		if err != nil {
			_ = master.Close()
		}
	}()
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return nil, nil, os.NewSyscallError("ioctl TIOCSPTLCK", err)
	}
	// By descriptor: the name in /dev/pts may be another mount's.
	peer, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		return nil, nil, os.NewSyscallError("ioctl TIOCGPTPEER", errno)
	}
	slave = os.NewFile(peer, "pty")
	if err = setSize(master, size); err == nil {
		err = passThrough(int(peer))
	}
	if err != nil {
		_ = slave.Close()
		return nil, nil, err
	}
	return master, slave, nil
}

// passThrough takes a terminal's input discipline away.
func passThrough(fd int) error {
	t, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return os.NewSyscallError("ioctl TCGETS", err)
	}
	t.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
	t.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	t.Cc[unix.VMIN], t.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, t); err != nil {
		return os.NewSyscallError("ioctl TCSETS", err)
	}
	return nil
}

// setSize sets a terminal's size by its master. The kernel raises SIGWINCH in
// the foreground process group when it is another.
func setSize(master *os.File, size control.Size) error {
	c, err := master.SyscallConn()
	if err != nil {
		return err
	}
	var serr error
	if err := c.Control(func(fd uintptr) {
		serr = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: size.Rows, Col: size.Cols})
	}); err != nil {
		return err
	}
	if serr != nil {
		return fmt.Errorf("set terminal size: %w", os.NewSyscallError("ioctl TIOCSWINSZ", serr))
	}
	return nil
}
