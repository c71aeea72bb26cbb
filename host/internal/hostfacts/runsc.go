package hostfacts

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// PinnedRunsc is the version of gvisor.dev/gvisor that Lazaret is built and
// tested with; packaging/runsc builds it.
const PinnedRunsc = "v0.0.0-20260905035102-160fafc42237"

const gvisorModule = "gvisor.dev/gvisor"

// runscQuick trusts the installation's own runsc without running it. One from
// PATH is anybody's, and is examined on every start.
func (h host) runscQuick(ctx context.Context) Check {
	if p := h.tools.Runsc; p != "" && filepath.Dir(p) == h.Libexec() {
		return Check{ID: "runsc", Status: OK, Found: p}
	}
	return h.runsc(ctx)
}

// runsc demands a runsc that runs, is at least as new as the pinned one, and
// can signal a process group of the sandbox.
func (h host) runsc(ctx context.Context) Check {
	path := h.tools.Runsc
	c := Check{ID: "runsc", Status: Block, Fix: "install Lazaret again, which brings its own runsc (in its source tree: make build)"}
	if path == "" {
		c.Why = fmt.Sprintf("runsc is missing from %s and from PATH.", h.Libexec())
		return c
	}
	out, err := h.System.Run(ctx, path, "--version")
	if err != nil || out.Status != 0 {
		c.Why = fmt.Sprintf("%s does not run: %s.", path, failure(out, err))
		return c
	}
	version := runscVersion(path, out.Stdout)
	if !atLeastPinned(version) {
		c.Why = fmt.Sprintf("%s is of version %s; at least %s is needed.", path, version, PinnedRunsc)
		return c
	}
	// The help of a subcommand goes to stderr, with a status of its own.
	out, err = h.System.Run(ctx, path, "help", "kill")
	if err != nil || !strings.Contains(out.Stdout+out.Stderr, "-pgid") {
		c.Why = fmt.Sprintf("%s has no kill --pgid, which ends a session's processes.", path)
		return c
	}
	return Check{ID: "runsc", Status: OK, Found: path + ", " + version}
}

// runscVersion returns the version of a runsc. The Go build information goes
// first: a build of the module carries its true version there, whatever
// --version was linked to say. Releases carry none, and print theirs.
func runscVersion(path, printed string) string {
	if info, err := buildinfo.ReadFile(path); err == nil {
		if info.Main.Path == gvisorModule && dateOf(info.Main.Version) != 0 {
			return info.Main.Version
		}
		for _, d := range info.Deps {
			if d.Path == gvisorModule && d.Replace == nil && dateOf(d.Version) != 0 {
				return d.Version
			}
		}
	}
	line, _, _ := strings.Cut(printed, "\n")
	version := strings.TrimSpace(strings.TrimPrefix(line, "runsc version "))
	if version == "" {
		return "unknown"
	}
	return version
}

// gVisor has no ordered version numbers; all of its forms carry a date:
// v0.0.0-20260905035102-160fafc42237, release-20260907.0, 0.0~20260729.0.
var (
	versionDate = regexp.MustCompile(`(?:^|[^0-9])(20[0-9]{6})(?:[0-9]{6})?(?:[^0-9]|$)`)
	pinnedDate  = dateOf(PinnedRunsc)
)

func dateOf(version string) int {
	m := versionDate.FindStringSubmatch(version)
	if m == nil {
		return 0
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		return 0
	}
	return n
}

// atLeastPinned compares the dates. A version without one is not accepted.
func atLeastPinned(version string) bool {
	d := dateOf(version)
	return d != 0 && d >= pinnedDate
}
