package mounts

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/supervisor/internal/fdfs"
	"lazaret.dev/lazaret/supervisor/internal/fsmount"
)

// bind mounts src, with all that is mounted below it, over target.
func bind(src, target int, readOnly bool) error {
	m, err := fsmount.Clone(src, readOnly)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(m) }()
	return fsmount.Attach(m, target)
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
	m, err := fsmount.New("overlay", []fsmount.Option{
		{Key: "source", Value: "lazaret"},
		{Key: "lowerdir", Value: strings.Join(names, ":")},
		{Key: "upperdir", Value: fdfs.Path(upper)},
		{Key: "workdir", Value: fdfs.Path(work)},
		{Key: "userxattr"},
		// Where the kernel's default is on, an upper directory whose last overlay
		// is not quite gone would be refused.
		{Key: "index", Value: "off"},
	}, 0)
	if err != nil {
		return -1, err
	}
	if err := fsmount.Attach(m, target); err != nil {
		_ = unix.Close(m)
		return -1, fmt.Errorf("overlay: %w", err)
	}
	return m, nil
}
