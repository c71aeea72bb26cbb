package mounts

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/supervisor/internal/fdfs"
)

// option is one mount option.
type option struct{ key, value string }

// mountFS makes a new filesystem and returns its detached mount, close-on-exec
// and the caller's. What the kernel says about a refusal becomes part of the
// error.
func mountFS(fstype string, options []option, attr int) (int, error) {
	fs, err := unix.Fsopen(fstype, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, os.NewSyscallError("fsopen "+fstype, err)
	}
	defer func() { _ = unix.Close(fs) }()
	for _, o := range options {
		if o.value == "" {
			err = unix.FsconfigSetFlag(fs, o.key)
		} else {
			err = unix.FsconfigSetString(fs, o.key, o.value)
		}
		if err != nil {
			return -1, &FSError{fstype, o.key, err, kernelLog(fs)}
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, &FSError{fstype, "", err, kernelLog(fs)}
	}
	m, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, attr)
	if err != nil {
		return -1, &FSError{fstype, "", err, kernelLog(fs)}
	}
	return m, nil
}

// FSError reports that the kernel refused a filesystem.
type FSError struct {
	Type   string
	Option string // the refused option, or empty
	Err    error
	Log    string // the kernel's own words, or empty
}

func (e *FSError) Error() string {
	s := e.Type
	if e.Option != "" {
		s += " option " + e.Option
	}
	s += ": " + e.Err.Error()
	if e.Log != "" {
		s += " (" + e.Log + ")"
	}
	return s
}

func (e *FSError) Unwrap() error { return e.Err }

// Hint says what overlay filesystems need.
func (e *FSError) Hint() string {
	if e.Type != "overlay" {
		return ""
	}
	return "overlay filesystems in a user namespace need a data root on a filesystem with extended attributes, such as ext4, xfs or btrfs (not NFS, and not another overlay)"
}

// kernelLog reads the messages that a filesystem context holds.
func kernelLog(fs int) string {
	var out []string
	buf := make([]byte, 1024)
	for len(out) < 8 {
		n, err := unix.Read(fs, buf)
		if err != nil || n <= 0 {
			break
		}
		out = append(out, strings.TrimSpace(string(buf[:n])))
	}
	return strings.Join(out, "; ")
}

// attach moves a detached mount over the directory or file target.
func attach(mount, target int) error {
	err := unix.MoveMount(mount, "", target, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
	return os.NewSyscallError("move_mount", err)
}

// bind mounts src, with all that is mounted below it, over target. Set-id bits
// and device files do not work there.
//
// Recursive, and not by choice: mounts below src that came from the host are
// locked together in this namespace, and the kernel refuses to reveal what
// they cover.
func bind(src, target int, readOnly bool) error {
	m, err := unix.OpenTree(src, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|unix.AT_RECURSIVE)
	if err != nil {
		return os.NewSyscallError("open_tree", err)
	}
	defer func() { _ = unix.Close(m) }()
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	if readOnly {
		attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	if err := unix.MountSetattr(m, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
		return os.NewSyscallError("mount_setattr", err)
	}
	return attach(m, target)
}

// overlay mounts an overlay of the lower directories, topmost first, over
// target. state is the directory that holds "upper" and "work". It returns the
// mount, which the caller closes.
//
// Directories are named by descriptor, so that colons, commas, backslashes and
// newlines in host paths mean nothing.
func overlay(lowers []int, state, target int) (_ int, err error) {
	upper, err := fdfs.Open(state, "upper", unix.O_PATH|unix.O_DIRECTORY, true)
	if err != nil {
		return -1, err
	}
	defer func() { _ = unix.Close(upper) }()
	work, err := fdfs.Open(state, "work", unix.O_PATH|unix.O_DIRECTORY, true)
	if err != nil {
		return -1, err
	}
	defer func() { _ = unix.Close(work) }()

	// The merged directory has the upper one's attributes. One that was never
	// mounted gets the image's; later the sandbox's own changes count. The kernel
	// makes work/work at the first mount.
	if _, err := fdfs.Open(work, "work", unix.O_PATH|unix.O_DIRECTORY, true); errors.Is(err, os.ErrNotExist) {
		st, err := fdfs.Stat(lowers[len(lowers)-1])
		if err != nil {
			return -1, err
		}
		if err := fdfs.CopyAttributes(upper, &st); err != nil {
			return -1, err
		}
	}
	names := make([]string, len(lowers))
	for i, l := range lowers {
		names[i] = fdfs.Path(l)
	}
	m, err := mountFS("overlay", []option{
		{"source", "lazaret"},
		{"lowerdir", strings.Join(names, ":")},
		{"upperdir", fdfs.Path(upper)},
		{"workdir", fdfs.Path(work)},
		{"userxattr", ""},
		// Where the kernel's default is on, an upper directory whose last overlay
		// is not quite gone would be refused.
		{"index", "off"},
	}, 0)
	if err != nil {
		return -1, err
	}
	if err := attach(m, target); err != nil {
		_ = unix.Close(m)
		return -1, fmt.Errorf("overlay: %w", err)
	}
	return m, nil
}
