// Package guest holds what Lazaret itself needs done inside the sandbox: its
// pid 1, the start of a session's command and the end of a session.
//
// It runs in the sandbox, as any process there: it has no authority that the
// agent has not, and nothing on the host may depend on its honesty.
package guest

import (
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// Init is pid 1 of the sandbox: it keeps the sandbox alive between sessions and
// reaps what they leave behind. It ignores every signal that can be ignored, and
// returns only if it is not pid 1: there it would wait for nobody's children.
func Init() {
	if os.Getpid() != 1 {
		return
	}
	children := make(chan os.Signal, 1)
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1,
		syscall.SIGUSR2, syscall.SIGPIPE, syscall.SIGALRM, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU)
	signal.Notify(children, syscall.SIGCHLD)
	for {
		reap()
		<-children
	}
}

// reap takes the status of every child that has ended.
func reap() {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
	}
}
