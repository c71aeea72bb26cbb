package store_test

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"lazaret.dev/lazaret/host/internal/store"
	"lazaret.dev/lazaret/protocol"
	"lazaret.dev/lazaret/protocol/testgate"
	"lazaret.dev/lazaret/schema"
)

func rapidLock(t *rapid.T, dir string) *os.File {
	f, err := os.Create(filepath.Join(dir, "lock"))
	if err == nil {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func rapidOpen(t *rapid.T, dir string, held *os.File) *store.Store {
	s, err := store.Open(context.Background(), dir, held)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// roleEnv makes the test binary play a part of a test in a process of its own.
const roleEnv = "LAZARET_STORE_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleEnv) {
	case "writer":
		fmt.Fprintln(os.Stderr, writeForever(os.Args[1]))
		os.Exit(1)
	case "small-filesystem":
		if err := onSmallFilesystem(os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	case "migrate-small-filesystem":
		if err := migrateOnSmallFilesystem(os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	case "with-lock":
		fmt.Println(openWithLock(os.Args[1]))
		os.Exit(0)
	case "without-lock":
		fmt.Println(openWithoutLock(os.Args[1]))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func lockIn(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	return f, unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
}

// writeForever lives through generations, saying after each commit what is
// committed, until it is killed.
func writeForever(dir string) error {
	ctx := context.Background()
	held, err := lockIn(dir)
	if err != nil {
		return err
	}
	s, err := store.Open(ctx, dir, held)
	if err != nil {
		return err
	}
	old, err := s.Current(ctx)
	if err != nil {
		return err
	}
	if old != nil {
		if err := recoverAll(ctx, s, old); err != nil {
			return err
		}
	}
	for i := 0; ; i++ {
		id := fmt.Sprintf("%d.%d", os.Getpid(), i)
		if err := s.BeginGeneration(ctx, newGeneration(id)); err != nil {
			return err
		}
		fmt.Println("begun", id)
		for n := range 40 {
			if err := s.AddSession(ctx, id, strconv.Itoa(n), false); err != nil {
				return err
			}
			fmt.Println("session", id, n)
		}
		if err := s.EndGeneration(ctx, id, ""); err != nil {
			return err
		}
		fmt.Println("ended", id)
	}
}

func recoverAll(ctx context.Context, s *store.Store, g *store.Generation) error {
	errs := []error{s.SetPhase(ctx, g.ID, protocol.Recovering)}
	for _, p := range g.Participants {
		if p.State != store.Released {
			errs = append(errs, s.RecordReleased(ctx, g.ID, p.Role))
		}
	}
	return errors.Join(append(errs, s.EndGeneration(ctx, g.ID, "recovered"))...)
}

// Case 39: kill -9 in mid-write loses nothing that was committed, and leaves a
// sound file.
func TestKilledWriterLosesNothing(t *testing.T) {
	dir := t.TempDir()
	for round := range 20 {
		cmd := exec.Command(os.Args[0], dir)
		cmd.Env = append(os.Environ(), roleEnv+"=writer")
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		must(t, err, cmd.Start())
		said := make(chan []string, 1)
		first := make(chan struct{})
		go func() {
			var lines []string
			sc := bufio.NewScanner(out)
			for sc.Scan() {
				if lines = append(lines, sc.Text()); len(lines) == 1 {
					close(first)
				}
			}
			said <- lines
		}()
		select {
		case <-first:
		case <-time.After(20 * time.Second):
		}
		time.Sleep(time.Duration(round*1700) * time.Microsecond)
		must(t, cmd.Process.Kill())
		lines := <-said
		_ = cmd.Wait() // killed, as meant
		if len(lines) == 0 {
			t.Fatal("the writer wrote nothing")
		}

		held := lock(t, dir)
		s := open(t, dir, held)
		g, err := s.Current(context.Background())
		must(t, err)
		checkCommitted(t, g, lines)
		must(t, s.Close(), held.Close())
		checkIntegrity(t, dir)
	}
}

// checkCommitted demands what was said, and at most the one step after it.
func checkCommitted(t *testing.T, g *store.Generation, lines []string) {
	t.Helper()
	f := strings.Fields(lines[len(lines)-1])
	sessions := 0
	if f[0] == "session" {
		n, err := strconv.Atoi(f[2])
		must(t, err)
		sessions = n + 1
	}
	switch {
	case f[0] == "ended":
		if g != nil && (g.ID == f[1] || len(g.Sessions) > 0) {
			t.Fatalf("after %v: %+v", f, g)
		}
	case g == nil && sessions == 40: // ended, not yet said
	case g == nil || g.ID != f[1] || len(g.Sessions) < sessions || len(g.Sessions) > sessions+1:
		t.Fatalf("after %v: %+v", f, g)
	}
}

func checkIntegrity(t *testing.T, dir string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, store.FileName))
	must(t, err)
	defer db.Close()
	var ok string
	must(t, db.QueryRow("PRAGMA integrity_check").Scan(&ok))
	if ok != "ok" {
		t.Fatal("integrity_check:", ok)
	}
}

// hinted is what every error with a fix has.
type hinted interface {
	error
	Hint() string
}

// refused opens the store and demands the kind, a hint, and an unchanged file.
func refused(t *testing.T, dir string, held *os.File, kind store.Kind) *store.Error {
	t.Helper()
	path := filepath.Join(dir, store.FileName)
	before, _ := os.ReadFile(path) // absent or unreadable compares as empty
	s, err := store.Open(context.Background(), dir, held)
	if err == nil {
		_ = s.Close()
	}
	var e *store.Error
	var h hinted
	if !errors.As(err, &e) || e.Kind != kind || !errors.As(err, &h) || h.Hint() == "" || !strings.Contains(err.Error(), path) {
		t.Fatalf("Open = %v; want kind %s", err, kind)
	}
	after, _ := os.ReadFile(path)
	if !bytes.Equal(before, after) {
		t.Fatal("the refused file was changed")
	}
	return e
}

// Case 39: junk at offset 0, and a file that is cut or another program's, give
// a message with the way out; the file is kept.
func TestDamagedFilesAreKeptAndNamed(t *testing.T) {
	ctx := context.Background()
	good := t.TempDir()
	goodLock := lock(t, good)
	s := open(t, good, goodLock)
	must(t, s.BeginGeneration(ctx, newGeneration("g")), s.Close())
	whole, err := os.ReadFile(filepath.Join(good, store.FileName))
	must(t, err)
	junk := bytes.Repeat([]byte{0xa5}, 4096)
	level := func(n uint32) []byte {
		b := bytes.Clone(whole)
		binary.BigEndian.PutUint32(b[60:], n)
		return b
	}
	alien := bytes.Clone(whole)
	binary.BigEndian.PutUint32(alien[68:], 0x12345678)

	for name, c := range map[string]struct {
		data []byte
		kind store.Kind
	}{
		"junk header":       {append(bytes.Clone(junk), whole[4096:]...), store.Corrupt},
		"short":             {whole[:50], store.Corrupt},
		"other program":     {alien, store.Foreign},
		"junk after header": {append(bytes.Clone(whole[:100]), append(bytes.Clone(junk), whole[4196:]...)...), store.Corrupt},
		"cut to a page":     {whole[:4096], store.Corrupt},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			held := lock(t, dir)
			must(t, os.WriteFile(filepath.Join(dir, store.FileName), c.data, 0o600))
			e := refused(t, dir, held, c.kind)
			if !strings.Contains(e.Hint(), "mv '"+filepath.Join(dir, store.FileName)+"'") {
				t.Errorf("the hint names no command: %s", e.Hint())
			}
		})
	}

	t.Run("newer level", func(t *testing.T) { // FR-21
		dir := t.TempDir()
		held := lock(t, dir)
		path := filepath.Join(dir, store.FileName)
		data := level(uint32(schema.Latest()) + 1)
		must(t, os.WriteFile(path, data, 0o600))
		s, err := store.Open(ctx, dir, held)
		if _, ok := errors.AsType[*schema.NewerError](err); !ok {
			t.Fatalf("Open = %v, %v", s, err)
		}
		after, err := os.ReadFile(path)
		must(t, err)
		if !bytes.Equal(data, after) {
			t.Fatal("the newer file was changed")
		}
		if list, _ := filepath.Glob(path + "*"); len(list) != 1 {
			t.Fatalf("files were made beside it: %v", list)
		}
	})

	t.Run("symbolic link", func(t *testing.T) {
		dir := t.TempDir()
		held := lock(t, dir)
		must(t, os.Symlink(filepath.Join(good, store.FileName), filepath.Join(dir, store.FileName)))
		refused(t, dir, held, store.Foreign)
	})

	for _, name := range []string{store.FileName, store.FileName + "-wal", store.FileName + "-journal"} {
		t.Run("pipe at "+name, func(t *testing.T) {
			dir := t.TempDir()
			held := lock(t, dir)
			path := filepath.Join(dir, name)
			must(t, unix.Mkfifo(path, 0o600))
			_, err := store.Open(ctx, dir, held)
			var e *store.Error
			if !errors.As(err, &e) || e.Kind != store.Foreign || !strings.Contains(e.Hint(), "mv '"+path+"'") {
				t.Fatalf("Open = %v", err)
			}
		})
	}
}

// An empty file is a start that was interrupted before its first commit.
func TestEmptyFileIsAFreshStore(t *testing.T) {
	dir := t.TempDir()
	held := lock(t, dir)
	must(t, os.WriteFile(filepath.Join(dir, store.FileName), nil, 0o600))
	must(t, open(t, dir, held).Close())
}

// FR-17: while one process has the store open, another that ignores the Domain
// lock still gets nothing.
func TestSecondOpenerIsRefused(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, lock(t, dir))
	defer s.Close()
	must(t, s.BeginGeneration(context.Background(), newGeneration("g")))
	cmd := exec.Command(os.Args[0], dir)
	cmd.Env = append(os.Environ(), roleEnv+"=writer")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "resource temporarily unavailable") {
		t.Fatalf("with the lock file: %v\n%s", err, out)
	}
	// Another lock file: the proof of another Domain's lock does not help.
	other := t.TempDir()
	held := lock(t, other)
	must(t, os.Symlink(filepath.Join(dir, store.FileName), filepath.Join(other, store.FileName)))
	refused(t, other, held, store.Foreign)
	must(t, os.Remove(filepath.Join(other, store.FileName)),
		os.Link(filepath.Join(dir, store.FileName), filepath.Join(other, store.FileName)))
	refused(t, other, held, store.Foreign)
}

// Case 39: a full disk and a read-only file are named, lose nothing, and end
// when their cause does.
func TestFullAndReadOnlyFilesystems(t *testing.T) {
	testgate.Need(t, testgate.UserNS)
	onTmpfs(t, "small-filesystem", t.TempDir())
}

// onTmpfs plays a part in a process that may mount a filesystem on dir.
func onTmpfs(t *testing.T, role, dir string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], dir)
	cmd.Env = append(os.Environ(), roleEnv+"="+role)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func onSmallFilesystem(dir string) error {
	ctx := context.Background()
	size := func(flags uintptr, s string) error {
		return unix.Mount("tmpfs", dir, "tmpfs", flags, "mode=0700,size="+s)
	}
	want := func(what string, err error, kind store.Kind) error {
		var e *store.Error
		if !errors.As(err, &e) || e.Kind != kind || e.Hint() == "" {
			return fmt.Errorf("%s: %w; want kind %s", what, err, kind)
		}
		return nil
	}
	if err := size(0, "16k"); err != nil {
		return err
	}
	held, err := lockIn(dir)
	if err != nil {
		return err
	}
	_, err = store.Open(ctx, dir, held)
	if err := want("first open", err, store.NoSpace); err != nil {
		return err
	}
	if err := size(unix.MS_REMOUNT, "76k"); err != nil {
		return err
	}
	s, err := store.Open(ctx, dir, held)
	if err != nil {
		return fmt.Errorf("open after space was made: %w", err)
	}
	err = s.BeginGeneration(ctx, newGeneration("g"))
	if err := want("begin on a full filesystem", err, store.NoSpace); err != nil {
		return err
	}
	if g, err := s.Current(ctx); g != nil || err != nil {
		return fmt.Errorf("a generation that was not begun: %+v, %w", g, err)
	}
	if err := size(unix.MS_REMOUNT, "256k"); err != nil {
		return err
	}
	if err := s.BeginGeneration(ctx, newGeneration("g")); err != nil {
		return fmt.Errorf("the same call after space was made: %w", err)
	}
	done := 0
	for err = nil; err == nil; done++ {
		if done > 100000 {
			return errors.New("the filesystem never filled")
		}
		err = s.AddSession(ctx, "g", fmt.Sprintf("%d-%s", done, strings.Repeat("x", 500)), false)
	}
	done--
	if err := want("write on a full filesystem", err, store.NoSpace); err != nil {
		return err
	}
	count := func(s *store.Store, want int) error {
		g, err := s.Current(ctx)
		if err != nil {
			return err
		}
		if g == nil || len(g.Sessions) != want {
			return fmt.Errorf("%d sessions are left of %d", len(g.Sessions), want)
		}
		return nil
	}
	if err := count(s, done); err != nil {
		return err
	}
	if err := size(unix.MS_REMOUNT, "4m"); err != nil {
		return err
	}
	if err := s.AddSession(ctx, "g", "after", false); err != nil {
		return fmt.Errorf("the same store after space was made: %w", err)
	}
	if err := s.Close(); err != nil {
		return err
	}
	// No filesystem turns read-only while a file on it is open for writing.
	if err := held.Close(); err != nil {
		return err
	}
	if err := size(unix.MS_REMOUNT|unix.MS_RDONLY, "4m"); err != nil {
		return err
	}
	if held, err = os.Open(filepath.Join(dir, store.LockName)); err != nil {
		return err
	}
	if err := unix.Flock(int(held.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return err
	}
	_, err = store.Open(ctx, dir, held)
	if err := want("read-only filesystem", err, store.ReadOnly); err != nil {
		return err
	}
	if err := size(unix.MS_REMOUNT, "4m"); err != nil {
		return err
	}
	if err := os.Chmod(filepath.Join(dir, store.FileName), 0o400); err != nil {
		return err
	}
	if s, err = store.Open(ctx, dir, held); err != nil {
		return err // root of the namespace may write in spite of the mode
	}
	if err := count(s, done+1); err != nil {
		return err
	}
	return s.Close()
}

// Case 39: a file that its owner may not write is named as such.
func TestReadOnlyFile(t *testing.T) {
	testgate.Need(t, testgate.UserNS) // not root: root writes in spite of modes
	dir := t.TempDir()
	held := lock(t, dir)
	must(t, open(t, dir, held).Close(), os.Chmod(filepath.Join(dir, store.FileName), 0o400))
	refused(t, dir, held, store.ReadOnly)
}
