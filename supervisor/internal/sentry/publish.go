package sentry

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"

	"lazaret.dev/lazaret/supervisor/internal/sentry/gate"
	"lazaret.dev/lazaret/supervisor/internal/sentry/gitconfig"
	"lazaret.dev/lazaret/supervisor/internal/sentry/gitdir"
)

// Outcome is how a publication ends that is not refused.
type Outcome uint8

// The outcomes. With Keep the host's file is as it should be: the lock goes
// away, and the operation has succeeded. With Replace the lock becomes the file;
// one in the Domain is copied to the host's NAME.lock first.
const (
	Keep Outcome = iota
	Replace
)

// Publish decides about a rename for which Check said so, from a lock to the
// name that it is for. old is the host's present file, nil if there is none;
// for a lock in the Domain and with ConfigGate, it is read after NAME.lock was
// made on the host, so that nobody there changes it meanwhile.
//
// The caller has sealed the lock's node before: nothing open or mapped, under
// whatever name, can write to it any more, and never will if this succeeds. It
// is sealed by node, as inode numbers come back. On a refusal the lock in the
// Domain is removed, the one on the host unsealed.
func (s *Sentry) Publish(from, to string, lock Content, old *Content) (Outcome, error) {
	p := s.place(to, true, true)
	if p.Class != Gated && (p.Class != ReadOnly || p.Rule != R2) {
		return 0, s.refuse(syscall.EROFS, p.Rule, Rename, to, nil)
	}
	same, err := equal(lock, old)
	if err != nil {
		return 0, s.refuse(syscall.EROFS, p.Rule, Rename, to, err)
	}
	switch {
	case same && p.Class == ReadOnly:
		return Keep, nil
	case same:
		return Replace, nil
	case p.Class == ReadOnly:
		err = s.config(p, lock, old)
	default:
		err = s.gate(p, lock)
	}
	if err != nil {
		return 0, s.refuse(syscall.EROFS, p.Rule, Rename, to, err)
	}
	return Replace, nil
}

// equal compares without holding either file.
func equal(a Content, b *Content) (bool, error) {
	if b == nil || a.Size != b.Size {
		return false, nil
	}
	const chunk = 64 << 10
	x, y := make([]byte, chunk), make([]byte, chunk)
	for at := int64(0); at < a.Size; at += chunk {
		n := min(chunk, a.Size-at)
		if err := a.fill(x[:n], at); err != nil {
			return false, err
		}
		if err := b.fill(y[:n], at); err != nil {
			return false, err
		}
		if !bytes.Equal(x[:n], y[:n]) {
			return false, nil
		}
	}
	return true, nil
}

// fill reads exactly len(b) bytes: less means that the file is not sealed.
func (c *Content) fill(b []byte, at int64) error {
	n, err := c.ReadAt(b, at)
	if n == len(b) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// config is the gate for configuration, where there is one.
func (s *Sentry) config(p place, lock Content, old *Content) error {
	_, name := gitdir.Split(p.path)
	if !s.o.ConfigGate || p.loc.Type != gitdir.Full || p.loc.Inner != name {
		return errors.New("the file is read-only here")
	}
	after, err := lock.bytes(gitconfig.MaxSize)
	if err != nil {
		return err
	}
	var before []byte
	if old != nil {
		if before, err = old.bytes(gitconfig.MaxSize); err != nil {
			return err
		}
	}
	return gate.Config(name, before, after)
}

// bytes reads a file that is small.
func (c Content) bytes(limit int64) ([]byte, error) {
	if c.Size < 0 || c.Size > limit {
		return nil, fmt.Errorf("the file has %d bytes, more than %d", c.Size, limit)
	}
	b := make([]byte, c.Size)
	return b, c.fill(b, 0)
}

func (s *Sentry) gate(p place, lock Content) error {
	switch {
	case p.objects():
		return gate.MultiPackIndex(lock, lock.Size)
	case p.loc.Inner == "HEAD":
		b, err := lock.bytes(gate.MaxHead)
		if err != nil {
			return err
		}
		return gate.Head(b)
	case s.o.VerifyIndex == nil:
		return errors.New("there is no gate for an index")
	}
	size, err := s.hashSize(p.loc.Gitdir)
	if err != nil {
		return err
	}
	return s.o.VerifyIndex(Index{
		Content: lock, Path: p.path, Gitdir: p.loc.Gitdir, HashSize: size,
		Shared: strings.HasPrefix(p.loc.Inner, "sharedindex."),
	})
}

// hashSize is the size of a repository's object ids. Not to know it would mean
// to read an index otherwise than the host's Git does.
func (s *Sentry) hashSize(dir string) (int, error) {
	common, err := s.walk.CommonDir(dir)
	if err != nil {
		return 0, err
	}
	config, ok, err := s.walk.Resolve(common, "config")
	if err == nil && !ok {
		err = errors.New("its configuration lies elsewhere")
	}
	var b []byte
	if err == nil {
		b, err = s.host.ReadFile(config, gitconfig.MaxSize)
	}
	if err != nil {
		return 0, fmt.Errorf("read the repository's format: %w", err)
	}
	entries, err := gitconfig.Parse(b)
	if err != nil {
		return 0, fmt.Errorf("read the repository's format: %w", err)
	}
	size := 20
	for _, e := range entries {
		if e.Section != "extensions" || e.Sub != "" || e.Key != "objectformat" {
			continue
		}
		switch e.Value {
		case "sha1":
			size = 20
		case "sha256":
			size = 32
		default:
			return 0, fmt.Errorf("the repository's object format is %.20q", e.Value)
		}
	}
	return size, nil
}
