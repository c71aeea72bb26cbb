package e2etest

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Proc is one process that belongs to a home's Domains.
type Proc struct {
	PID  int
	PPID int
	// Start is the start time: with it, a reused pid is another process.
	Start string
	Name  string // "lazaret run", "lazaret _coordinator", "lazaret-supervisor", "runsc run", "runsc-gofer", "runsc-sandbox", "slirp4netns"
	Args  []string
}

// Processes lists the living processes of this home: those whose arguments or
// environment name its runtime directory, and their descendants. A zombie is
// dead.
func (h *Home) Processes() []Proc {
	h.tb.Helper()
	type entry struct {
		Proc
		ours bool
	}
	all := map[int]*entry{}
	h.mu.Lock()
	leaders := maps.Clone(h.leaders)
	h.mu.Unlock()
	dirs, err := os.ReadDir("/proc")
	if err != nil {
		h.tb.Fatal(err)
	}
	for _, d := range dirs {
		pid, err := strconv.Atoi(d.Name())
		if err != nil || pid == os.Getpid() || leaders[pid] {
			continue
		}
		dir := filepath.Join("/proc", d.Name())
		f := procStat(pid)
		if f == nil {
			continue
		}
		ppid, _ := strconv.Atoi(f[1])
		cmdline, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		environ, _ := os.ReadFile(filepath.Join(dir, "environ"))
		args := strings.Split(strings.TrimRight(string(cmdline), "\x00"), "\x00")
		all[pid] = &entry{
			Proc: Proc{PID: pid, PPID: ppid, Start: f[19], Name: procName(args), Args: args},
			ours: strings.Contains(string(cmdline), h.Runtime) || strings.Contains(string(environ), h.Runtime),
		}
	}
	for changed := true; changed; {
		changed = false
		for _, e := range all {
			if p := all[e.PPID]; !e.ours && p != nil && p.ours {
				e.ours, changed = true, true
			}
		}
	}
	var out []Proc
	for _, e := range all {
		if e.ours {
			out = append(out, e.Proc)
		}
	}
	return out
}

// procStat returns the fields of a living process's stat from its state on; nil
// for one that is gone, or a zombie.
func procStat(pid int) []string {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return nil
	}
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(f) < 20 || f[0] == "Z" || f[0] == "X" {
		return nil
	}
	return f
}

// Alive reports whether exactly this process lives.
func (p Proc) Alive() bool {
	f := procStat(p.PID)
	return f != nil && f[19] == p.Start
}

// Gone fails the test unless, within the given time, none of the processes that
// were there is left: NothingLeft cannot see one whose parents are gone and
// whose arguments do not name the home.
func (h *Home) Gone(were []Proc, within time.Duration) {
	h.tb.Helper()
	var left []Proc
	Eventually(h.tb, within, func() bool {
		left = slices.DeleteFunc(slices.Clone(were), func(p Proc) bool { return !p.Alive() })
		return len(left) == 0
	}, func() string { return fmt.Sprintf("left: %+v", left) })
}

func procName(args []string) string {
	name := filepath.Base(args[0])
	switch name {
	case "lazaret":
		if len(args) > 1 {
			return name + " " + args[1]
		}
	case "runsc":
		for _, a := range args[1:] {
			if !strings.HasPrefix(a, "-") {
				return name + " " + a
			}
		}
	}
	return name
}

// Find returns the process of that name, waiting for it.
func (h *Home) Find(name string) Proc {
	h.tb.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		for _, p := range h.Processes() {
			if p.Name == name {
				return p
			}
		}
		if time.Now().After(deadline) {
			h.tb.Fatalf("no process %q; there are %v", name, h.Processes())
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// NothingLeft fails the test unless, within the given time, no process, no
// mount, and no socket of this home is left.
func (h *Home) NothingLeft(within time.Duration) {
	h.tb.Helper()
	deadline := time.Now().Add(within)
	for {
		left := h.leftovers()
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			h.tb.Fatalf("left after %s:\n%s", within, strings.Join(left, "\n"))
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (h *Home) leftovers() []string {
	var left []string
	for _, p := range h.Processes() {
		left = append(left, "process "+strconv.Itoa(p.PID)+" "+strings.Join(p.Args, " "))
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		h.tb.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, h.Runtime) {
			left = append(left, "mount "+line)
		}
	}
	_ = filepath.WalkDir(h.Runtime, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type()&os.ModeSocket != 0 {
			left = append(left, "socket "+path)
		}
		return nil
	})
	return left
}
