// Package fskind says whether a directory's filesystem can hold the upper layer
// of an overlay. It runs in the Host Coordinator and in doctor, before anything
// is pulled. It mounts nothing; what it cannot know is left to the mount itself.
package fskind

import (
	"crypto/rand"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// kinds are the filesystems that matter here, by statfs magic number.
var kinds = map[int64]struct {
	name  string
	upper bool // the kernel takes it as an overlay's upper layer
}{
	unix.EXT4_SUPER_MAGIC:      {"ext4", true},
	unix.BTRFS_SUPER_MAGIC:     {"btrfs", true},
	unix.XFS_SUPER_MAGIC:       {"xfs", true},
	unix.F2FS_SUPER_MAGIC:      {"f2fs", true},
	unix.TMPFS_MAGIC:           {"tmpfs", true},
	0x2fc12fc1:                 {"zfs", true},
	0xca451a4e:                 {"bcachefs", true},
	unix.NFS_SUPER_MAGIC:       {"nfs", false},
	unix.SMB_SUPER_MAGIC:       {"smb", false},
	unix.SMB2_SUPER_MAGIC:      {"smb", false},
	unix.CIFS_SUPER_MAGIC:      {"cifs", false},
	unix.V9FS_MAGIC:            {"9p", false},
	unix.AFS_SUPER_MAGIC:       {"afs", false},
	unix.CEPH_SUPER_MAGIC:      {"ceph", false},
	unix.FUSE_SUPER_MAGIC:      {"fuse", false},
	unix.ECRYPTFS_SUPER_MAGIC:  {"ecryptfs", false},
	unix.OVERLAYFS_SUPER_MAGIC: {"overlay", false},
	unix.MSDOS_SUPER_MAGIC:     {"vfat", false},
	unix.EXFAT_SUPER_MAGIC:     {"exfat", false},
}

// Error says that a directory's filesystem cannot hold Lazaret's data.
type Error struct {
	Path string
	Type string // filesystem type
	Why  string
}

// Error implements error.
func (e *Error) Error() string {
	return fmt.Sprintf("cannot keep sandbox state in %q: its filesystem (%s) %s", e.Path, e.Type, e.Why)
}

// Hint says what to do.
func (e *Error) Hint() string {
	return "set data_root in [storage] to a directory on a local filesystem such as ext4, btrfs or xfs"
}

// Type returns the name of the filesystem of an existing directory; an unknown
// one by its number.
func Type(dir string) (string, error) {
	name, _, err := statfs(dir)
	return name, err
}

// Check refuses an existing directory, which must be writable, on a filesystem
// that the kernel does not take as an overlay's upper layer, or that has no
// extended attributes for users. It leaves nothing behind. (Case 103).
func Check(dir string) error {
	name, upper, err := statfs(dir)
	if err != nil {
		return err
	}
	if !upper {
		return &Error{Path: dir, Type: name, Why: "cannot be the upper layer of an overlay"}
	}
	// A name of its own: several processes may look at one data root at once.
	probe := "user.lazaret.probe." + rand.Text()
	err = unix.Setxattr(dir, probe, []byte("1"), 0)
	if errors.Is(err, unix.ENOTSUP) {
		return &Error{Path: dir, Type: name, Why: "has no extended attributes for users here"}
	}
	if errors.Is(err, unix.EROFS) {
		return &Error{Path: dir, Type: name, Why: "is read-only here"}
	}
	if err == nil {
		err = unix.Removexattr(dir, probe)
	}
	if err != nil {
		return fmt.Errorf("try extended attributes on %q: %w", dir, err)
	}
	return nil
}

func statfs(dir string) (name string, upper bool, err error) {
	var st unix.Statfs_t
	for {
		err = unix.Statfs(dir, &st)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return "", false, fmt.Errorf("statfs %q: %w", dir, err)
	}
	if k, ok := kinds[int64(st.Type)]; ok {
		return k.name, k.upper, nil
	}
	// An unknown one may well work: the mount will say.
	return fmt.Sprintf("type %#x", st.Type), true, nil
}
