package recovery

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"lazaret.dev/lazaret/host/internal/claim"
	"lazaret.dev/lazaret/host/internal/generation"
	"lazaret.dev/lazaret/host/internal/store"
	"lazaret.dev/lazaret/protocol"
	"lazaret.dev/lazaret/protocol/handoff"
)

const (
	// orphanGrace is how long the processes of a dead coordinator may take to
	// end by themselves, which their leases make them do. It is measured on a
	// clock that nobody sets, and that stands still in suspend.
	orphanGrace = 8 * time.Second
	orphanPoll  = 20 * time.Millisecond
)

// dead is what is on record of a dead generation, and what this machine is.
type dead struct {
	*store.Generation
	sameBoot bool
	log      func(format string, args ...any)
}

// participant is a role's record, or nil.
func (d *dead) participant(role protocol.Role) *store.Participant {
	for i, p := range d.Participants {
		if p.Role == store.Role(role) && p.State != store.Released {
			return &d.Participants[i]
		}
	}
	return nil
}

// proc is the process on a role's record, or nil.
func (d *dead) proc(role protocol.Role) *handoff.Proc {
	if p := d.participant(role); p != nil && p.State == store.Owned {
		return p.Ownership.Proc
	}
	return nil
}

// lives reports whether exactly the process on a role's record lives. Nothing
// of another boot does: the boot is part of what is compared.
func (d *dead) lives(role protocol.Role) bool {
	p := d.proc(role)
	return p != nil && alive(*p)
}

// files are those on a role's record.
func (d *dead) files(role protocol.Role) []claim.File {
	var out []claim.File
	if p := d.participant(role); p != nil {
		for path, id := range p.Ownership.Files {
			out = append(out, claim.File{Path: path, Identity: id})
		}
	}
	slices.SortFunc(out, func(a, b claim.File) int { return strings.Compare(a.Path, b.Path) })
	return out
}

// strays are the processes that say that they are of the generation and are on
// no record.
func (d *dead) strays() ([]marked, error) {
	if !d.sameBoot {
		return nil, nil
	}
	all, err := markedBy(d.ID, d.SandboxID)
	return slices.DeleteFunc(all, func(m marked) bool {
		return slices.ContainsFunc(d.Participants, func(p store.Participant) bool {
			return p.Ownership.Proc != nil && *p.Ownership.Proc == m.Proc
		})
	}), err
}

// roleOf tells from a stray's program whose it would be.
func roleOf(m marked) protocol.Role {
	switch {
	case m.name == "slirp4netns":
		return protocol.RoleHelper
	case strings.HasPrefix(m.name, "runsc"):
		return protocol.RoleSandbox
	default:
		return protocol.RoleSupervisor
	}
}

// settle waits until the generation's processes have ended by themselves, at
// most the grace.
func (d *dead) settle(ctx context.Context) error {
	if !d.sameBoot {
		return nil
	}
	for began := time.Now(); ; {
		strays, err := d.strays()
		if err != nil {
			return err
		}
		if len(strays) == 0 && !d.lives(protocol.RoleSandbox) && !d.lives(protocol.RoleHelper) && !d.lives(protocol.RoleSupervisor) {
			return nil
		}
		if time.Since(began) > orphanGrace {
			d.log("processes of generation %s have outlived their lease", d.ID)
			return nil
		}
		if err := sleep(ctx); err != nil {
			return err
		}
	}
}

func sleep(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(orphanPoll):
		return nil
	}
}

// visible refuses a mount on or over the runtime directory that hides what the
// generation has left: that is not gone. Where the filesystem that the record
// names is not beneath that mount, it was the runtime directory of a login that
// is over, and nothing is hidden; its number may be another's by now.
func (d *dead) visible() error {
	if !d.sameBoot || d.RuntimeDir == "" {
		return nil
	}
	all, err := mountsOf(os.Getpid(), "/")
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(m mount) bool { return !within(d.RuntimeDir, m.point) })
	var top mount // what the directory lies on
	for _, m := range all {
		if len(m.point) >= len(top.point) {
			top = m
		}
	}
	if top.point == d.RuntimeDir {
		return &mountError{point: top.point}
	}
	for _, p := range d.Participants {
		for path, id := range p.Ownership.Files {
			hidden := slices.ContainsFunc(all, func(m mount) bool { return m.dev == id.Dev })
			if within(path, d.RuntimeDir) && id.Dev != top.dev && hidden {
				return &mountError{point: top.point}
			}
		}
	}
	return nil
}

// compare looks where a role's record says to, and touches nothing. Of a
// mismatch it says what was found.
func (d *dead) compare(role protocol.Role) (protocol.Finding, *MismatchError, error) {
	switch role {
	case protocol.RolePublication:
		return d.comparePublication()
	case protocol.RoleSandbox, protocol.RoleHelper:
		return d.compareProcess(role)
	case protocol.RoleNetwork:
		return d.compareInside()
	case protocol.RoleAnchor:
		return d.compareAnchor()
	case protocol.RoleSupervisor:
		return d.compareSupervisor()
	default:
		return "", nil, fmt.Errorf("the store has no record of role %s", role)
	}
}

// comparePublication compares the sockets. They were on record before they were
// where they can be found, so that one that is found without a record is not
// ours.
func (d *dead) comparePublication() (protocol.Finding, *MismatchError, error) {
	if d.participant(protocol.RolePublication).State == store.Owned {
		return d.compareFiles(protocol.RolePublication)
	}
	if d.RuntimeDir == "" {
		return protocol.FoundGone, nil, nil
	}
	for _, path := range generation.SocketPlaces(d.RuntimeDir) {
		if kind := claim.Kind(path); kind != "nothing" {
			return d.foreignFile(protocol.RolePublication, path)
		}
	}
	return protocol.FoundGone, nil, nil
}

// compareFiles compares all files of a role; one that differs counts for all.
func (d *dead) compareFiles(role protocol.Role) (protocol.Finding, *MismatchError, error) {
	finding := protocol.FoundGone
	for _, file := range d.files(role) {
		found, err := claim.Look(file, d.sameBoot)
		switch {
		case err != nil:
			return "", nil, err
		case found == claim.Foreign:
			return d.foreignFile(role, file.Path)
		case found == claim.Ours:
			finding = protocol.FoundMatching
		}
	}
	return finding, nil, nil
}

// compareProcess compares a process. What names the generation and is not the
// process on record proves nothing: it is left to the developer.
func (d *dead) compareProcess(role protocol.Role) (protocol.Finding, *MismatchError, error) {
	if d.lives(role) {
		return protocol.FoundMatching, nil, nil
	}
	strays, err := d.strays()
	if err != nil {
		return "", nil, err
	}
	for _, m := range strays {
		if roleOf(m) == role {
			return d.mismatch(role, fmt.Sprintf("process %d (%s) names this generation", m.PID, m.name), "it is not on record",
				fmt.Sprintf("look at it, and end it: kill -9 %d", m.PID))
		}
	}
	if p := d.proc(role); p != nil && d.sameBoot {
		if now, err := ProcOf(p.PID); err == nil {
			d.log("process %d is another one than the %s's on record by now: left alone", now.PID, role)
		}
	}
	return protocol.FoundGone, nil, nil
}

// compareInside is for what exists in the supervisor's namespaces alone: it is
// there as long as the supervisor is. Where it is not yet on record it goes with
// the supervisor, whose turn comes.
func (d *dead) compareInside() (protocol.Finding, *MismatchError, error) {
	p := d.participant(protocol.RoleNetwork)
	if p.State != store.Owned || !d.lives(protocol.RoleSupervisor) {
		return protocol.FoundGone, nil, nil
	}
	return d.matching(protocol.RoleNetwork, "net", p.Ownership.NetNS)
}

// matching compares a namespace of the living supervisor's with the record.
func (d *dead) matching(role protocol.Role, kind string, recorded uint64) (protocol.Finding, *MismatchError, error) {
	pid := d.proc(protocol.RoleSupervisor).PID
	if now := namespaceOf(pid, kind); now != recorded {
		return d.mismatch(role, fmt.Sprintf("the Runtime Supervisor, process %d, is in %s namespace %d", pid, kind, now),
			fmt.Sprintf("the record says %d", recorded), fmt.Sprintf("look at it, and end it: kill -9 %d", pid))
	}
	return protocol.FoundMatching, nil, nil
}

// compareAnchor looks for mounts that have outlived the supervisor: another
// process, which entered its mount namespace, can keep them. An upper layer that
// is mounted twice is lost.
func (d *dead) compareAnchor() (protocol.Finding, *MismatchError, error) {
	super := d.participant(protocol.RoleSupervisor)
	if d.lives(protocol.RoleSupervisor) {
		if d.participant(protocol.RoleAnchor).State == store.Owned {
			return d.matching(protocol.RoleAnchor, "mnt", super.Ownership.MntNS)
		}
		return protocol.FoundGone, nil, nil // see compareInside
	}
	if super == nil || super.State != store.Owned || !d.sameBoot || d.RuntimeDir == "" {
		return protocol.FoundGone, nil, nil
	}
	h, err := holding(super.Ownership.MntNS, filepath.Join(d.RuntimeDir, generation.ScratchDir))
	if err != nil {
		return "", nil, err
	}
	if h == nil {
		return protocol.FoundGone, nil, nil
	}
	return d.mismatch(protocol.RoleAnchor, fmt.Sprintf("process %d holds the generation's mounts, such as %s", h.pid, h.point),
		"they end with the Runtime Supervisor, which is gone", fmt.Sprintf("end that process: kill %d", h.pid))
}

// compareSupervisor compares the process and the directories that it used.
func (d *dead) compareSupervisor() (protocol.Finding, *MismatchError, error) {
	process, mismatch, err := d.compareProcess(protocol.RoleSupervisor)
	if mismatch != nil || err != nil {
		return process, mismatch, err
	}
	files, mismatch, err := d.compareFiles(protocol.RoleSupervisor)
	if mismatch != nil || err != nil {
		return files, mismatch, err
	}
	for _, file := range d.files(protocol.RoleSupervisor) {
		// The supervisor's mounts are in its own namespace.
		if ms, err := mountsOf(os.Getpid(), file.Path); err != nil {
			return "", nil, err
		} else if len(ms) > 0 {
			return d.foreignMount(protocol.RoleSupervisor, ms[0].point)
		}
		if filepath.Base(file.Path) != generation.ScratchDir || claim.Kind(file.Path) == "nothing" {
			continue
		}
		entries, err := os.ReadDir(file.Path)
		if err != nil {
			return "", nil, fmt.Errorf("look into the scratch directory: %w", err)
		}
		if len(entries) > 0 {
			return d.foreignFile(protocol.RoleSupervisor, filepath.Join(file.Path, entries[0].Name()))
		}
	}
	if process == protocol.FoundMatching {
		return process, nil, nil
	}
	return files, nil, nil
}

// clean clears away what compare found to be exactly ours.
func (d *dead) clean(ctx context.Context, role protocol.Role) error {
	switch role {
	case protocol.RolePublication:
		var errs []error
		for _, file := range d.files(role) {
			errs = append(errs, claim.Remove(file, d.sameBoot))
		}
		return errors.Join(errs...)
	case protocol.RoleNetwork, protocol.RoleAnchor:
		return d.end(ctx, protocol.RoleSupervisor)
	case protocol.RoleSupervisor:
		if err := d.end(ctx, role); err != nil {
			return err
		}
		return generation.RemoveDirs(d.files(role), d.sameBoot)
	default:
		return d.end(ctx, role)
	}
}

// end kills the process on a role's record, and waits for those that go with it.
func (d *dead) end(ctx context.Context, role protocol.Role) error {
	p := d.proc(role)
	if p == nil || !d.lives(role) {
		return nil
	}
	d.log("killing the %s, process %d, which has outlived its lease", role, p.PID)
	if err := killExactly(*p); err != nil {
		return err
	}
	for began := time.Now(); time.Since(began) < orphanGrace; {
		strays, err := d.strays()
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(strays, func(m marked) bool { return roleOf(m) == role }) {
			return nil
		}
		if err := sleep(ctx); err != nil {
			return err
		}
	}
	return nil // the next comparison names what is left
}

// MismatchError names something that was found where a dead generation's record
// says to look, and that the record does not prove to be that generation's. It
// was not touched.
type MismatchError struct {
	Generation string
	Role       protocol.Role
	Found      string // what, and where
	Expected   string // what the record says
	Fix        string // something to type
}

// Error implements error.
func (e *MismatchError) Error() string {
	return fmt.Sprintf("cannot clear away what generation %s has left of its %s: %s; %s. It was left alone",
		e.Generation, e.Role, e.Found, e.Expected)
}

// Hint says what to do about it.
func (e *MismatchError) Hint() string { return e.Fix }

func (d *dead) mismatch(role protocol.Role, found, expected, fix string) (protocol.Finding, *MismatchError, error) {
	return protocol.FoundMismatch, &MismatchError{Generation: d.ID, Role: role, Found: found, Expected: expected, Fix: fix}, nil
}

func (d *dead) foreignFile(role protocol.Role, path string) (protocol.Finding, *MismatchError, error) {
	expected := "the record has nothing there"
	for _, file := range d.files(role) {
		if file.Path == path {
			expected = fmt.Sprintf("the record has inode %d there", file.Ino)
		}
	}
	now := claim.Kind(path)
	return d.mismatch(role, fmt.Sprintf("%s is at %q", now, path), expected, claim.MoveAway(path))
}

func (d *dead) foreignMount(role protocol.Role, point string) (protocol.Finding, *MismatchError, error) {
	return d.mismatch(role, fmt.Sprintf("something is mounted on %q", point), "a generation mounts nothing on the host",
		"unmount it: umount "+claim.Quote(point))
}
