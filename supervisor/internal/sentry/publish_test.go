package sentry_test

import (
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"

	"lazaret.dev/lazaret/supervisor/internal/sentry"
)

// midx is a multi-pack-index with those pack names, as far as its gate reads.
func midx(names ...string) string {
	pnam := strings.Join(names, "\x00") + "\x00"
	pnam += strings.Repeat("\x00", -len(pnam)&3)
	b := append([]byte("MIDX\x01\x01\x01\x00"), binary.BigEndian.AppendUint32(nil, uint32(len(names)))...)
	b = append(b, "PNAM"...)
	b = binary.BigEndian.AppendUint64(b, 36)
	b = append(b, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint64(b, uint64(36+len(pnam)))
	return string(b) + pnam + strings.Repeat("h", 20)
}

func TestPublish(t *testing.T) {
	t.Parallel()
	upstream := hostConfig + "[branch \"x\"]\n\tremote = origin\n"
	for _, tc := range []struct {
		from, to, lock, old string
		gate                bool
		want                sentry.Outcome
		errno               syscall.Errno
	}{
		{".git/config.lock", ".git/config", hostConfig, hostConfig, false, sentry.Keep, 0},
		{".git/config.lock", ".git/config", upstream, hostConfig, false, 0, syscall.EROFS},
		{".git/config.lock", ".git/config", upstream, hostConfig, true, sentry.Replace, 0},
		{".git/config.lock", ".git/config", hostConfig + "[alias]\n\tx = !y\n", hostConfig, true, 0, syscall.EROFS},
		{".git/config.lock", ".git/config", "", "-", false, 0, syscall.EROFS},
		{".git/info/exclude.lock", ".git/info/exclude", "x", "x", false, sentry.Keep, 0},
		{".git/info/exclude.lock", ".git/info/exclude", "x", "y", true, 0, syscall.EROFS},
		{".git/info/config.lock", ".git/info/config", upstream, hostConfig, true, 0, syscall.EROFS},
		{".git/index.lock", ".git/index", "good", "x", false, sentry.Replace, 0},
		{".git/index.lock", ".git/index", "forged", "forged", false, sentry.Replace, 0},
		{".git/index.lock", ".git/index", "forged", "x", false, 0, syscall.EROFS},
		{".git/HEAD.lock", ".git/HEAD", "ref: refs/heads/x\n", "x", false, sentry.Replace, 0},
		{".git/HEAD.lock", ".git/HEAD", "ref: x", "x", false, 0, syscall.EROFS},
		{".git/HEAD.lock", ".git/HEAD", strings.Repeat("a", 5000), "x", false, 0, syscall.EROFS},
		{".git/objects/pack/multi-pack-index.lock", ".git/objects/pack/multi-pack-index", midx("pack-ab.idx"), "-", false, sentry.Replace, 0},
		{".git/objects/pack/multi-pack-index.lock", ".git/objects/pack/multi-pack-index", midx("../pack-ab.idx"), "-", false, 0, syscall.EROFS},
		{"a", "a.txt", "x", "x", false, 0, syscall.EROFS},
		{".git/hooks/x.lock", ".git/hooks/x", "x", "x", false, 0, syscall.EROFS},
	} {
		m := newSim(t, hostTree(), sentry.Options{ConfigGate: tc.gate})
		var old *sentry.Content
		if tc.old != "-" {
			c := content(tc.old)
			old = &c
		}
		got, err := m.s.Publish(tc.from, tc.to, content(tc.lock), old)
		wantErrno(t, tc.to+" "+tc.lock, err, tc.errno)
		if err == nil && got != tc.want {
			t.Errorf("%s: outcome %v, want %v", tc.to, got, tc.want)
		}
	}
}

// TestPublishFormat: the index is read as the host's Git reads it, or not at
// all.
func TestPublishFormat(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		host string
		size int // 0: refused
	}{
		{".git/config = [core]\n", 20},
		{".git/config = [extensions]\n\tobjectFormat = sha1\n", 20},
		{".git/config = [extensions]\n\tobjectFormat = sha256\n", 32},
		{".git/config = [extensions]\n\tobjectFormat = other\n", 0},
		{".git/config = [", 0},
		{".git/config/", 0},
		{".git/config -> ../cfg", 32},
		{".git/config -> /else/where", 0},
		{".git/commondir = ../store", 32},
		{".git/commondir = /else/where", 0},
		{".git/commondir -> x", 0},
	} {
		host := hostTree()
		host.Add("cfg = [extensions]\n\tobjectFormat = sha256\n")
		host.Add("store/config = [extensions]\n\tobjectFormat = sha256\n")
		host.Add(tc.host)
		size := 0
		m := newSim(t, host, sentry.Options{VerifyIndex: func(x sentry.Index) error {
			size = x.HashSize
			if x.Gitdir != ".git" || x.Path != ".git/index" || x.Shared {
				return errors.New("other facts")
			}
			return nil
		}})
		_, err := m.s.Publish(".git/index.lock", ".git/index", content("new"), nil)
		if size != tc.size || (err == nil) != (tc.size != 0) {
			t.Errorf("%s: hash size %d, %v, want %d", tc.host, size, err, tc.size)
		}
	}
	_, err := sentry.New(hostTree(), sentry.Options{}).Publish(".git/index.lock", ".git/index", content("good"), nil)
	wantErrno(t, "without a gate", err, syscall.EROFS)
}

// shrinking is a file that lost its end after it was measured.
type shrinking struct{}

func (shrinking) ReadAt(b []byte, off int64) (int, error) {
	if off > 0 || len(b) <= 4 {
		return 0, io.EOF
	}
	return copy(b, "same"), io.EOF
}

// TestPublishShrinks: a file shorter than its size never equals another.
func TestPublishShrinks(t *testing.T) {
	t.Parallel()
	m := newSim(t, hostTree(), sentry.Options{})
	short := sentry.Content{ReaderAt: shrinking{}, Size: 8}
	for _, lock := range []sentry.Content{short, content("same\x00\x00\x00\x00")} {
		_, err := m.s.Publish(".git/config.lock", ".git/config", lock, &short)
		wantErrno(t, "shrinking", err, syscall.EROFS)
	}
}
