package report

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/supervisor/internal/fdfs"
)

// The limits of what is read of one repository.
const (
	maxRefs   = 100_000
	maxPacked = 32 << 20
	maxDepth  = 32
	maxRef    = 4 << 10
)

var errTooMany = errors.New("there are too many refs")

// gone tells whether an error says that there is nothing.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
}

// readRefs reads the refs of a gitdir: names and what they hold, the text of a
// symbolic one included.
func readRefs(ctx context.Context, root int, gitdir string) (map[string]string, error) {
	refs := map[string]string{}
	packed, err := fdfs.ReadRegular(root, path.Join(gitdir, "packed-refs"), maxPacked)
	if err != nil && !gone(err) {
		return nil, err
	}
	for line := range bytes.Lines(packed) {
		id, name, ok := strings.Cut(strings.TrimRight(string(line), "\r\n"), " ")
		if !ok || id == "#" || line[0] == '^' {
			continue
		}
		refs[name] = id
		if len(refs) > maxRefs {
			return nil, errTooMany
		}
	}
	return refs, looseRefs(ctx, root, gitdir, "refs", refs, 0)
}

// looseRefs reads the refs that are files of their own, which win.
func looseRefs(ctx context.Context, root int, gitdir, dir string, refs map[string]string, depth int) error {
	fd, err := fdfs.Open(root, path.Join(gitdir, dir), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, true)
	if gone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), dir)
	entries, err := f.ReadDir(maxRefs)
	_ = f.Close()
	if err != nil && len(entries) == 0 {
		return nil //nolint:nilerr // the end of an empty directory
	}
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		name := dir + "/" + e.Name()
		switch {
		case e.IsDir() && depth < maxDepth:
			if err := looseRefs(ctx, root, gitdir, name, refs, depth+1); err != nil {
				return err
			}
		case e.Type().IsRegular() && !strings.HasSuffix(name, ".lock"):
			text, err := fdfs.ReadRegular(root, path.Join(gitdir, name), maxRef)
			if err != nil {
				continue // gone meanwhile, or no ref
			}
			refs[name] = strings.TrimSpace(string(text))
		}
		if len(refs) > maxRefs {
			return errTooMany
		}
	}
	return nil
}

// objectID decodes what a ref holds; nil when that is no object's name.
func objectID(text string) []byte {
	id, err := hex.DecodeString(text)
	if err != nil || len(id) != 20 && len(id) != 32 {
		return nil
	}
	return id
}
