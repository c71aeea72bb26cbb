// Package object identifies and describes file objects below the workspace
// view: what statx says of them, and which bits of it may be kept.
//
// It opens and changes nothing. It runs in the Runtime Supervisor.
package object

import (
	"os"

	"golang.org/x/sys/unix"
)

// Key is the identity of a file object. An inode number alone is none: it is
// used again as soon as a file is gone, which the time of creation tells
// apart. The mount does so for a directory that is bound to several places.
type Key struct {
	Mount, Dev, Ino uint64
	Born            int64 // nanoseconds; 0 where the filesystem does not know
}

// Time is a time stamp.
type Time struct {
	Sec  int64
	Nsec uint32
}

// Nano is t in nanoseconds.
func (t Time) Nano() int64 { return t.Sec*1e9 + int64(t.Nsec) }

// Info describes a file object.
type Info struct {
	Key
	Mode, Nlink, UID, GID, Blksize uint32
	Size, Blocks                   uint64
	Atime, Mtime, Ctime            Time
	Rdev                           uint64
}

// Version changes whenever the object does.
type Version struct {
	Mtime, Ctime Time
	Size         uint64
}

// Version is the object's version.
func (i *Info) Version() Version { return Version{i.Mtime, i.Ctime, i.Size} }

// Type is the file type, one of unix.S_IF….
func (i *Info) Type() uint32 { return i.Mode & unix.S_IFMT }

// IsDir tells whether the object is a directory.
func (i *Info) IsDir() bool { return i.Type() == unix.S_IFDIR }

// IsRegular tells whether the object is a regular file.
func (i *Info) IsRegular() bool { return i.Type() == unix.S_IFREG }

// Whiteout tells whether the object stands for a name that was removed: a
// character device 0/0, which nothing inside can make.
func (i *Info) Whiteout() bool { return i.Type() == unix.S_IFCHR && i.Rdev == 0 }

const mask = unix.STATX_BASIC_STATS | unix.STATX_BTIME | unix.STATX_MNT_ID

// Stat describes name in the directory dir, itself when it is a symbolic link.
func Stat(dir int, name string) (Info, error) {
	return stat(dir, name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT)
}

// StatFD describes an open object.
func StatFD(fd int) (Info, error) { return stat(fd, "", unix.AT_EMPTY_PATH) }

func stat(dir int, name string, flags int) (Info, error) {
	var s unix.Statx_t
	if err := unix.Statx(dir, name, flags, mask, &s); err != nil {
		return Info{}, os.NewSyscallError("statx", err)
	}
	i := Info{
		Key:  Key{Mount: s.Mnt_id, Dev: unix.Mkdev(s.Dev_major, s.Dev_minor), Ino: s.Ino},
		Mode: uint32(s.Mode), Nlink: s.Nlink, UID: s.Uid, GID: s.Gid, Blksize: s.Blksize,
		Size: s.Size, Blocks: s.Blocks,
		Atime: Time{s.Atime.Sec, s.Atime.Nsec}, Mtime: Time{s.Mtime.Sec, s.Mtime.Nsec}, Ctime: Time{s.Ctime.Sec, s.Ctime.Nsec},
		Rdev: unix.Mkdev(s.Rdev_major, s.Rdev_minor),
	}
	if s.Mask&unix.STATX_BTIME != 0 {
		i.Born = Time{s.Btime.Sec, s.Btime.Nsec}.Nano()
	}
	return i, nil
}

// Mode bits that no file gets through the view: a set-id file in the
// developer's project would run as the developer for other users of the host.
const setID = unix.S_ISUID | unix.S_ISGID

// KeepMode is what is stored of a mode asked for inside.
func KeepMode(mode uint32) uint32 { return mode & 0o7777 &^ setID }

// Shown is the mode that the view shows. Special files of the host appear as
// sockets, which nobody can open: a FIFO would wait for a writer that cannot
// come, and a device must not be reached.
func Shown(mode uint32) uint32 {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG, unix.S_IFDIR, unix.S_IFLNK, unix.S_IFSOCK:
		return mode
	default:
		return mode&^unix.S_IFMT | unix.S_IFSOCK
	}
}
