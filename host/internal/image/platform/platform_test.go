package platform_test

import (
	"strings"
	"testing"

	"lazaret.dev/lazaret/host/internal/image/fault"
	"lazaret.dev/lazaret/host/internal/image/platform"
)

func parse(t *testing.T, s string) platform.Platform {
	t.Helper()
	p, err := platform.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Case 92
func TestChoose(t *testing.T) {
	for _, c := range []struct{ want, have, chosen string }{
		{"linux/amd64", "linux/arm64/v8 linux/amd64", "linux/amd64"},
		{"linux/arm64", "linux/arm64/v8 linux/amd64", "linux/arm64/v8"},
		{"linux/arm64/v8", "linux/arm64 linux/amd64", "linux/arm64"},
		{"linux/aarch64", "linux/arm64/v8", "linux/arm64/v8"},
		{"linux/amd64", "linux/amd64/v3 linux/amd64", "linux/amd64"},
		{"linux/amd64/v3", "linux/amd64/v2 linux/amd64/v4 linux/amd64", "linux/amd64/v2"},
		{"linux/amd64/v4", "linux/amd64 linux/amd64/v3", "linux/amd64/v3"},
		{"linux/arm/v7", "linux/arm/v5 linux/arm/v6 linux/arm/v8", "linux/arm/v6"},
		{"linux/arm64/v8.2", "linux/arm64/v9 linux/arm64/v8.1 linux/arm64/v8", "linux/arm64/v8.1"},
		{"linux/amd64", "linux/amd64/v2", ""},
		{"linux/amd64", "windows/amd64 freebsd/amd64", ""},
		{"linux/amd64", "linux/amd64/odd", ""},
		{"linux/amd64", "", ""},
	} {
		var have []platform.Platform
		for h := range strings.FieldsSeq(c.have) {
			have = append(have, parse(t, h))
		}
		i, err := platform.Choose(parse(t, c.want), have)
		got := ""
		if err == nil {
			got = have[i].String()
		}
		if got != c.chosen {
			t.Errorf("%s of [%s]: %q, want %q", c.want, c.have, got, c.chosen)
		}
		if c.chosen == "" && !fault.Has(err, fault.Platform) {
			t.Errorf("%s of [%s]: %v", c.want, c.have, err)
		}
		for h := range strings.FieldsSeq(c.have) {
			if err != nil && !strings.Contains(err.Error(), h) {
				t.Errorf("the error does not list %s: %v", h, err)
			}
		}
	}
	for _, bad := range []string{"", "linux", "linux/", "a/b/c/d", "/amd64"} {
		if _, err := platform.Parse(bad); err == nil {
			t.Errorf("%q was parsed", bad)
		}
	}
	if h := platform.Host(); platform.Rank(h, platform.Platform{OS: "linux", Arch: h.Arch}) == 0 {
		t.Errorf("this machine, %s, does not run its own plainest images", h)
	}
}
