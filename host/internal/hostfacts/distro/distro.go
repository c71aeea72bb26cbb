// Package distro knows how the families of Linux distributions install a
// package. It installs nothing and reads no file. It runs where package
// hostfacts does.
package distro

import "strings"

// Family is a group of distributions that share a package manager.
type Family string

// The families. Other distributions have the family "".
const (
	Debian Family = "debian"
	Fedora Family = "fedora"
	SUSE   Family = "suse"
	Arch   Family = "arch"
	Alpine Family = "alpine"
)

// Install returns the command that installs a package, or words where the
// family is not known. names holds the package's names; Debian's stands in for
// those that are missing.
func (f Family) Install(names map[Family]string) string {
	name, ok := names[f]
	if !ok {
		name = names[Debian]
	}
	switch f {
	case Debian:
		return "sudo apt install " + name
	case Fedora:
		return "sudo dnf install " + name
	case SUSE:
		return "sudo zypper install " + name
	case Arch:
		return "sudo pacman -S " + name
	case Alpine:
		return "sudo apk add " + name
	}
	return "install the package " + name + " of your distribution"
}

// Of returns the family that an os-release file describes.
func Of(osRelease string) Family {
	fields := map[string]string{}
	for line := range strings.Lines(osRelease) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			fields[k] = strings.Trim(v, `"'`)
		}
	}
	// ID_LIKE is ordered from the closest relative on.
	for _, id := range append([]string{fields["ID"]}, strings.Fields(fields["ID_LIKE"])...) {
		switch {
		case id == "debian" || id == "ubuntu":
			return Debian
		case id == "fedora" || id == "rhel" || id == "centos":
			return Fedora
		case id == "suse" || id == "sles" || strings.HasPrefix(id, "opensuse"):
			return SUSE
		case id == "arch":
			return Arch
		case id == "alpine":
			return Alpine
		}
	}
	return ""
}
