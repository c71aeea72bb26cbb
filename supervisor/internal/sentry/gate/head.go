// Package gate checks what is on its way from inside to a file that the host's
// Git trusts: HEAD, multi-pack-index, and configuration where the developer
// lets a little of it through.
//
// Every function is pure, and a gate that is not sure refuses. It runs in the
// Runtime Supervisor.
package gate

import (
	"errors"
	"fmt"
	"strings"
)

// MaxHead bounds the HEAD file.
const MaxHead = 4096

// Head tells why b is no HEAD that Git writes: "ref: refs/…" or an object id.
func Head(b []byte) error {
	if len(b) > MaxHead {
		return errors.New("HEAD is too long")
	}
	s := strings.TrimSuffix(string(b), "\n")
	if ref, ok := strings.CutPrefix(s, "ref: "); ok {
		if !strings.HasPrefix(ref, "refs/") || !RefName(ref) {
			return fmt.Errorf("HEAD names %.100q, which is no ref below refs/", ref)
		}
		return nil
	}
	if n := len(s); (n == 40 || n == 64) && hex(s) {
		return nil
	}
	return errors.New("HEAD is neither a ref nor an object id")
}

// RefName is git-check-ref-format for a full name.
func RefName(name string) bool {
	if strings.HasSuffix(name, ".") || strings.Contains(name, "..") || strings.Contains(name, "@{") {
		return false
	}
	for i := range len(name) {
		if c := name[i]; c <= ' ' || c == 0x7f || strings.IndexByte("~^:?*[\\", c) >= 0 {
			return false
		}
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part[0] == '.' || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	return strings.Contains(name, "/")
}

func hex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return s != ""
}
