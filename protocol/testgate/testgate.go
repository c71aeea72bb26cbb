// Package testgate decides whether a test that needs something of the machine
// may be skipped. It is used by tests only; a lint rule keeps it from product
// code. It runs in test processes.
package testgate

import (
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
)

// Gate is one thing that a test may need. The set is closed: an unknown gate
// is a bug in the test.
type Gate string

// The gates.
const (
	Runsc     Gate = "runsc"     // a built tree with our runsc
	Slirp     Gate = "slirp"     // slirp4netns
	SubIDs    Gate = "subids"    // subordinate ids and newuidmap for this user
	FUSE      Gate = "fuse"      // /dev/fuse opens
	Tun       Gate = "tun"       // /dev/net/tun opens
	BaseImage Gate = "baseimage" // the built base image
	Internet  Gate = "internet"  // the test internet's namespaces (LAZARET_TEST_NETNS)
	UserNS    Gate = "userns"    // not root, and user namespaces work
	Busybox   Gate = "busybox"   // a static busybox, for small root trees
	Faults    Gate = "faults"    // binaries with fault points (LAZARET_TEST_FAULTY)
	Git       Gate = "git"       // git, as the oracle of differential tests
)

// BusyboxPath is where the gate Busybox expects it.
const BusyboxPath = "/bin/busybox"

// Need skips the test unless every gate is open. With LAZARET_TEST_MUST_RUN=1,
// as in CI, a closed gate fails the test instead.
func Need(t testing.TB, gates ...Gate) {
	t.Helper()
	for _, g := range gates {
		if why := closed(g); why != "" {
			if os.Getenv("LAZARET_TEST_MUST_RUN") == "1" {
				t.Fatalf("gate %s is closed where every test must run: %s", g, why)
			}
			t.Skipf("gate %s: %s", g, why)
		}
	}
}

// Tree returns the built tree: LAZARET_TEST_TREE, else build/ beside go.mod.
func Tree() string {
	if d := os.Getenv("LAZARET_TEST_TREE"); d != "" {
		return d
	}
	d, err := os.Getwd()
	for err == nil && d != "/" {
		if _, e := os.Stat(filepath.Join(d, "go.mod")); e == nil {
			return filepath.Join(d, "build")
		}
		d = filepath.Dir(d)
	}
	return "build"
}

func closed(g Gate) string {
	switch g {
	case Runsc:
		return missing(filepath.Join(Tree(), "libexec/lazaret/runsc"))
	case BaseImage:
		return missing(filepath.Join(Tree(), "image/index.json"))
	case Busybox:
		if _, err := os.Stat(BusyboxPath); err != nil {
			return err.Error() + " (package busybox-static)"
		}
	case Slirp:
		if _, err := exec.LookPath("slirp4netns"); err != nil {
			return err.Error()
		}
	case Git:
		if _, err := exec.LookPath("git"); err != nil {
			return err.Error()
		}
	case FUSE:
		return unopenable("/dev/fuse")
	case Tun:
		return unopenable("/dev/net/tun")
	case Internet:
		if os.Getenv("LAZARET_TEST_NETNS") == "" {
			return "LAZARET_TEST_NETNS is not set: run through make test"
		}
	case Faults:
		if os.Getenv("LAZARET_TEST_FAULTY") == "" {
			return "LAZARET_TEST_FAULTY is not set: run through make test"
		}
	case SubIDs:
		return noSubIDs()
	case UserNS:
		if os.Getuid() == 0 {
			return "running as root"
		}
		if err := exec.Command("unshare", "--user", "--map-root-user", "true").Run(); err != nil {
			return "user namespaces: " + err.Error()
		}
	default:
		panic("unknown gate " + string(g))
	}
	return ""
}

func missing(path string) string {
	if _, err := os.Stat(path); err != nil {
		return err.Error() + " (make build image)"
	}
	return ""
}

func unopenable(path string) string {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err.Error()
	}
	_ = f.Close()
	return ""
}

func noSubIDs() string {
	if _, err := exec.LookPath("newuidmap"); err != nil {
		return err.Error()
	}
	u, err := user.Current()
	if err != nil {
		return err.Error()
	}
	b, err := os.ReadFile("/etc/subuid")
	if err != nil {
		return err.Error()
	}
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(line, u.Username+":") || strings.HasPrefix(line, u.Uid+":") {
			return ""
		}
	}
	return "no subordinate ids for " + u.Username
}
