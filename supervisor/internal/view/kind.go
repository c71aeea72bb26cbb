package view

import (
	"os"

	"golang.org/x/sys/unix"
)

// fsKind is what of the workspace's filesystem matters here.
type fsKind struct {
	remote bool // others change it, and no event comes of that
	weak   bool // its inode numbers do not last
}

// kindOfFS tells what kind of filesystem a directory is on.
func kindOfFS(fd int) (fsKind, error) {
	var s unix.Statfs_t
	if err := unix.Fstatfs(fd, &s); err != nil {
		return fsKind{}, os.NewSyscallError("fstatfs", err)
	}
	switch int64(s.Type) { //nolint:unconvert // it is another type on other machines
	case unix.NFS_SUPER_MAGIC, unix.AFS_SUPER_MAGIC, unix.CODA_SUPER_MAGIC, unix.NCP_SUPER_MAGIC, unix.CEPH_SUPER_MAGIC:
		return fsKind{remote: true}, nil
	case unix.FUSE_SUPER_MAGIC, unix.SMB_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.V9FS_MAGIC:
		return fsKind{remote: true, weak: true}, nil
	case unix.MSDOS_SUPER_MAGIC, unix.EXFAT_SUPER_MAGIC:
		return fsKind{weak: true}, nil
	}
	return fsKind{}, nil
}
