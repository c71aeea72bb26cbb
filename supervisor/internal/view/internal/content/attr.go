package content

import (
	"errors"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/supervisor/internal/view/internal/object"
	"lazaret.dev/lazaret/supervisor/internal/view/internal/resolve"
	"lazaret.dev/lazaret/supervisor/internal/view/internal/store"
	"lazaret.dev/lazaret/supervisor/internal/view/internal/tree"
	"lazaret.dev/lazaret/supervisor/internal/view/policy"
)

// SetAttr says which attributes change.
type SetAttr struct {
	Size         *uint64
	Mode         *uint32
	UID, GID     *uint32
	Atime, Mtime *unix.Timespec // UTIME_NOW in Nsec for the present
}

// SetAttr changes attributes and returns the new ones.
func (v *Content) SetAttr(id uint64, s *SetAttr) (resolve.Attr, error) {
	if s.Size != nil {
		if err := v.truncate(id, *s.Size); err != nil {
			return resolve.Attr{}, err
		}
	}
	n, err := v.Node(id)
	if err != nil {
		return resolve.Attr{}, err
	}
	v.Topology.RLock()
	defer v.Topology.RUnlock()
	if s.Mode != nil || s.Atime != nil || s.Mtime != nil {
		if err := v.own(n); err != nil {
			return resolve.Attr{}, err
		}
	}
	n.Writing.RLock()
	defer n.Writing.RUnlock()
	if s.Mode != nil || s.UID != nil || s.GID != nil || s.Atime != nil || s.Mtime != nil {
		if err := v.setInode(n, s); err != nil {
			return resolve.Attr{}, err
		}
	}
	return v.Stat(n)
}

func (v *Content) truncate(id, size uint64) error {
	d, done, err := v.writing(id)
	if err != nil {
		return err
	}
	defer done()
	return resolve.Retry(func() error { return unix.Ftruncate(d.FD, int64(size)) })
}

// setInode changes mode, owner and times.
func (v *Content) setInode(n *tree.Node, s *SetAttr) error {
	d, err := v.Stores.Path(n)
	if err != nil {
		return err
	}
	defer v.Stores.Release(d)
	if s.UID != nil || s.GID != nil {
		if err := v.chown(n, d.FD, s); err != nil {
			return err
		}
	}
	if s.Mode != nil {
		if err := v.MayChange(n, policy.Chmod); err != nil {
			return err
		}
		if err := unix.Fchmodat(unix.AT_FDCWD, store.Proc(d.FD), object.KeepMode(*s.Mode), 0); err != nil {
			return err
		}
	}
	if s.Atime != nil || s.Mtime != nil {
		if err := v.MayChange(n, policy.Utimes); err != nil {
			return err
		}
		ts := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, {Nsec: unix.UTIME_OMIT}}
		for i, t := range []*unix.Timespec{s.Atime, s.Mtime} {
			if t != nil {
				ts[i] = *t
			}
		}
		return unix.UtimesNanoAt(d.FD, "", ts, unix.AT_EMPTY_PATH)
	}
	return nil
}

// chown gives an object to somebody inside. On the host it stays the
// developer's, and what was said is remembered; in Ignored Workspace State it
// is so, as in a State Anchor.
func (v *Content) chown(n *tree.Node, fd int, s *SetAttr) error {
	info, err := object.StatFD(fd)
	if err != nil {
		return err
	}
	st, _ := v.Tree.Identity(n)
	uid, gid := v.Owner(st, &info)
	want := resolve.Owner{UID: uid, GID: gid}
	if s.UID != nil {
		want.UID = *s.UID
	}
	if s.GID != nil {
		want.GID = *s.GID
	}
	if want == (resolve.Owner{UID: uid, GID: gid}) {
		return nil
	}
	if err := v.MayChange(n, policy.Chmod); err != nil {
		return err
	}
	if st == store.Domain {
		err := unix.Fchownat(fd, "", mapOwner(want.UID, v.UID), mapOwner(want.GID, v.GID), unix.AT_EMPTY_PATH)
		// An id that this namespace does not have.
		if !errors.Is(err, unix.EINVAL) {
			return err
		}
	}
	if want == (resolve.Owner{UID: v.UID, GID: v.GID}) && info.UID == 0 && info.GID == 0 {
		v.Owners.Forget(info.Key)
		return nil
	}
	v.Owners.Set(info.Key, want)
	return nil
}

// mapOwner is the id of somebody inside in the supervisor's namespace.
func mapOwner(id, developer uint32) int {
	if id == developer {
		return 0
	}
	return int(id)
}

// Extended attributes that may be used: those of users, but for the ones that
// would mean something to an overlay over the directory.
func allowed(name string) bool {
	return strings.HasPrefix(name, "user.") && !strings.HasPrefix(name, "user.overlay.")
}

// attributes opens what extended attributes are read from or written to. The
// kernel has none for users on anything but files and directories.
func (v *Content) attributes(n *tree.Node, f func(path string) error) error {
	d, err := v.Stores.Path(n)
	if err != nil {
		return err
	}
	defer v.Stores.Release(d)
	info, err := object.StatFD(d.FD)
	if err != nil {
		return err
	}
	if !info.IsRegular() && !info.IsDir() {
		return unix.EOPNOTSUPP
	}
	return f(store.Proc(d.FD))
}

// GetXAttr reads an extended attribute into b, or tells its size where b is
// empty.
func (v *Content) GetXAttr(id uint64, name string, b []byte) (size int, err error) {
	if !allowed(name) {
		return 0, unix.EOPNOTSUPP
	}
	n, err := v.Node(id)
	if err != nil {
		return 0, err
	}
	v.Topology.RLock()
	defer v.Topology.RUnlock()
	err = v.attributes(n, func(path string) error {
		size, err = unix.Getxattr(path, name, b)
		return err
	})
	return size, err
}

// ListXAttr returns the names of the extended attributes, each with a NUL.
func (v *Content) ListXAttr(id uint64) ([]byte, error) {
	n, err := v.Node(id)
	if err != nil {
		return nil, err
	}
	v.Topology.RLock()
	defer v.Topology.RUnlock()
	var out []byte
	err = v.attributes(n, func(path string) error {
		b := make([]byte, 64<<10)
		size, err := unix.Listxattr(path, b)
		if err != nil {
			return err
		}
		for name := range strings.SplitSeq(string(b[:size]), "\x00") {
			if allowed(name) {
				out = append(append(out, name...), 0)
			}
		}
		return nil
	})
	if errors.Is(err, unix.EOPNOTSUPP) {
		err = nil
	}
	return slices.Clip(out), err
}

// SetXAttr writes an extended attribute.
func (v *Content) SetXAttr(id uint64, name string, value []byte, flags int) error {
	return v.changeXAttr(id, name, func(path string) error { return unix.Setxattr(path, name, value, flags) })
}

// RemoveXAttr removes an extended attribute.
func (v *Content) RemoveXAttr(id uint64, name string) error {
	return v.changeXAttr(id, name, func(path string) error { return unix.Removexattr(path, name) })
}

func (v *Content) changeXAttr(id uint64, name string, f func(path string) error) error {
	if !allowed(name) {
		return unix.EOPNOTSUPP
	}
	n, err := v.Node(id)
	if err != nil {
		return err
	}
	v.Topology.RLock()
	defer v.Topology.RUnlock()
	if err := v.own(n); err != nil {
		return err
	}
	n.Writing.RLock()
	defer n.Writing.RUnlock()
	if err := v.MayChange(n, policy.Chmod); err != nil {
		return err
	}
	if err := v.attributes(n, f); err != nil {
		return err
	}
	n.SetSeen(tree.Seen{})
	return nil
}

// GetAttr describes a node.
func (v *Content) GetAttr(id uint64) (resolve.Attr, error) {
	n, err := v.Node(id)
	if err != nil {
		return resolve.Attr{}, err
	}
	v.Topology.RLock()
	defer v.Topology.RUnlock()
	if n.Dir != nil {
		// Before it is looked at.
		v.TTL(n)
	}
	return v.Stat(n)
}
