package config

import (
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"lazaret.dev/lazaret/host/internal/config/internal/document"
)

// expander expands the placeholders of one profile in one workspace. With
// tokens nil only "~" is known.
type expander struct {
	doc    *document.Document
	home   string
	tokens map[string]string
}

var token = regexp.MustCompile(`\{[^{}]*\}`)

// text replaces each placeholder once; what it stands for is not looked at again.
func (x expander) text(key []string, s string) (string, error) {
	if strings.ContainsRune(s, 0) {
		return "", x.doc.Fault(key, "", "%q contains a NUL byte", s)
	}
	for _, part := range strings.Split(s, "/") {
		if part == ".." {
			return "", x.doc.Fault(key, "write the path without it", "%q contains a \"..\" segment", s)
		}
	}
	var bad string
	s = token.ReplaceAllStringFunc(s, func(t string) string {
		v, ok := x.tokens[t[1:len(t)-1]]
		if !ok && bad == "" {
			bad = t
		}
		return v
	})
	if bad != "" {
		fix := "{profile_name}, {profile_dir}, {domain_id}, {domain_dir} and {workspace_dir} are known"
		if x.tokens == nil {
			fix = "only ~ is expanded in this key"
		}
		return "", x.doc.Fault(key, fix, "the placeholder %s is not known here", bad)
	}
	return s, nil
}

// path expands a host path. "~" stands for the home directory as the first
// character alone, before "/" or the end.
func (x expander) path(key []string, s string) (string, error) {
	out := s
	if s == "~" || strings.HasPrefix(s, "~/") {
		out = s[1:]
	}
	out, err := x.text(key, out)
	if err != nil {
		return "", err
	}
	if len(s) > 0 && s[0] == '~' && (len(s) == 1 || s[1] == '/') {
		out = x.home + out
	}
	if !filepath.IsAbs(out) {
		fix := "write a path that begins with / or ~/"
		if strings.HasPrefix(s, "~") {
			fix = "~ stands for your own home directory only: write ~/..."
		}
		return "", x.doc.Fault(key, fix, "%q is not an absolute path", s)
	}
	return filepath.Clean(out), nil
}

// size reads a number of bytes: "512", "100KiB", "1MB".
func (c *Config) size(key []string, s string) (int64, error) {
	digits := strings.TrimRight(s, "BKMGTikmgt ")
	unit := strings.TrimSpace(s[len(digits):])
	units := map[string]int64{
		"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
		"kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
	}
	mult, ok := units[unit]
	n, err := strconv.ParseUint(digits, 10, 63)
	if !ok || err != nil || n == 0 || int64(n) > math.MaxInt64/mult {
		return 0, c.doc.Fault(key, `write a number and a unit, such as "100KiB", "1MiB" or "20GiB"`, "%q is not a size", s)
	}
	return int64(n) * mult, nil
}

// duration reads a positive time span: "90s", "5m", "1h30m".
func (c *Config) duration(key []string, s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return 0, c.doc.Fault(key, `write a time such as "90s", "5m" or "1h30m"`, "%q is not a time span", s)
	}
	return d, nil
}

// choice reads one of the words of an enumeration.
func choice[T any, P interface {
	*T
	UnmarshalText([]byte) error
}](c *Config, key []string, s string) (v T, err error) {
	if err := P(&v).UnmarshalText([]byte(s)); err != nil {
		return v, c.doc.Fault(key, "", "%v", err)
	}
	return v, nil
}

// sub returns a key path below another one.
func sub(key []string, more ...any) []string {
	out := append([]string(nil), key...)
	for _, m := range more {
		out = append(out, fmt.Sprint(m))
	}
	return out
}
