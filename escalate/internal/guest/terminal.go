package guest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
	"unsafe"
)

// runOnTerminal runs a command on a terminal of the sandbox's own and returns
// its status as a shell would give it. The terminal that the session was given
// belongs to the host: it works, but has no name inside, so that tty(1), ps(1)
// and whoever opens a terminal by its name would find none (case 40). Bytes,
// size and signals are carried between the two; the job control is the inner
// one's. The command is in a session of its own, which ends with it.
func runOnTerminal(path string, argv, env []string) (int, error) {
	master, slave, err := openTerminal()
	if err != nil {
		return 0, &ExecError{Status: statusLazaret, Reason: "cannot open a terminal in the sandbox", Err: err}
	}
	defer func() { _ = master.Close() }()
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGWINCH, syscall.SIGHUP, syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT)
	defer signal.Stop(signals)
	// Its size is right before the command's first look.
	if err := copySize(os.Stdin, master); err != nil {
		_ = slave.Close()
		return 0, &ExecError{Status: statusLazaret, Reason: "cannot set the terminal's size", Err: err}
	}
	tty := slave.Fd()
	pid, err := syscall.ForkExec(path, argv, &syscall.ProcAttr{
		Env: env, Files: []uintptr{tty, tty, tty},
		Sys: &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0},
	})
	_ = slave.Close()
	if err != nil {
		return 0, execError(path, err)
	}
	t := &terminal{master: master, pid: pid, drained: make(chan struct{}), stops: make(chan struct{}, 1)}
	// What the inner terminal has made of a line, the outer one passes on.
	err = makeRaw(os.Stdin)
	go t.input()
	go t.output()
	go t.resume()
	ended := make(chan int, 1)
	go func() { ended <- t.wait() }()
	for {
		select {
		case s := <-signals:
			t.signal(s.(syscall.Signal)) //nolint:forcetypeassert // Notify sends no other
		case status := <-ended:
			// Jobs that it has left behind do not outlive the session (FR-15), and
			// hold the terminal open no longer: what it has drawn last comes to its
			// end.
			err = errors.Join(err, End(pid, ""))
			t.drain()
			return status, err
		}
	}
}

// terminal is the inner terminal of a running command.
type terminal struct {
	master  *os.File
	pid     int           // of the command, which leads its session
	drained chan struct{} // closed when output has ended
	stops   chan struct{} // the command may have stopped
}

// input carries what is typed. It ends with the process, in a Read.
func (t *terminal) input() {
	buf := make([]byte, 32<<10)
	for {
		n, err := os.Stdin.Read(buf)
		if _, werr := t.master.Write(buf[:n]); werr != nil {
			break
		}
		if bytes.IndexByte(buf[:n], stopKey) >= 0 {
			t.mayStop()
		}
		if err != nil {
			break
		}
	}
	t.hangUp() // the outer terminal is gone
}

// drainGrace bounds the wait for what was drawn last, should something that
// cannot be ended hold the terminal open.
const drainGrace = 500 * time.Millisecond

// output carries what is drawn until the terminal has nothing more to say: EIO,
// when the last process has closed it.
func (t *terminal) output() {
	defer close(t.drained)
	buf := make([]byte, 32<<10)
	for {
		n, err := t.master.Read(buf)
		if n > 0 {
			_, _ = os.Stdout.Write(buf[:n]) // an outer terminal that is gone takes nothing
		}
		if err != nil {
			return
		}
	}
}

// drain waits for what the command has drawn last.
func (t *terminal) drain() {
	select {
	case <-t.drained:
	case <-time.After(drainGrace):
	}
}

// signal passes a signal on that came to the session from outside.
func (t *terminal) signal(s syscall.Signal) {
	switch s {
	case syscall.SIGWINCH:
		_ = copySize(os.Stdin, t.master) // the terminal is there as long as its command
	case syscall.SIGHUP, syscall.SIGTERM:
		t.hangUp()
	default:
		t.foreground(s)
	}
}

// hangUp does to the command what the end of a terminal does.
func (t *terminal) hangUp() {
	t.foreground(syscall.SIGHUP)
	_ = syscall.Kill(t.pid, syscall.SIGHUP)
	_ = syscall.Kill(t.pid, syscall.SIGCONT)
}

// foreground signals the foreground process group.
func (t *terminal) foreground(s syscall.Signal) {
	var pgrp int32
	if ioctl(t.master, syscall.TIOCGPGRP, unsafe.Pointer(&pgrp)) == nil && pgrp > 1 {
		_ = syscall.Kill(-int(pgrp), s)
	}
}

// wait reaps the command and returns its status as a shell would give it.
func (t *terminal) wait() int {
	var ws syscall.WaitStatus
	for {
		_, err := syscall.Wait4(t.pid, &ws, syscall.WUNTRACED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil:
			return statusLazaret
		case ws.Stopped():
			t.mayStop()
			continue
		case ws.Signaled():
			return 128 + int(ws.Signal())
		}
		return ws.ExitStatus()
	}
}

// stopKey is what ^Z sends, whatever it means to whoever reads it.
const stopKey = 0x1a

// mayStop has the command's process group looked at.
func (t *terminal) mayStop() {
	select {
	case t.stops <- struct{}{}:
	default: // it will be
	}
}

// The bounds of a look at a process group that may have stopped. gVisor stops
// its members one after another.
const (
	resumeFor  = time.Second
	resumePoll = 20 * time.Millisecond
)

// resume continues what stops in the command's own process group: nobody here
// could bring it back to the foreground. Linux does not even stop it, since the
// group is orphaned; gVisor does (a ^Z in a command that is no shell). A shell's
// jobs have groups of their own. It ends with the process.
func (t *terminal) resume() {
	for range t.stops {
		for began := time.Now(); time.Since(began) < resumeFor; time.Sleep(resumePoll) {
			if anyStopped("/proc", t.pid) {
				_ = syscall.Kill(-t.pid, syscall.SIGCONT)
			}
		}
	}
}

// openTerminal opens a new terminal of the sandbox. Its master blocks: each
// direction has a thread, and none waits for an event of gVisor's that says that
// a terminal has become readable.
func openTerminal() (master, slave *os.File, err error) {
	fd, err := syscall.Open("/dev/ptmx", syscall.O_RDWR|syscall.O_NOCTTY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, &os.PathError{Op: "open", Path: "/dev/ptmx", Err: err}
	}
	master = os.NewFile(uintptr(fd), "/dev/ptmx")
	defer func() {
		if err != nil {
			_ = master.Close()
		}
	}()
	var locked, number int32
	if err := ioctl(master, syscall.TIOCSPTLCK, unsafe.Pointer(&locked)); err != nil {
		return nil, nil, fmt.Errorf("unlock terminal: %w", err)
	}
	if err := ioctl(master, syscall.TIOCGPTN, unsafe.Pointer(&number)); err != nil {
		return nil, nil, fmt.Errorf("number of terminal: %w", err)
	}
	slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(int(number)), os.O_RDWR|syscall.O_NOCTTY, 0)
	return master, slave, err
}

// copySize gives one terminal the other's size.
func copySize(from, to *os.File) error {
	var size struct{ rows, cols, x, y uint16 }
	if err := ioctl(from, syscall.TIOCGWINSZ, unsafe.Pointer(&size)); err != nil {
		return err
	}
	return ioctl(to, syscall.TIOCSWINSZ, unsafe.Pointer(&size))
}

// makeRaw makes a terminal pass bytes on as they are (cfmakeraw in termios(3)).
func makeRaw(f *os.File) error {
	var t syscall.Termios
	if err := ioctl(f, syscall.TCGETS, unsafe.Pointer(&t)); err != nil {
		return fmt.Errorf("terminal mode: %w", err)
	}
	t.Iflag &^= syscall.IGNBRK | syscall.BRKINT | syscall.PARMRK | syscall.ISTRIP | syscall.INLCR | syscall.IGNCR | syscall.ICRNL | syscall.IXON
	t.Oflag &^= syscall.OPOST
	t.Lflag &^= syscall.ECHO | syscall.ECHONL | syscall.ICANON | syscall.ISIG | syscall.IEXTEN
	t.Cflag = t.Cflag&^(syscall.CSIZE|syscall.PARENB) | syscall.CS8
	t.Cc[syscall.VMIN], t.Cc[syscall.VTIME] = 1, 0
	if err := ioctl(f, syscall.TCSETS, unsafe.Pointer(&t)); err != nil {
		return fmt.Errorf("set terminal mode: %w", err)
	}
	return nil
}

// ioctl performs a request on f, whose argument p points to what the request
// names. It leaves f's own mode alone, as Fd would not.
func ioctl(f *os.File, request uintptr, p unsafe.Pointer) error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var errno syscall.Errno
	if err := c.Control(func(fd uintptr) {
		_, _, errno = syscall.Syscall(syscall.SYS_IOCTL, fd, request, uintptr(p))
	}); err != nil {
		return err
	}
	if errno != 0 {
		return errno
	}
	return nil
}
