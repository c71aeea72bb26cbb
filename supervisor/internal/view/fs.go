package view

import (
	"errors"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/supervisor/internal/view/internal/content"
	"lazaret.dev/lazaret/supervisor/internal/view/internal/entries"
	"lazaret.dev/lazaret/supervisor/internal/view/internal/resolve"
)

// filesystem translates the kernel's requests. What it does not implement is
// answered with ENOSYS, after which the kernel does not ask again.
type filesystem struct {
	fuse.RawFileSystem
	entries *entries.Entries
	content *content.Content
}

type cancelled = <-chan struct{}

// status translates an error.
func status(err error) fuse.Status {
	if err == nil {
		return fuse.OK
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return fuse.Status(errno)
	}
	return fuse.EIO
}

func putAttr(out *fuse.Attr, a *resolve.Attr) {
	*out = fuse.Attr{
		Ino: a.Ino, Size: a.Size, Blocks: a.Blocks, Mode: a.Mode, Nlink: a.Nlink, Blksize: a.Blksize,
		Atime: uint64(a.Atime.Sec), Atimensec: a.Atime.Nsec,
		Mtime: uint64(a.Mtime.Sec), Mtimensec: a.Mtime.Nsec,
		Ctime: uint64(a.Ctime.Sec), Ctimensec: a.Ctime.Nsec,
		Owner: fuse.Owner{Uid: a.UID, Gid: a.GID},
	}
}

func putEntry(out *fuse.EntryOut, r *resolve.Reply) {
	*out = fuse.EntryOut{NodeId: r.Node}
	out.SetEntryTimeout(r.TTL)
	if r.Node != 0 {
		out.SetAttrTimeout(r.Attr.TTL)
		putAttr(&out.Attr, &r.Attr)
	}
}

func (f *filesystem) String() string { return "lazaret" }

func (f *filesystem) Lookup(_ cancelled, h *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	return entry(out)(f.entries.Lookup(h.NodeId, name))
}

// entry answers with an entry.
func entry(out *fuse.EntryOut) func(resolve.Reply, error) fuse.Status {
	return func(r resolve.Reply, err error) fuse.Status {
		if err == nil {
			putEntry(out, &r)
		}
		return status(err)
	}
}

func (f *filesystem) Forget(id, lookups uint64) { f.entries.Forget(id, lookups) }

func (f *filesystem) GetAttr(_ cancelled, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	return attributes(out)(f.content.GetAttr(in.NodeId))
}

// attributes answers with attributes.
func attributes(out *fuse.AttrOut) func(resolve.Attr, error) fuse.Status {
	return func(a resolve.Attr, err error) fuse.Status {
		if err == nil {
			out.SetTimeout(a.TTL)
			putAttr(&out.Attr, &a)
		}
		return status(err)
	}
}

func (f *filesystem) SetAttr(_ cancelled, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	var s content.SetAttr
	if size, ok := in.GetSize(); ok {
		s.Size = &size
	}
	if mode, ok := in.GetMode(); ok {
		s.Mode = &mode
	}
	if in.Valid&fuse.FATTR_UID != 0 {
		s.UID = &in.Uid
	}
	if in.Valid&fuse.FATTR_GID != 0 {
		s.GID = &in.Gid
	}
	if in.Valid&fuse.FATTR_ATIME != 0 {
		s.Atime = stamp(in.Valid&fuse.FATTR_ATIME_NOW != 0, in.Atime, in.Atimensec)
	}
	if in.Valid&fuse.FATTR_MTIME != 0 {
		s.Mtime = stamp(in.Valid&fuse.FATTR_MTIME_NOW != 0, in.Mtime, in.Mtimensec)
	}
	return attributes(out)(f.content.SetAttr(in.NodeId, &s))
}

func stamp(now bool, sec uint64, nsec uint32) *unix.Timespec {
	if now {
		return &unix.Timespec{Nsec: unix.UTIME_NOW}
	}
	return &unix.Timespec{Sec: int64(sec), Nsec: int64(nsec)}
}

func (f *filesystem) Mknod(_ cancelled, in *fuse.MknodIn, name string, out *fuse.EntryOut) fuse.Status {
	return entry(out)(f.entries.Mknod(in.NodeId, name, in.Mode))
}

func (f *filesystem) Mkdir(_ cancelled, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	return entry(out)(f.entries.Mkdir(in.NodeId, name, in.Mode))
}

func (f *filesystem) Symlink(_ cancelled, h *fuse.InHeader, target, name string, out *fuse.EntryOut) fuse.Status {
	return entry(out)(f.entries.Symlink(h.NodeId, name, target))
}

func (f *filesystem) Link(_ cancelled, in *fuse.LinkIn, name string, out *fuse.EntryOut) fuse.Status {
	return entry(out)(f.entries.Link(in.Oldnodeid, in.NodeId, name))
}

func (f *filesystem) Create(_ cancelled, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	// Without a handle: the kernel does not announce the end of an open file
	// whose OPEN it may leave out.
	out.OpenFlags = fuse.FOPEN_KEEP_CACHE
	return entry(&out.EntryOut)(f.entries.Create(in.NodeId, name, in.Flags, in.Mode))
}

func (f *filesystem) Unlink(_ cancelled, h *fuse.InHeader, name string) fuse.Status {
	return status(f.entries.Unlink(h.NodeId, name))
}

func (f *filesystem) Rmdir(_ cancelled, h *fuse.InHeader, name string) fuse.Status {
	return status(f.entries.Rmdir(h.NodeId, name))
}

func (f *filesystem) Rename(_ cancelled, in *fuse.RenameIn, name, newName string) fuse.Status {
	return status(f.entries.Rename(in.NodeId, name, in.Newdir, newName, in.Flags))
}

func (f *filesystem) Tmpfile(cancelled, *fuse.CreateIn, *fuse.CreateOut) fuse.Status {
	return fuse.ENOTSUP
}

func (f *filesystem) Readlink(_ cancelled, h *fuse.InHeader) ([]byte, fuse.Status) {
	b, err := f.content.ReadLink(h.NodeId)
	return b, status(err)
}

func (f *filesystem) Read(_ cancelled, in *fuse.ReadIn, b []byte) (fuse.ReadResult, fuse.Status) {
	n, err := f.content.Read(in.NodeId, b, int64(in.Offset))
	if err != nil && n == 0 {
		return nil, status(err)
	}
	return fuse.ReadResultData(b[:n]), fuse.OK
}

func (f *filesystem) Write(_ cancelled, in *fuse.WriteIn, b []byte) (uint32, fuse.Status) {
	// Pages of a mapping are written where they are mapped, however the file was
	// opened.
	appending := in.Flags&unix.O_APPEND != 0 && in.WriteFlags&fuse.WRITE_CACHE == 0
	n, err := f.content.Write(in.NodeId, b, int64(in.Offset), appending)
	return uint32(n), status(err)
}

func (f *filesystem) Fallocate(_ cancelled, in *fuse.FallocateIn) fuse.Status {
	return status(f.content.Allocate(in.NodeId, in.Mode, int64(in.Offset), int64(in.Length)))
}

func (f *filesystem) CopyFileRange(_ cancelled, in *fuse.CopyFileRangeIn) (uint32, fuse.Status) {
	// What is copied at once must fit the answer.
	n, err := f.content.CopyRange(in.NodeId, in.NodeIdOut, int64(in.OffIn), int64(in.OffOut), int(min(in.Len, 1<<30)))
	return uint32(n), status(err)
}

func (f *filesystem) Lseek(_ cancelled, in *fuse.LseekIn, out *fuse.LseekOut) fuse.Status {
	off, err := f.content.Seek(in.NodeId, int64(in.Offset), int(in.Whence))
	out.Offset = uint64(off)
	return status(err)
}

// syncDataOnly is FUSE_FSYNC_FDATASYNC.
const syncDataOnly = 1

func (f *filesystem) Fsync(_ cancelled, in *fuse.FsyncIn) fuse.Status {
	return status(f.content.Sync(in.NodeId, in.FsyncFlags&syncDataOnly != 0))
}

func (f *filesystem) FsyncDir(_ cancelled, in *fuse.FsyncIn) fuse.Status {
	return status(f.content.Sync(in.NodeId, in.FsyncFlags&syncDataOnly != 0))
}

func (f *filesystem) GetXAttr(_ cancelled, h *fuse.InHeader, name string, b []byte) (uint32, fuse.Status) {
	n, err := f.content.GetXAttr(h.NodeId, name, b)
	return uint32(n), status(err)
}

func (f *filesystem) ListXAttr(_ cancelled, h *fuse.InHeader, b []byte) (uint32, fuse.Status) {
	list, err := f.content.ListXAttr(h.NodeId)
	if err == nil && len(list) > len(b) {
		return uint32(len(list)), fuse.Status(unix.ERANGE)
	}
	copy(b, list)
	return uint32(len(list)), status(err)
}

func (f *filesystem) SetXAttr(_ cancelled, in *fuse.SetXAttrIn, name string, value []byte) fuse.Status {
	return status(f.content.SetXAttr(in.NodeId, name, value, int(in.Flags)))
}

func (f *filesystem) RemoveXAttr(_ cancelled, h *fuse.InHeader, name string) fuse.Status {
	return status(f.content.RemoveXAttr(h.NodeId, name))
}

// Open is not implemented, and neither is Flush: each open and close would cost
// a round trip.
func (f *filesystem) Open(cancelled, *fuse.OpenIn, *fuse.OpenOut) fuse.Status { return fuse.ENOSYS }

// Flush is not implemented: see Open.
func (f *filesystem) Flush(cancelled, *fuse.FlushIn) fuse.Status { return fuse.ENOSYS }

func (f *filesystem) OpenDir(_ cancelled, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	fh, err := f.entries.OpenDir(in.NodeId)
	out.Fh = fh
	out.OpenFlags = fuse.FOPEN_CACHE_DIR | fuse.FOPEN_KEEP_CACHE
	return status(err)
}

func (f *filesystem) ReleaseDir(in *fuse.ReleaseIn) { f.entries.ReleaseDir(in.Fh) }

func (f *filesystem) ReadDir(_ cancelled, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	entries, err := f.entries.ReadDir(in.NodeId, in.Fh, in.Offset)
	for i, e := range entries {
		if !out.AddDirEntry(fuse.DirEntry{Mode: e.Mode, Name: e.Name, Ino: e.Ino, Off: in.Offset + uint64(i) + 1}) {
			break
		}
	}
	return status(err)
}

func (f *filesystem) ReadDirPlus(_ cancelled, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	entries, err := f.entries.ReadDir(in.NodeId, in.Fh, in.Offset)
	for i, e := range entries {
		// An entry without a node is one that the kernel looks up itself, if ever.
		slot := out.AddDirLookupEntry(fuse.DirEntry{Mode: e.Mode, Name: e.Name, Ino: e.Ino, Off: in.Offset + uint64(i) + 1})
		if slot == nil {
			break
		}
		if e.Name == "." || e.Name == ".." {
			continue
		}
		if r, err := f.entries.Lookup(in.NodeId, e.Name); err == nil && r.Node != 0 {
			putEntry(slot, &r)
			out.FixMode(r.Attr.Mode)
		}
	}
	return status(err)
}

func (f *filesystem) StatFs(_ cancelled, _ *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	s, err := f.content.StatFS()
	*out = fuse.StatfsOut{
		Blocks: s.Blocks, Bfree: s.Bfree, Bavail: s.Bavail, Files: s.Files, Ffree: s.Ffree,
		Bsize: uint32(s.Bsize), NameLen: uint32(s.Namelen), Frsize: uint32(s.Frsize),
	}
	return status(err)
}
