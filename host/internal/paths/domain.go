package paths

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/host/internal/paths/internal/dirfd"
)

// DomainID derives the Domain ID from a profile and a canonical workspace
// (FR-1): the first 12 hex digits of SHA-256 of "<profile>:<workspace>". A
// profile name holds no colon, so that no two pairs have one text.
func DomainID(profile, workspace string) string {
	sum := sha256.Sum256([]byte(profile + ":" + workspace))
	return hex.EncodeToString(sum[:])[:12]
}

var domainID = regexp.MustCompile(`^[0-9a-f]{12}$`)

// IsDomainID reports whether s has the form of a Domain ID.
func IsDomainID(s string) bool { return domainID.MatchString(s) }

// Record is the content of a Domain Root's domain.json. It is read without a
// lock, by listings, and is no authority for anything but its own identity.
type Record struct {
	Version   int       `json:"version"`
	DomainID  string    `json:"domain_id"`
	Profile   string    `json:"profile"`
	Workspace string    `json:"workspace"` // canonical
	LastUse   time.Time `json:"last_use"`
}

const (
	recordName    = "domain.json"
	recordVersion = 1
	recordMax     = 64 << 10
)

// ReadRecord reads the Domain Root's domain.json. The error is fs.ErrNotExist
// where there is none, and an [Error] of KindRecord or KindMismatch where it is
// damaged or says that it belongs to another Domain.
func (d DomainRoot) ReadRecord() (Record, error) {
	dir, err := dirfd.Walk(d.data.path, d.names(), d.data.uid, dirfd.NoWrite, false)
	if err != nil {
		return Record{}, err
	}
	defer unix.Close(dir)
	rec, err := readRecord(dir, d.Path())
	if err != nil {
		return Record{}, err
	}
	if rec.DomainID != d.id || rec.DomainID != DomainID(rec.Profile, rec.Workspace) {
		return Record{}, refuse(KindMismatch,
			"this data was moved or edited; move it back, or start with an empty data_root",
			"cannot use %q: its %s is for Domain %s (profile %q, workspace %q)", d.Path(), recordName, rec.DomainID, rec.Profile, rec.Workspace)
	}
	return rec, nil
}

// Workspaces returns the workspaces of all Domains in a data root, as far as
// their records can be read. It makes nothing.
func (h Host) Workspaces(dataRoot string) []string {
	var out []string
	for _, rec := range h.Records(dataRoot) {
		out = append(out, rec.Workspace)
	}
	return out
}

// Records reads what the Domains of a data root say of themselves. What cannot
// be read is left out. No lock is needed.
func (h Host) Records(dataRoot string) []Record {
	real, err := Resolve(dataRoot)
	if err != nil {
		return nil
	}
	data := DataRoot{path: real, uid: h.UID}
	ids, err := data.Domains()
	if err != nil {
		return nil
	}
	var out []Record
	for _, id := range ids {
		if rec, err := (DomainRoot{data: data, id: id}).ReadRecord(); err == nil {
			out = append(out, rec)
		}
	}
	return out
}

func readRecord(dir int, path string) (Record, error) {
	fd, err := unix.Openat(dir, recordName, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return Record{}, fmt.Errorf("open %q: %w", filepath.Join(path, recordName), err)
	}
	if err != nil {
		return Record{}, badRecord(path, err)
	}
	f := os.NewFile(uintptr(fd), recordName)
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, recordMax))
	if err != nil {
		return Record{}, badRecord(path, err)
	}
	var rec Record
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	err = dec.Decode(&rec)
	if err == nil && rec.Version != recordVersion {
		err = fmt.Errorf("version %d, want %d", rec.Version, recordVersion)
	}
	if err != nil {
		return Record{}, badRecord(path, err)
	}
	return rec, nil
}

// badRecord reports a record that is there and cannot be read.
func badRecord(path string, err error) error {
	return &Error{
		Kind: KindRecord, Err: err,
		Msg: fmt.Sprintf("cannot read %q", filepath.Join(path, recordName)),
		Fix: "the file only names the Domain: remove it, and the next run writes it again",
	}
}

// Claim notes in domain.json that the Domain is used now. It refuses a Domain
// Root whose record names another profile or workspace: two pairs with one
// Domain ID, or data that was moved. Only the holder of the Domain lock calls it.
func (d DomainRoot) Claim(profile, workspace string, now time.Time) error {
	rec, err := d.ReadRecord()
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case rec.Profile != profile || rec.Workspace != workspace:
		return refuse(KindMismatch, "give one of the two projects another path or profile name",
			"cannot use Domain %s for profile %q and workspace %q: %q already belongs to profile %q and workspace %q",
			d.id, profile, workspace, d.Path(), rec.Profile, rec.Workspace)
	}
	return d.writeRecord(Record{
		Version: recordVersion, DomainID: d.id, Profile: profile, Workspace: workspace,
		LastUse: now.UTC().Truncate(time.Second),
	})
}

// writeRecord replaces domain.json, so that a reader sees the old or the new
// text and a crash leaves one of them.
func (d DomainRoot) writeRecord(rec Record) error {
	b, err := json.MarshalIndent(rec, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", recordName, err)
	}
	return d.replace(recordName, append(b, '\n'))
}

// replace writes a file by rename, after fsync, in a directory of the Domain
// Root that names lead to. The caller holds the Domain lock.
func (d DomainRoot) replace(name string, text []byte, names ...string) error {
	dir, err := dirfd.Walk(d.data.path, d.names(names...), d.data.uid, dirfd.NoWrite, true)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	path := filepath.Join(append(append([]string{d.Path()}, names...), name)...)
	tmp := "." + name + ".new"
	// What a killed writer left is replaced.
	if err := unix.Unlinkat(dir, tmp, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove %q: %w", path, err)
	}
	fd, err := unix.Openat(dir, tmp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return fmt.Errorf("create %q: %w", path, err)
	}
	f := os.NewFile(uintptr(fd), path)
	_, err = f.Write(text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = unix.Renameat(dir, tmp, dir, name)
	}
	if err == nil {
		err = unix.Fsync(dir)
	}
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return &Error{Kind: KindRecord, Err: err, Msg: fmt.Sprintf("cannot write %q", path), Fix: "free some space: df -h " + dirfd.Quote(d.Path())}
	}
	if err != nil {
		return fmt.Errorf("write %q: %w", path, err)
	}
	return nil
}
