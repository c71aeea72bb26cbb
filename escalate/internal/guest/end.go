package guest

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// sessionVariable marks the processes of a session; the Host Coordinator sets it.
const sessionVariable = "LAZARET_SESSION_ID="

// The bounds of an end.
const (
	grace    = 500 * time.Millisecond // from TERM to KILL
	endLimit = 3 * time.Second        // in all
	interval = 10 * time.Millisecond
)

// End ends every process of a session: those whose session id is sid, their
// children and the sessions that these have made, and those whose environment
// carries the Client Session's id, which setsid does not shake off. They get HUP,
// TERM and CONT, then KILL until none is left. An error says how many are left
// after endLimit.
//
// A process that has changed all of it escapes until the sandbox ends. Sessions of
// one Domain are one trust domain (spec 2): the end of a session is tidiness,
// not a boundary.
func End(sid int, id string) error {
	if sid <= 1 && id == "" {
		return errors.New("no session to end")
	}
	start := time.Now()
	told := map[int]bool{}
	sids := map[int]bool{}
	if sid > 1 {
		sids[sid] = true
	}
	for clean := 0; ; {
		pids, err := members("/proc", sids, id)
		if err != nil {
			return err
		}
		// A scan of /proc can miss a process that is being forked: only the second
		// empty one counts.
		if len(pids) == 0 {
			if clean++; clean == 2 {
				return nil
			}
			continue
		}
		clean = 0
		passed := time.Since(start)
		if passed > endLimit {
			return fmt.Errorf("%d processes of the session are left", len(pids))
		}
		for _, pid := range pids {
			switch {
			case passed > grace:
				_ = syscall.Kill(pid, syscall.SIGKILL)
			case !told[pid]:
				told[pid] = true
				// An interactive shell ignores TERM; a stopped process sees
				// neither before CONT.
				for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGTERM, syscall.SIGCONT} {
					_ = syscall.Kill(pid, s)
				}
			}
		}
		time.Sleep(interval)
	}
}

// members returns the live processes of a session, without pid 1 and the
// caller, and adds the sessions that it finds them in to sids.
func members(proc string, sids map[int]bool, id string) ([]int, error) {
	all, err := processes(proc)
	if err != nil {
		return nil, err
	}
	ours := map[int]bool{}
	for changed := true; changed; {
		changed = false
		for pid, p := range all {
			// The caller is no member, and neither are its children for that.
			if pid == os.Getpid() || ours[pid] || !sids[p.session] && !ours[p.parent] {
				continue
			}
			changed, ours[pid], sids[p.session] = true, true, true
		}
	}
	out := slices.Collect(maps.Keys(ours))
	for pid := range all {
		if !ours[pid] && pid != os.Getpid() && id != "" && hasVariable(proc+"/"+strconv.Itoa(pid)+"/environ", sessionVariable+id) {
			out = append(out, pid)
		}
	}
	return out, nil
}

// anyStopped reports whether a process of the group has stopped.
func anyStopped(proc string, pgrp int) bool {
	all, err := processes(proc)
	return err == nil && slices.ContainsFunc(slices.Collect(maps.Values(all)), func(p process) bool {
		return p.pgrp == pgrp && p.state == 'T'
	})
}

// processes lists the live processes, without pid 1.
func processes(proc string) (map[int]process, error) {
	d, err := os.Open(proc)
	if err != nil {
		return nil, err
	}
	defer func() { _ = d.Close() }()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	all := map[int]process{}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid <= 1 {
			continue
		}
		stat, err := os.ReadFile(proc + "/" + name + "/stat")
		if err != nil {
			continue // it has ended
		}
		if p, ok := parseStat(stat); ok && p.state != 'Z' && p.state != 'X' {
			all[pid] = p
		}
	}
	return all, nil
}

// process is what /proc/PID/stat says of a process.
type process struct {
	state   byte
	parent  int
	pgrp    int
	session int
}

// parseStat reads /proc/PID/stat. The command's name, which its process chooses,
// may hold anything: the fields begin behind the last parenthesis.
func parseStat(b []byte) (process, bool) {
	i := bytes.LastIndexByte(b, ')')
	if i < 0 {
		return process{}, false
	}
	f := bytes.Fields(b[i+1:])
	if len(f) < 4 || len(f[0]) != 1 {
		return process{}, false
	}
	parent, perr := strconv.Atoi(string(f[1]))
	pgrp, gerr := strconv.Atoi(string(f[2]))
	session, serr := strconv.Atoi(string(f[3]))
	return process{state: f[0][0], parent: parent, pgrp: pgrp, session: session}, errors.Join(perr, gerr, serr) == nil
}

// hasVariable reports whether an environ file holds exactly this setting.
func hasVariable(file, setting string) bool {
	b, err := os.ReadFile(file)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(bytes.Split(b, []byte{0}), func(v []byte) bool { return string(v) == setting })
}
