// Package fsmount makes mounts without a path: new filesystems, and clones of
// trees of the host, that are given their place by descriptor.
//
// It knows nothing of what they are for. It runs in the Runtime Supervisor.
package fsmount

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Option is one mount option; one without a value is a flag.
type Option struct{ Key, Value string }

// New makes a new filesystem and returns its detached mount, close-on-exec
// and the caller's. What the kernel says about a refusal becomes part of the
// error.
func New(fstype string, options []Option, attr int) (int, error) {
	fs, err := unix.Fsopen(fstype, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, os.NewSyscallError("fsopen "+fstype, err)
	}
	defer func() { _ = unix.Close(fs) }()
	for _, o := range options {
		if o.Value == "" {
			err = unix.FsconfigSetFlag(fs, o.Key)
		} else {
			err = unix.FsconfigSetString(fs, o.Key, o.Value)
		}
		if err != nil {
			return -1, &FSError{fstype, o.Key, err, kernelLog(fs)}
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

// Attach moves a detached mount over the directory or file target.
func Attach(mount, target int) error {
	err := unix.MoveMount(mount, "", target, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
	return os.NewSyscallError("move_mount", err)
}

// Clone returns a detached mount of src, with all that is mounted below it. Set-id
// bits and device files do not work there. The caller closes it.
//
// Recursive, and not by choice: mounts below src that came from the host are
// locked together in this namespace, and the kernel refuses to reveal what
// they cover.
func Clone(src int, readOnly bool) (int, error) {
	m, err := unix.OpenTree(src, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|unix.AT_RECURSIVE)
	if err != nil {
		return -1, os.NewSyscallError("open_tree", err)
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	if readOnly {
		attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	if err := unix.MountSetattr(m, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
		_ = unix.Close(m)
		return -1, os.NewSyscallError("mount_setattr", err)
	}
	return m, nil
}
