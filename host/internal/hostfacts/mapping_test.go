package hostfacts_test

import (
	"context"
	"errors"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lazaret.dev/lazaret/host/internal/hostfacts"
	"lazaret.dev/lazaret/host/internal/hostfacts/subid"
	"lazaret.dev/lazaret/protocol/handoff"
)

// Which ranges make a full mapping, and what the single-id fallback says.
func TestMapping(t *testing.T) {
	mine := subid.Range{Start: 165536, Count: 65536}
	for name, c := range map[string]struct {
		subuid, subgid, getsubids string
		want                      subid.Range // of the uids; zero: single
		warning                   string
	}{
		"by name":          {"ann:165536:65536", "ann:165536:65536", "", mine, ""},
		"second is enough": {"ann:90000:10\nann:165536:65536", "ann:165536:65536", "", mine, ""},
		"too few":          {"ann:165536:65535", "ann:165536:65536", "", subid.Range{}, "fewer than 65536"},
		"no gids":          {"ann:165536:65536", "", "", subid.Range{}, "no subordinate ids for ann in /etc/subgid"},
		"none":             {"", "", "", subid.Range{}, "no subordinate ids for ann in /etc/subuid"},
		"overlap":          {"ann:165536:65536\nbob:200000:65536", "ann:165536:65536", "", subid.Range{}, "overlap those of bob"},
		"touching is fine": {"ann:165536:65536\nbob:231072:65536", "ann:165536:65536", "", mine, ""},
		"junk lines":       {"\n#x\nann\nann:x:y\nann:-5:65536\nann:0:65536\nann:4294967000:65536\nann:165536:65536", "ann:165536:65536", "", mine, ""},
		"from SSSD":        {"", "", "0: ann 165536 65536\n", mine, ""},
		"SSSD has nothing": {"", "", "Error fetching ranges\n", subid.Range{}, "no subordinate ids"},
	} {
		t.Run(name, func(t *testing.T) {
			e, s := good(t)
			put(t, e, "etc/subuid", c.subuid, 0o644)
			put(t, e, "etc/subgid", c.subgid, 0o644)
			if c.getsubids != "" {
				put(t, e, "usr/bin/getsubids", "", 0o755)
				s.run["getsubids ann"] = says(hostfacts.Output{Stdout: c.getsubids})
				s.run["getsubids -g ann"] = says(hostfacts.Output{Stdout: c.getsubids})
			}
			f, err := hostfacts.Quick(context.Background(), e)
			if err != nil {
				t.Fatal(err)
			}
			mode, warnings := handoff.MappingFull, 0
			if c.want == (subid.Range{}) {
				mode, warnings = handoff.MappingSingle, 1
			}
			if f.Mapping.Mode != mode || f.Mapping.UIDs != c.want || len(f.Warnings) != warnings {
				t.Fatalf("%+v", f)
			}
			if warnings == 1 && (!strings.Contains(f.Warnings[0], c.warning) || strings.Contains(f.Warnings[0], "\n")) {
				t.Errorf("warning %q", f.Warnings[0])
			}
		})
	}
}

// A newuidmap that NixOS wraps, and one with file capabilities instead of the
// setuid bit, are found and good.
func TestOtherPlacesOfIDTools(t *testing.T) {
	e, s := good(t)
	remove(t, e, "usr/bin/newuidmap", "usr/bin/newgidmap")
	put(t, e, "run/wrappers/bin/newuidmap", "", 0o755|fs.ModeSetuid)
	put(t, e, "run/wrappers/bin/newgidmap", "", 0o755)
	s.caps = map[string]bool{"newgidmap": true}
	f, err := hostfacts.Quick(context.Background(), e)
	if err != nil || f.Tools.NewUIDMap != e.Root+"/run/wrappers/bin/newuidmap" || f.Mapping.Mode != handoff.MappingFull {
		t.Fatalf("%+v, %v", f, err)
	}
}

// Each distribution gets its own command.
func TestInstallLines(t *testing.T) {
	for release, want := range map[string]string{
		"ID=debian":                                  "sudo apt install uidmap",
		"ID=ubuntu\nID_LIKE=debian":                  "sudo apt install uidmap",
		"ID=linuxmint\nID_LIKE=\"ubuntu debian\"":    "sudo apt install uidmap",
		"ID=fedora":                                  "sudo dnf install shadow-utils",
		"ID=\"rocky\"\nID_LIKE=\"rhel centos\"":      "sudo dnf install shadow-utils",
		"ID=\"opensuse-tumbleweed\"\nID_LIKE='suse'": "sudo zypper install shadow",
		"ID=arch":   "sudo pacman -S shadow",
		"ID=alpine": "sudo apk add shadow-uidmap",
		"ID=void":   "install the package uidmap of your distribution",
		"":          "install the package uidmap of your distribution",
	} {
		e, _ := good(t)
		put(t, e, "etc/os-release", release, 0o644)
		remove(t, e, "usr/bin/newuidmap")
		_, err := hostfacts.Quick(context.Background(), e)
		var b *hostfacts.BlockedError
		if !errors.As(err, &b) || b.Hint() != want {
			t.Errorf("%q: %v", release, err)
		}
	}
}

// An AppArmor profile that the installation brings is used for the path that it
// was written for.
func TestPackagedAppArmorProfile(t *testing.T) {
	e, s := good(t)
	put(t, e, "proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n", 0o644)
	put(t, e, "proc/self/attr/apparmor/current", "unconfined\n", 0o644)
	s.run["lazaret-supervisor probe-userns"] = says(hostfacts.Output{Status: 1, Stderr: "uid_map: EPERM\n"})
	for _, c := range hostfacts.Examine(context.Background(), e).Checks {
		if c.ID == "D1" && (!strings.Contains(c.Note, "apparmor_restrict_unprivileged_userns=0") || strings.Contains(c.Fix, "\n")) {
			t.Errorf("%+v", c)
		}
	}
	got := hostfacts.Profile(`/opt/a b{c}"d`)
	if !strings.Contains(got, `profile lazaret "/opt/a b\{c\}\"d" flags=(unconfined) {`) {
		t.Errorf("profile:\n%s", got)
	}
}

// The line that doctor prints makes exactly the profile.
func TestAppArmorFixIsAWorkingLine(t *testing.T) {
	e, s := good(t)
	prefix := filepath.Join(e.Root, `it's 100% "odd"\`)
	for _, name := range []string{"lazaret-supervisor", "lazaret-escalate", "runsc"} {
		put(t, e, filepath.Join(`it's 100% "odd"\`, "libexec/lazaret", name), "", 0o755)
	}
	e.Exe = filepath.Join(prefix, "bin/lazaret")
	put(t, e, "proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n", 0o644)
	s.run["lazaret-supervisor probe-userns"] = says(hostfacts.Output{Status: 1, Stderr: "uid_map: EPERM\n"})
	for _, c := range hostfacts.Examine(context.Background(), e).Checks {
		if c.ID != "D1" {
			continue
		}
		line, _, ok := strings.Cut(c.Fix, " | sudo tee ")
		if !ok {
			t.Fatal(c.Fix)
		}
		out, err := exec.Command("/bin/sh", "-c", line).Output()
		if want := hostfacts.Profile(filepath.Join(prefix, "libexec/lazaret/lazaret-supervisor")); err != nil || string(out) != want {
			t.Errorf("%v: %s\nwant %s", err, out, want)
		}
	}
}

// A runsc that is not ours is judged by the date in whatever it prints.
func TestRunscVersions(t *testing.T) {
	for printed, want := range map[string]hostfacts.Status{
		"runsc version release-20260905.0\nspec: 1.2.1":                  hostfacts.OK,
		"runsc version release-20270101.0-12-gabcdef\n":                  hostfacts.OK,
		"runsc version 0.0~20261001.0\n":                                 hostfacts.OK,
		"runsc version v0.0.0-20260905035102-160fafc42237\n":             hostfacts.OK,
		"runsc version v0.0.0-20260904235959-aaaaaaaaaaaa\n":             hostfacts.Block,
		"runsc version release-20260831.0\nbuilt 20270101":               hostfacts.Block,
		"runsc version 0.0~20240729.0\n":                                 hostfacts.Block,
		"runsc version VERSION_MISSING\n":                                hostfacts.Block,
		"runsc version release-202609050.0\n":                            hostfacts.Block,
		"":                                                               hostfacts.Block,
		"runsc version \x1b[2Jrelease-20990101.0":                        hostfacts.OK,
		"runsc version release-" + strings.Repeat("9", 100) + "20270101": hostfacts.Block,
	} {
		e, s := good(t)
		s.run["runsc --version"] = says(hostfacts.Output{Stdout: printed})
		for _, c := range hostfacts.Examine(context.Background(), e).Checks {
			if c.ID == "runsc" && c.Status != want {
				t.Errorf("%q: %+v", printed, c)
			}
		}
	}
}
