// Package vital looks whether everything lives that a generation cannot live
// without. It decides nothing and ends nothing: what is dead is reported by
// whoever supervises it, only later. It runs in the Host Coordinator.
package vital

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"lazaret.dev/lazaret/host/internal/recovery"
	"lazaret.dev/lazaret/protocol/handoff"
)

// Signs are what has to live. The zero value needs nothing. Its methods are
// safe for concurrent use.
type Signs struct {
	mu     sync.Mutex
	procs  []handoff.Proc
	socket string // which somebody must serve, or empty
}

// Process adds a process.
func (s *Signs) Process(p handoff.Proc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.procs = append(s.procs, p)
}

// Sandbox adds what the runsc client has made: the socket at which the sandbox
// answers, and the processes that have runsc's state directory stateDir. They
// are found by what they are called with, which is for nothing but this.
func (s *Signs) Sandbox(stateDir, socket string) error {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return fmt.Errorf("look for the sandbox's processes: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.socket = socket
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		b, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err != nil {
			continue // it has ended, or is another user's
		}
		args := strings.Split(string(b), "\x00")
		if args[0] != "runsc-sandbox" && args[0] != "runsc-gofer" || !slices.Contains(args, "--root="+stateDir) {
			continue
		}
		if p, err := recovery.ProcOf(pid); err == nil {
			s.procs = append(s.procs, p)
		}
	}
	return nil
}

// Alive reports whether all of it lives.
func (s *Signs) Alive() bool {
	s.mu.Lock()
	procs, socket := slices.Clone(s.procs), s.socket
	s.mu.Unlock()
	for _, p := range procs {
		if now, err := recovery.ProcOf(p.PID); err != nil || now != p {
			return false
		}
	}
	if socket == "" {
		return true
	}
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}
