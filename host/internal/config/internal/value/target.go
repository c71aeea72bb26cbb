package value

import (
	"path/filepath"
	"strings"
)

// reserved are the directories of the sandbox that are Lazaret's or the
// kernel's. /var/run is a link to /run in images.
var reserved = []string{"/workspace", "/run/lazaret", "/var/run/lazaret", "/proc", "/sys", "/dev"}

// lazaretFiles are Lazaret's own files in the sandbox.
var lazaretFiles = []string{"/etc/resolv.conf", "/etc/hosts", "/etc/hostname", "/usr/local/bin/escalate"}

// Touches reports whether one of two clean absolute paths is or contains the other.
func Touches(a, b string) bool { return within(a, b) || within(b, a) }

func within(dir, path string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}

// Target reads a path of the sandbox at which something is to be kept or
// mounted: absolute, not "/", and apart from the reserved ones.
func (x Expander) Target(s string) (string, error) {
	s, err := x.Text(s)
	if err != nil {
		return "", err
	}
	if !filepath.IsAbs(s) {
		return "", refuse("write a path that begins with /", "%q is not an absolute path in the sandbox", s)
	}
	p := filepath.Clean(s)
	if p == "/" {
		return "", refuse("name the directories that are meant", `"/" is not possible`)
	}
	for _, r := range reserved {
		// A persistent /var has a link in it, not the directory.
		if Touches(p, r) && (p != "/var" || r != "/var/run/lazaret") {
			return "", refuse("", "%q touches %s, which is not yours to mount over", p, r)
		}
	}
	return p, nil
}

// Hidden returns the file of Lazaret's own that a mount at path would hide, or "".
func Hidden(path string) string {
	for _, f := range lazaretFiles {
		if within(path, f) {
			return f
		}
	}
	return ""
}
