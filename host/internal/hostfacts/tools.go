package hostfacts

import (
	"os"
	"path/filepath"
	"strings"
)

// Tools holds the absolute paths of the programs that a start uses; "" where
// one was not found.
type Tools struct {
	NewUIDMap     string
	NewGIDMap     string
	Slirp4netns   string
	Runsc         string
	Supervisor    string
	Escalate      string
	FuseOverlayFS string // optional
}

// Locate finds the tools: our own beside the running lazaret
// (<prefix>/bin/lazaret → <prefix>/libexec/lazaret), the system's in PATH. A
// runsc of the installation goes before one in PATH.
func Locate(e Env) Tools {
	libexec := e.Libexec()
	own := func(name string) string {
		if p := filepath.Join(libexec, name); executable(p) {
			return p
		}
		return ""
	}
	t := Tools{
		NewUIDMap:     e.lookPath("newuidmap"),
		NewGIDMap:     e.lookPath("newgidmap"),
		Slirp4netns:   e.lookPath("slirp4netns"),
		FuseOverlayFS: e.lookPath("fuse-overlayfs"),
		Supervisor:    own("lazaret-supervisor"),
		Escalate:      own("lazaret-escalate"),
		Runsc:         own("runsc"),
	}
	if t.Runsc == "" {
		t.Runsc = e.lookPath("runsc")
	}
	return t
}

// Prefix returns the installation's prefix.
func (e Env) Prefix() string { return filepath.Dir(filepath.Dir(e.Exe)) }

// Libexec returns the directory of Lazaret's own helpers.
func (e Env) Libexec() string { return filepath.Join(e.Prefix(), "libexec", "lazaret") }

// lookPath finds a program in PATH, then where NixOS keeps its setuid wrappers.
// Relative entries are skipped: what is found must not depend on the directory.
func (e Env) lookPath(name string) string {
	for _, dir := range append(e.Path[:len(e.Path):len(e.Path)], e.Root+"/run/wrappers/bin") {
		if !filepath.IsAbs(dir) {
			continue
		}
		if p := filepath.Join(dir, name); executable(p) {
			return p
		}
	}
	return ""
}

func executable(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.Mode().IsRegular() && fi.Mode().Perm()&0o111 != 0
}

// family is a group of distributions that share a package manager.
type family string

const (
	debian family = "debian"
	fedora family = "fedora"
	suse   family = "suse"
	arch   family = "arch"
	alpine family = "alpine"
)

// install returns the command that installs a package, or words where the
// distribution is not known. names are the package's names; the one of debian
// is the default.
func (e Env) install(names map[family]string) string {
	command := map[family]string{
		debian: "sudo apt install ", fedora: "sudo dnf install ", suse: "sudo zypper install ",
		arch: "sudo pacman -S ", alpine: "sudo apk add ",
	}
	f := e.family()
	name, ok := names[f]
	if !ok {
		name = names[debian]
	}
	if f == "" {
		return "install the package " + name + " of your distribution"
	}
	return command[f] + name
}

// family reads os-release; "" is a distribution that we do not know.
func (e Env) family() family {
	text := e.read("/etc/os-release")
	if text == "" {
		text = e.read("/usr/lib/os-release")
	}
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			fields[k] = strings.Trim(v, `"'`)
		}
	}
	// ID_LIKE is ordered from the closest relative on.
	for _, id := range append([]string{fields["ID"]}, strings.Fields(fields["ID_LIKE"])...) {
		switch {
		case id == "debian" || id == "ubuntu":
			return debian
		case id == "fedora" || id == "rhel" || id == "centos":
			return fedora
		case id == "suse" || id == "sles" || strings.HasPrefix(id, "opensuse"):
			return suse
		case id == "arch":
			return arch
		case id == "alpine":
			return alpine
		}
	}
	return ""
}
