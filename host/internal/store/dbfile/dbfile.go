// Package dbfile looks at a Domain's store as a file, before SQLite does: who
// holds the lock, whether it is a store at all, and what to tell the user when
// it is not.
//
// It reads and writes no content beyond making a missing file. It runs where
// package store does.
package dbfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/schema"
)

// ErrNotLocked reports that the file given as proof holds no exclusive flock.
var ErrNotLocked = errors.New("the store may be opened only under the Domain lock")

// CheckHeld proves that lock is the file lockName in the Domain Root dir, and that
// its open file description holds an exclusive flock. The kernel lists in
// fdinfo exactly the locks of that description, so another holder's lock on the
// same file is no proof, and asking changes nothing.
func CheckHeld(dir, lockName string, lock *os.File) error {
	if lock == nil {
		return fmt.Errorf("%w: no lock was given", ErrNotLocked)
	}
	want, err := os.Lstat(filepath.Join(dir, lockName))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotLocked, err)
	}
	got, err := lock.Stat()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotLocked, err)
	}
	if !os.SameFile(want, got) {
		return fmt.Errorf("%w: %s is not the lock of %s", ErrNotLocked, lock.Name(), dir)
	}
	conn, err := lock.SyscallConn()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotLocked, err)
	}
	var info []byte
	var infoErr error
	err = conn.Control(func(fd uintptr) {
		info, infoErr = os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(int(fd)))
	})
	if err = errors.Join(err, infoErr); err != nil {
		return fmt.Errorf("%w: %w", ErrNotLocked, err)
	}
	for line := range strings.Lines(string(info)) {
		// lock:	1: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF
		f := strings.Fields(line)
		if len(f) >= 5 && f[0] == "lock:" && f[2] == "FLOCK" && f[4] == "WRITE" {
			return nil
		}
	}
	return fmt.Errorf("%w: %s holds no exclusive lock", ErrNotLocked, lock.Name())
}

// The parts of SQLite's file header that are read before SQLite is.
const (
	headerSize    = 100
	userVersionAt = 60
	appIDAt       = 68
)

var magic = []byte("SQLite format 3\x00")

// Inspect makes the file if it is missing, and looks at its header without
// SQLite, which on opening a file may already write to it. It refuses what is
// no store with *Error, or a newer one with *schema.NewerError, while nothing is
// touched. What lies where SQLite keeps its logs must be files too: it would wait
// for the other end of a pipe, and could not be interrupted.
func Inspect(path string) error {
	for _, log := range []string{path + "-wal", path + "-journal"} {
		var st unix.Stat_t
		err := unix.Lstat(log, &st)
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return &Error{Kind: IO, Op: "stat", Path: log, Err: err}
		}
		if err := checkOurs(&st); err != nil {
			return &Error{Kind: Foreign, Op: "stat", Path: log, Err: err}
		}
	}
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return &Error{Kind: kindOfErrno(err), Op: "open", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &Error{Kind: IO, Op: "stat", Path: path, Err: err}
	}
	if err := checkOurs(&st); err != nil {
		return &Error{Kind: Foreign, Op: "open", Path: path, Err: err}
	}
	if st.Size == 0 {
		// New, or its first transaction was interrupted: nothing is in it.
		return nil
	}
	head := make([]byte, headerSize)
	if _, err := io.ReadFull(f, head); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return &Error{Kind: Corrupt, Op: "read", Path: path, Err: errors.New("its header is cut short")}
		}
		return &Error{Kind: IO, Op: "read", Path: path, Err: err}
	}
	if !bytes.HasPrefix(head, magic) {
		return &Error{Kind: Corrupt, Op: "read", Path: path, Err: errors.New("its header is not that of a database")}
	}
	level := int(int32(binary.BigEndian.Uint32(head[userVersionAt:])))
	appID := binary.BigEndian.Uint32(head[appIDAt:])
	// A crash before the first write-back leaves level 0 here, and the truth in
	// the write-ahead log: schema.Apply looks again through SQLite.
	if level == 0 && appID == 0 {
		return nil
	}
	if appID != schema.ApplicationID {
		return &Error{Kind: Foreign, Op: "read", Path: path, Err: errors.New("it is another program's database")}
	}
	return schema.Check(level)
}

// checkOurs demands a file that Lazaret can have made. A second name would be a
// second Domain on one file.
func checkOurs(st *unix.Stat_t) error {
	if st.Mode&unix.S_IFMT == unix.S_IFREG && int(st.Uid) == os.Geteuid() && st.Nlink == 1 {
		return nil
	}
	return fmt.Errorf("it is not a regular file of uid %d with one name", os.Geteuid())
}
