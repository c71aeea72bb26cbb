// Package value reads the texts that stand for something in the configuration:
// paths with placeholders, sizes, time spans and network prefixes. Its
// functions are pure and know neither files nor keys; the config package says
// where a refused text stands. It runs in the Client CLI.
package value

import (
	"fmt"
	"math"
	"net/netip"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Error is a refused text.
type Error struct {
	Msg string
	Fix string // may be empty
}

// Error implements error.
func (e *Error) Error() string { return e.Msg }

func refuse(fix, format string, args ...any) *Error {
	return &Error{Msg: fmt.Sprintf(format, args...), Fix: fix}
}

// Expander expands placeholders. With Tokens nil only "~" is known.
type Expander struct {
	Home   string
	Tokens map[string]string // name without braces → text
}

var token = regexp.MustCompile(`\{[^{}]*\}`)

// Text replaces each placeholder once; what it stands for is not looked at
// again. It refuses ".." segments, NUL and unknown placeholders.
func (x Expander) Text(s string) (string, error) {
	if strings.ContainsRune(s, 0) {
		return "", refuse("", "%q contains a NUL byte", s)
	}
	for part := range strings.SplitSeq(s, "/") {
		if part == ".." {
			return "", refuse("write the path without it", "%q contains a \"..\" segment", s)
		}
	}
	var bad string
	s = token.ReplaceAllStringFunc(s, func(t string) string {
		v, ok := x.Tokens[t[1:len(t)-1]]
		if !ok && bad == "" {
			bad = t
		}
		return v
	})
	if bad != "" {
		fix := "{profile_name}, {profile_dir}, {domain_id}, {domain_dir} and {workspace_dir} are known"
		if x.Tokens == nil {
			fix = "only ~ is expanded in this key"
		}
		return "", refuse(fix, "the placeholder %s is not known here", bad)
	}
	return s, nil
}

// Path expands a host path and cleans it; the result is absolute. "~" stands
// for the home directory as the first character alone, before "/" or the end.
func (x Expander) Path(s string) (string, error) {
	rest, home := s, ""
	if s == "~" || strings.HasPrefix(s, "~/") {
		rest, home = s[1:], x.Home
	}
	out, err := x.Text(rest)
	if err != nil {
		return "", err
	}
	out = home + out
	if !filepath.IsAbs(out) {
		fix := "write a path that begins with / or ~/"
		if strings.HasPrefix(s, "~") {
			fix = "~ stands for your own home directory only: write ~/..."
		}
		return "", refuse(fix, "%q is not an absolute path", s)
	}
	return filepath.Clean(out), nil
}

// Size reads a positive number of bytes: "512", "100KiB", "1MB".
func Size(s string) (int64, error) {
	units := map[string]int64{
		"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
		"kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
	}
	digits := strings.TrimRight(s, "BKMGTik ")
	mult, ok := units[strings.TrimSpace(s[len(digits):])]
	n, err := strconv.ParseUint(digits, 10, 63)
	if !ok || err != nil || n == 0 || int64(n) > math.MaxInt64/mult {
		return 0, refuse(`write a number and a unit, such as "100KiB", "1MiB" or "20GiB"`, "%q is not a size", s)
	}
	return int64(n) * mult, nil
}

// Duration reads a positive time span: "90s", "5m", "1h30m".
func Duration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return 0, refuse(`write a time such as "90s", "5m" or "1h30m"`, "%q is not a time span", s)
	}
	return d, nil
}

// Prefix reads one IPv4 prefix with no address bits set behind its length, and
// longer than 0.
func Prefix(s string) (netip.Prefix, error) {
	var none netip.Prefix
	p, err := netip.ParsePrefix(s)
	if err != nil {
		a, aerr := netip.ParseAddr(s)
		switch {
		case aerr == nil && a.Is4():
			return none, refuse(fmt.Sprintf("write %q", s+"/32"), "%q has no prefix length", s)
		case aerr == nil:
			return none, noIPv6(s)
		}
		return none, refuse(`write a prefix such as "10.222.0.0/16"`, "%q is not an IPv4 prefix", s)
	}
	switch {
	case !p.Addr().Is4():
		return none, noIPv6(s)
	case p != p.Masked():
		return none, refuse(fmt.Sprintf("write %q, or a longer prefix", p.Masked()), "%q has address bits set behind its prefix length", s)
	case p.Bits() == 0:
		return none, refuse(`what no rule names is allowed; to deny everything write "0.0.0.0/1" and "128.0.0.0/1"`, "%q is not possible", s)
	}
	return p, nil
}

func noIPv6(s string) *Error {
	return refuse("remove it", "%q is IPv6, which is switched off in the sandbox: nothing is reachable there anyway", s)
}
