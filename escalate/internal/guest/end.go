package guest

import (
	"bytes"
	"errors"
	"fmt"
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
	endLimit = 5 * time.Second        // in all
	interval = 10 * time.Millisecond
)

// End ends every process of a session: those whose session id is sid, and those
// whose environment carries the Client Session's id, which setsid does not
// shake off. They get HUP, TERM and CONT, then KILL until none is left. An error
// says how many are left after endLimit.
//
// A process that has changed both escapes until the sandbox ends. Sessions of
// one Domain are one trust domain (spec 2): the end of a session is tidiness,
// not a boundary.
func End(sid int, id string) error {
	if sid <= 1 && id == "" {
		return errors.New("no session to end")
	}
	start := time.Now()
	told := map[int]bool{}
	for clean := 0; ; {
		pids, err := members("/proc", sid, id)
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

// members returns the live processes of a session, without pid 1 and the caller.
func members(proc string, sid int, id string) ([]int, error) {
	d, err := os.Open(proc)
	if err != nil {
		return nil, err
	}
	defer func() { _ = d.Close() }()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var out []int
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid <= 1 || pid == os.Getpid() {
			continue
		}
		stat, err := os.ReadFile(proc + "/" + name + "/stat")
		if err != nil {
			continue // it has ended
		}
		state, session, ok := parseStat(stat)
		if !ok || state == 'Z' || state == 'X' {
			continue
		}
		if sid > 1 && session == sid || id != "" && hasVariable(proc+"/"+name+"/environ", sessionVariable+id) {
			out = append(out, pid)
		}
	}
	return out, nil
}

// parseStat returns the state and the session id of /proc/PID/stat. The
// command's name, which its process chooses, may hold anything: the fields
// begin behind the last parenthesis.
func parseStat(b []byte) (state byte, session int, ok bool) {
	i := bytes.LastIndexByte(b, ')')
	if i < 0 {
		return 0, 0, false
	}
	f := bytes.Fields(b[i+1:])
	if len(f) < 4 || len(f[0]) != 1 {
		return 0, 0, false
	}
	session, err := strconv.Atoi(string(f[3]))
	return f[0][0], session, err == nil
}

// hasVariable reports whether an environ file holds exactly this setting.
func hasVariable(file, setting string) bool {
	b, err := os.ReadFile(file)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(bytes.Split(b, []byte{0}), func(v []byte) bool { return string(v) == setting })
}
