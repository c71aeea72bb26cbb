package e2etest

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Proc is one process that belongs to a home's Domains.
type Proc struct {
	PID  int
	Name string // "lazaret run", "lazaret _coordinator", "lazaret-supervisor", "runsc run", "runsc-gofer", "runsc-sandbox", "slirp4netns"
	Args []string
}

// Processes lists the living processes of this home: those whose arguments or
// environment name its runtime directory, and their descendants. A zombie is
// dead.
func (h *Home) Processes() []Proc {
	h.tb.Helper()
	type entry struct {
		Proc
		ppid int
		ours bool
	}
	all := map[int]*entry{}
	dirs, err := os.ReadDir("/proc")
	if err != nil {
		h.tb.Fatal(err)
	}
	for _, d := range dirs {
		pid, err := strconv.Atoi(d.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		dir := filepath.Join("/proc", d.Name())
		stat, err := os.ReadFile(filepath.Join(dir, "stat"))
		if err != nil {
			continue
		}
		f := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if len(f) < 2 || f[0] == "Z" || f[0] == "X" {
			continue
		}
		ppid, _ := strconv.Atoi(f[1])
		cmdline, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		environ, _ := os.ReadFile(filepath.Join(dir, "environ"))
		args := strings.Split(strings.TrimRight(string(cmdline), "\x00"), "\x00")
		all[pid] = &entry{
			Proc: Proc{PID: pid, Name: procName(args), Args: args}, ppid: ppid,
			ours: strings.Contains(string(cmdline), h.Runtime) || strings.Contains(string(environ), h.Runtime),
		}
	}
	for changed := true; changed; {
		changed = false
		for _, e := range all {
			if p := all[e.ppid]; !e.ours && p != nil && p.ours {
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
