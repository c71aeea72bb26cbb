package attach

import (
	"fmt"
	"sync"
	"time"

	"golang.org/x/term"

	"lazaret.dev/lazaret/host/internal/attach/ttymode"
)

// screen is the user's terminal while a session has it. Its methods do nothing
// on nil, which is a session without a terminal, and are safe for concurrent
// use.
type screen struct {
	stdio Stdio
	state *term.State

	mu    sync.Mutex
	modes ttymode.Tracker
	given bool
}

// takeScreen puts the user's terminal into raw mode.
func takeScreen(stdio Stdio) (*screen, error) {
	state, err := term.MakeRaw(int(stdio.In.Fd()))
	if err != nil {
		return nil, fmt.Errorf("cannot set the terminal to raw mode: %w", err)
	}
	return &screen{stdio: stdio, state: state}, nil
}

// watch follows what the session draws.
func (s *screen) watch(p []byte) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = s.modes.Write(p)
}

// offLimit bounds the wait for a terminal that takes no output.
const offLimit = 500 * time.Millisecond

// giveBack gives the terminal back as it was found, once. After a session that
// did not come to its own end it also switches off what was switched on inside:
// whoever did it cannot any more (case 19). A program that ends by itself may
// leave what it likes, as it may without a sandbox.
func (s *screen) giveBack(orderly bool) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.given {
		return
	}
	s.given = true
	if off := s.modes.Off(); !orderly && len(off) > 0 && IsTerminal(s.stdio.Out) {
		done := make(chan struct{})
		// It outlives giveBack only when the terminal is stopped, and then ends
		// with the process.
		go func() {
			defer close(done)
			_, _ = s.stdio.Out.Write(off)
		}()
		select {
		case <-done:
		case <-time.After(offLimit):
		}
	}
	_ = term.Restore(int(s.stdio.In.Fd()), s.state)
}
