package paths

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/host/internal/paths/internal/dirfd"
	"lazaret.dev/lazaret/protocol/handoff"
)

// mappingName is the file beside the State Anchors that says under which id
// mapping they were made. It goes where they go.
const mappingName = ".mapping"

// mappingMax bounds its content, in bytes.
const mappingMax = 64

// mappings are the id mappings, for people.
var mappings = map[handoff.Mapping]string{
	handoff.MappingFull:   "with subordinate user ids",
	handoff.MappingSingle: "with a single user id",
}

// BindAnchors notes under which id mapping the Domain's State Anchors are made,
// before the first one is. It refuses, with an [Error] of KindMapping, anchors
// that were made under the other one: their files have owners that mean
// somebody else there. Only the holder of the Domain lock calls it.
func (d DomainRoot) BindAnchors(m handoff.Mapping, now time.Time) error {
	anchors, err := d.Anchors()
	if err != nil {
		return err
	}
	made, err := d.anchorMapping()
	switch {
	case err != nil:
		return err
	case made == m:
		return nil
	case made == "" || len(anchors) == 0:
		return d.replace(mappingName, []byte(m+"\n"), "anchors")
	}
	dir := filepath.Join(d.Path(), "anchors")
	// A rename needs no right to the files, which may belong to subordinate ids,
	// and destroys nothing. A name with a dot is Lazaret's own (DomainOwned).
	aside := filepath.Join(d.Path(), fmt.Sprintf(".anchors-%s-%s", made, now.UTC().Format("20060102T150405Z")))
	fix := "to start with fresh ones, put them aside: mv " + dirfd.Quote(dir) + " " + dirfd.Quote(aside)
	if made == handoff.MappingFull {
		fix = "to go on with them, get your subordinate ids back: lazaret doctor says how\n" + fix
	}
	return refuse(KindMapping, fix, "cannot use the State Anchors of this Domain %s: they were made %s", mappings[m], mappings[made])
}

// anchorMapping reads the mapping that the State Anchors were made under, or ""
// where there is no record of it.
func (d DomainRoot) anchorMapping() (handoff.Mapping, error) {
	dir, err := dirfd.Walk(d.data.path, d.names("anchors"), d.data.uid, dirfd.NoWrite, true)
	if err != nil {
		return "", err
	}
	defer unix.Close(dir)
	path := filepath.Join(d.Path(), "anchors", mappingName)
	fd, err := unix.Openat(dir, mappingName, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("open %q: %w", path, err)
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, mappingMax))
	if err != nil {
		return "", fmt.Errorf("read %q: %w", path, err)
	}
	m := handoff.Mapping(strings.TrimSuffix(string(b), "\n"))
	if _, known := mappings[m]; !known {
		return "", refuse(KindRecord, "look at it: cat "+dirfd.Quote(path), "cannot read %q: it names no id mapping", path)
	}
	return m, nil
}
