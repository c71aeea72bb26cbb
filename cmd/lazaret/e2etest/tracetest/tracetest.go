// Package tracetest collects the logs of the coordinators that a test has had,
// and replays what they have done through the protocol.
//
// It is used by end-to-end tests only and runs in their processes. It reads
// logs and changes nothing.
package tracetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"lazaret.dev/lazaret/protocol/trace"
)

// Logs are the logs of all coordinators of one home. Their files are held open
// from when they are first seen, since old ones are removed. It is safe for
// concurrent use.
type Logs struct {
	within string

	mu      sync.Mutex
	logs    map[string]*generationLog // by directory
	foreign map[string]bool           // Domain Roots of other homes
}

// generationLog is the log of one generation's coordinator.
type generationLog struct {
	file *os.File
	ran  bool // the generation has come as far as to start something
	cut  bool // the log's beginning is lost
}

// New returns the logs of a home whose projects, or whose data roots, lie
// beneath a directory.
func New(within string) *Logs {
	return &Logs{within: within, logs: map[string]*generationLog{}, foreign: map[string]bool{}}
}

// Collect looks for logs in a data root. To be called before each command: none
// makes so many generations that a log would be removed unseen.
func (l *Logs) Collect(data string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, domain := range list(filepath.Join(data, "domains")) {
		if l.foreign[domain] || !l.owns(data, domain) {
			continue
		}
		for _, dir := range list(filepath.Join(domain, "log")) {
			if l.logs[dir] != nil {
				continue
			}
			f, err := os.Open(filepath.Join(dir, "coordinator.log"))
			if errors.Is(err, fs.ErrNotExist) {
				continue // the directory is being made, or removed
			}
			if err != nil {
				return fmt.Errorf("collect traces: %w", err)
			}
			l.logs[dir] = &generationLog{file: f}
		}
	}
	for dir, g := range l.logs {
		g.ran = g.ran || size(filepath.Join(dir, "supervisor.log")) > 0 || size(filepath.Join(dir, "slirp.log")) >= 0 || size(filepath.Join(dir, "runsc.log")) >= 0
		g.cut = g.cut || size(filepath.Join(dir, "coordinator.log.1")) >= 0
	}
	return nil
}

// owns tells whether a Domain is of this home. What cannot be told yet is not.
func (l *Logs) owns(data, domain string) bool {
	if strings.HasPrefix(data, l.within+"/") {
		return true
	}
	b, err := os.ReadFile(filepath.Join(domain, "domain.json"))
	if err != nil {
		return false
	}
	var rec struct {
		Workspace string `json:"workspace"`
	}
	if json.Unmarshal(b, &rec) != nil {
		return false
	}
	ours := strings.HasPrefix(rec.Workspace, l.within+"/")
	l.foreign[domain] = !ours
	return ours
}

// list returns what a directory holds, or nothing where there is none.
func list(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		out = append(out, filepath.Join(dir, e.Name()))
	}
	return out
}

// size is a file's size, or -1.
func size(path string) int64 {
	fi, err := os.Lstat(path)
	if err != nil {
		return -1
	}
	return fi.Size()
}

// All returns the contents of the logs.
func (l *Logs) All() ([][]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out [][]byte
	for _, g := range l.logs {
		b, err := io.ReadAll(g.reader())
		if err != nil {
			return nil, err
		}
		out = append(out, b)
	}
	return out, nil
}

// Replay takes what the coordinators have done through the protocol. It returns
// how many logs and steps that were, and what is wrong with a log. The files are
// closed.
func (l *Logs) Replay() (logs, steps int, wrong []error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for dir, g := range l.logs {
		r, err := g.replay()
		if err != nil {
			wrong = append(wrong, fmt.Errorf("the coordinator with the log in %s: %w", dir, err))
		}
		steps += r.Steps
		_ = g.file.Close()
	}
	return len(l.logs), steps, wrong
}

// replay takes one coordinator's trace through the protocol. That there is none,
// though the generation ran, is an error too.
func (g *generationLog) replay() (trace.Replayed, error) {
	if g.cut {
		return trace.Replayed{}, errors.New("the trace has lost its beginning")
	}
	r, err := trace.Replay(g.reader())
	switch {
	case err != nil:
		return r, fmt.Errorf("it has left the protocol: %w", err)
	case g.ran && r.Steps == 0:
		return r, errors.New("the generation ran and has no trace")
	}
	return r, nil
}

func (g *generationLog) reader() io.Reader {
	return io.NewSectionReader(g.file, 0, math.MaxInt64)
}
