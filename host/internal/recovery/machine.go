package recovery

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/protocol/handoff"
)

// namespaceOf is the inode of a process's namespace; 0 where it cannot be seen,
// which is so for other users' processes, and for those that are gone.
func namespaceOf(pid int, kind string) uint64 {
	var st unix.Stat_t
	if unix.Stat(fmt.Sprintf("/proc/%d/ns/%s", pid, kind), &st) != nil {
		return 0
	}
	return st.Ino
}

// processes lists the pids of this moment.
func processes() ([]int, error) {
	d, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var out []int
	for _, n := range names {
		if pid, err := strconv.Atoi(n); err == nil {
			out = append(out, pid)
		}
	}
	return out, nil
}

// marked is a process that says that it is of the generation.
type marked struct {
	handoff.Proc
	name string // its program's, for people
}

// markedBy lists the living processes in other user namespaces than this one
// whose environment or arguments hold one of a generation's names, which nobody
// else has: the supervisor's and the connectivity helper's environment, the
// arguments of runsc, its sentry and its gofer. A pager on a log has the name
// too, but is here.
func markedBy(names ...string) ([]marked, error) {
	pids, err := processes()
	if err != nil {
		return nil, err
	}
	here := namespaceOf(os.Getpid(), "user")
	var out []marked
	for _, pid := range pids {
		if ns := namespaceOf(pid, "user"); ns == 0 || ns == here {
			continue
		}
		args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // gone, or another's: no match
		env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if !holdsOne(string(args), names) && !holdsOne(string(env), names) {
			continue
		}
		p, err := ProcOf(pid)
		if errors.Is(err, errNoProcess) {
			continue
		}
		if err != nil {
			return nil, err
		}
		name, _, _ := strings.Cut(string(args), "\x00")
		out = append(out, marked{Proc: p, name: filepath.Base(name)})
	}
	return out, nil
}

func holdsOne(text string, names []string) bool {
	for _, n := range names {
		if n != "" && strings.Contains(text, n) {
			return true
		}
	}
	return false
}

// mount is one line of a mountinfo (proc_pid_mountinfo(5)).
type mount struct {
	id    uint64
	point string
	dev   uint64 // of the filesystem
}

// mountsOf lists the mounts at or beneath a directory in a process's mount
// namespace. It is empty where the process is gone.
func mountsOf(pid int, beneath string) ([]mount, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) || errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EINVAL) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	var out []mount
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 5 {
			return nil, fmt.Errorf("list mounts: malformed line %q", line)
		}
		point := unescape(f[4])
		if !within(point, beneath) {
			continue
		}
		id, err := strconv.ParseUint(f[0], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("list mounts: %w", err)
		}
		var major, minor uint32
		if _, err := fmt.Sscanf(f[2], "%d:%d", &major, &minor); err != nil {
			return nil, fmt.Errorf("list mounts: device %q: %w", f[2], err)
		}
		out = append(out, mount{id: id, point: point, dev: unix.Mkdev(major, minor)})
	}
	return out, nil
}

// within reports whether a path is a directory's or beneath it.
func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// unescape undoes the octal escapes of the kernel's mount tables.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// holder is a process that keeps mounts of a dead generation alive.
type holder struct {
	pid   int
	point string
}

// holding finds a process in the mount namespace in which one of the mounts is
// at or beneath dir, or nil. The namespace's number alone proves nothing: it is
// used again once the namespace is gone.
func holding(mntNS uint64, dir string) (*holder, error) {
	if mntNS == 0 || dir == "" {
		return nil, nil
	}
	pids, err := processes()
	if err != nil {
		return nil, err
	}
	for _, pid := range pids {
		if namespaceOf(pid, "mnt") != mntNS {
			continue
		}
		ms, err := mountsOf(pid, dir)
		if err != nil {
			return nil, err
		}
		if len(ms) > 0 {
			return &holder{pid: pid, point: ms[0].point}, nil
		}
	}
	return nil, nil
}
