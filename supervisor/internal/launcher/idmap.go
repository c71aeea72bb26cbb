package launcher

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"lazaret.dev/lazaret/protocol/handoff"
)

// Range is a range of subordinate ids.
type Range struct {
	Start, Count uint32
}

// Set reads START:COUNT, as flag.Value.
func (r *Range) Set(s string) error {
	a, b, ok := strings.Cut(s, ":")
	start, err1 := strconv.ParseUint(a, 10, 32)
	count, err2 := strconv.ParseUint(b, 10, 32)
	if !ok || err1 != nil || err2 != nil || count == 0 || start+count > 1<<32 {
		return fmt.Errorf("%q is not START:COUNT", s)
	}
	*r = Range{Start: uint32(start), Count: uint32(count)}
	return nil
}

// String renders START:COUNT, or nothing for the empty range.
func (r *Range) String() string {
	if r == nil || r.Count == 0 {
		return ""
	}
	return fmt.Sprintf("%d:%d", r.Start, r.Count)
}

// IDMap says how ids are mapped into the user namespace: 0 is the caller and,
// under a full mapping, 1… are the subordinate ranges.
type IDMap struct {
	NewUIDMap, NewGIDMap string // absolute paths of the set-uid helpers
	UIDs, GIDs           Range
}

// Mode tells the mapping mode. A map is either complete or empty; Validate
// refuses what lies between.
func (m *IDMap) Mode() handoff.Mapping {
	if m.UIDs.Count > 0 {
		return handoff.MappingFull
	}
	return handoff.MappingSingle
}

// Validate refuses half a mapping.
func (m *IDMap) Validate() error {
	n := 0
	for _, set := range []bool{m.NewUIDMap != "", m.NewGIDMap != "", m.UIDs.Count > 0, m.GIDs.Count > 0} {
		if set {
			n++
		}
	}
	if n != 0 && n != 4 {
		return errors.New("--newuidmap, --newgidmap, --uid-range and --gid-range belong together")
	}
	return nil
}

// write writes the maps of the process pid from outside its namespace.
func (m *IDMap) write(pid int) error {
	if m.Mode() == handoff.MappingSingle {
		return writeSingle(pid)
	}
	// The helpers are independent of each other; together they take as long as
	// one.
	errc := make(chan error, 1)
	go func() { errc <- runHelper(m.NewUIDMap, pid, os.Getuid(), m.UIDs) }()
	gerr := runHelper(m.NewGIDMap, pid, os.Getgid(), m.GIDs)
	return errors.Join(<-errc, gerr)
}

// helperTimeout bounds newuidmap and newgidmap, which may ask a directory
// service for the ranges.
const helperTimeout = 15 * time.Second

// runHelper runs newuidmap or newgidmap.
func runHelper(path string, pid, id int, r Range) error {
	ctx, cancel := context.WithTimeout(context.Background(), helperTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, strconv.Itoa(pid), "0", strconv.Itoa(id), "1",
		"1", strconv.FormatUint(uint64(r.Start), 10), strconv.FormatUint(uint64(r.Count), 10))
	cmd.Env = []string{}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return &HelperError{Helper: path, Output: strings.TrimSpace(string(out)), Err: err}
	}
	return nil
}

// HelperError reports that newuidmap or newgidmap refused.
type HelperError struct {
	Helper string
	Output string // what the helper said
	Err    error
}

func (e *HelperError) Error() string {
	if e.Output == "" {
		return fmt.Sprintf("%s: %v", e.Helper, e.Err)
	}
	return fmt.Sprintf("%s: %v: %s", e.Helper, e.Err, e.Output)
}

func (e *HelperError) Unwrap() error { return e.Err }

// Hint says what usually is wrong.
func (e *HelperError) Hint() string {
	return "check that /etc/subuid and /etc/subgid grant you the range and that newuidmap and newgidmap are set-uid root (lazaret doctor)"
}

// writeSingle maps id 0 to the caller and nothing else, which needs no
// privilege once setgroups is given up.
func writeSingle(pid int) error {
	dir := "/proc/" + strconv.Itoa(pid)
	for _, f := range []struct{ name, text string }{
		{"setgroups", "deny"},
		{"uid_map", fmt.Sprintf("0 %d 1\n", os.Getuid())},
		{"gid_map", fmt.Sprintf("0 %d 1\n", os.Getgid())},
	} {
		if err := os.WriteFile(dir+"/"+f.name, []byte(f.text), 0); err != nil {
			return fmt.Errorf("write id map: %w", err)
		}
	}
	return nil
}
