// Package platform chooses among the machines that an image is made for.
//
// It is pure but for asking the processor what it can do. It is linked into the
// Host Coordinator and into image commands.
package platform

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/cpu"

	"lazaret.dev/lazaret/host/internal/image/fault"
)

// Platform is what an image runs on.
type Platform struct {
	OS      string `json:"os"`
	Arch    string `json:"arch"`
	Variant string `json:"variant,omitempty"`
}

// String returns the platform as os/arch[/variant].
func (p Platform) String() string {
	if p.Variant == "" {
		return p.OS + "/" + p.Arch
	}
	return p.OS + "/" + p.Arch + "/" + p.Variant
}

// Parse reads os/arch[/variant].
func Parse(s string) (Platform, error) {
	f := strings.Split(s, "/")
	if len(f) < 2 || len(f) > 3 || slices.Contains(f, "") {
		return Platform{}, fmt.Errorf("platform %q is not os/arch[/variant]", s)
	}
	p := Platform{OS: f[0], Arch: f[1]}
	if len(f) == 3 {
		p.Variant = f[2]
	}
	return p, nil
}

// Host is the platform of this machine.
func Host() Platform {
	p := Platform{OS: "linux", Arch: runtime.GOARCH}
	if p.Arch == "amd64" {
		p.Variant = amd64Level()
	}
	return p
}

func amd64Level() string {
	x := cpu.X86
	switch {
	case !x.HasSSE3 || !x.HasSSSE3 || !x.HasSSE41 || !x.HasSSE42 || !x.HasPOPCNT || !x.HasCX16:
		return "v1"
	case !x.HasAVX || !x.HasAVX2 || !x.HasBMI1 || !x.HasBMI2 || !x.HasFMA || !x.HasOSXSAVE:
		return "v2"
	case !x.HasAVX512F || !x.HasAVX512BW || !x.HasAVX512CD || !x.HasAVX512DQ || !x.HasAVX512VL:
		return "v3"
	}
	return "v4"
}

// normal gives the architecture its usual name and spells the variant out.
func (p Platform) normal() Platform {
	switch p.Arch {
	case "x86_64", "x86-64":
		p.Arch = "amd64"
	case "aarch64":
		p.Arch = "arm64"
	}
	if p.Variant == "" {
		p.Variant = map[string]string{"amd64": "v1", "arm64": "v8", "arm": "v7"}[p.Arch]
	}
	return p
}

// Unknown reports the platform that build tools give to attestations.
func (p Platform) Unknown() bool { return p.OS == "unknown" || p.Arch == "unknown" }

// Rank says how well an image for have runs on want: 0 not at all, and higher
// for one that uses more of the machine. A machine runs its own variant and
// every lower one.
func Rank(want, have Platform) int {
	want, have = want.normal(), have.normal()
	if want.OS != have.OS || want.Arch != have.Arch {
		return 0
	}
	if want.Variant == have.Variant {
		return 1 << 20
	}
	w, okW := level(want.Variant)
	h, okH := level(have.Variant)
	if !okW || !okH || h > w {
		return 0
	}
	return 1 + h
}

// level reads vMAJOR[.MINOR] as a number.
func level(variant string) (int, bool) {
	major, minor, _ := strings.Cut(strings.TrimPrefix(variant, "v"), ".")
	a, errA := strconv.ParseUint(major, 10, 8)
	b, errB := strconv.ParseUint(cmp.Or(minor, "0"), 10, 8)
	return int(a)*256 + int(b), strings.HasPrefix(variant, "v") && errA == nil && errB == nil
}

// Choose returns the index of the best platform, the first of equals.
func Choose(want Platform, have []Platform) (int, error) {
	best, at := 0, -1
	for i, h := range have {
		if r := Rank(want, h); r > best {
			best, at = r, i
		}
	}
	if at < 0 {
		return -1, Missing(want, have)
	}
	return at, nil
}

// Missing is the error for an image that exists for other machines only.
func Missing(want Platform, have []Platform) error {
	names := []string{}
	for _, h := range have {
		names = append(names, fmt.Sprintf("%.64q", h.String()))
	}
	slices.Sort(names)
	list := strings.ReplaceAll(strings.Join(slices.Compact(names), ", "), `"`, "")
	return &fault.Error{
		Code:    fault.Platform,
		Message: fmt.Sprintf("image is not made for %s; it exists for: %s", want, cmp.Or(list, "nothing")),
		Fix:     "choose an image that is built for this machine",
	}
}
