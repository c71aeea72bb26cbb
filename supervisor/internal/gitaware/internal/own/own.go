// Package own lists a Domain's Ignored Workspace State, whose names are the
// sandbox's. It changes nothing, follows no link, and runs in the Runtime
// Supervisor.
package own

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/protocol/isolation"
	"lazaret.dev/lazaret/supervisor/internal/fdfs"
)

// maxLook bounds how many entries are looked at.
const maxLook = 100_000

// List lists what lies below root, at most limit paths. An isolated directory
// stands for all that is in it; others are gone through.
func List(ctx context.Context, root, limit int, isolated func(path string, isDir bool) bool) (out []isolation.Entry, more int, err error) {
	looked := 0
	for dirs := []string{""}; len(dirs) > 0; {
		dir := dirs[len(dirs)-1]
		dirs = dirs[:len(dirs)-1]
		entries, err := read(root, dir)
		if err != nil {
			return nil, 0, err
		}
		if looked += len(entries); looked > maxLook || ctx.Err() != nil {
			return out, more + len(entries) + len(dirs), nil //nolint:nilerr // what there is in time is an answer
		}
		for _, e := range entries {
			path := e.Name()
			if dir != "" {
				path = dir + "/" + path
			}
			hidden := isolated(path, e.IsDir())
			switch {
			case e.IsDir() && !hidden:
				dirs = append(dirs, path)
			case len(out) >= limit:
				more++
			default:
				out = append(out, isolation.Entry{Path: []byte(path), Dir: e.IsDir(), Unused: !hidden})
			}
		}
	}
	return out, more, nil
}

// read lists a directory; one that is gone meanwhile is empty.
func read(root int, dir string) ([]os.DirEntry, error) {
	fd, err := fdfs.Open(root, dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, true)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), dir)
	defer func() { _ = f.Close() }()
	return f.ReadDir(-1)
}
