package mounts

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/protocol/launch"
	"lazaret.dev/lazaret/supervisor/internal/fdfs"
	"lazaret.dev/lazaret/supervisor/internal/fsmount"
	"lazaret.dev/lazaret/supervisor/internal/view"
)

// Descriptors are those of the workspace view: its connection to the kernel,
// and its stores. The host's trees are detached mounts of their own, without
// set-id bits and devices, that nothing but these descriptors leads to.
type Descriptors struct {
	FUSE   int
	Stores view.Stores
	Record int // the directory of what stays ignored
}

// all lists them in their order of encoding.
func (d *Descriptors) all() []*int {
	return []*int{&d.FUSE, &d.Stores.Host, &d.Stores.Domain, &d.Stores.Private, &d.Stores.Transient, &d.Record}
}

// Encode renders the descriptors for the next stage, which gets them without
// close-on-exec.
func (d *Descriptors) Encode() (string, error) {
	var out []string
	for _, fd := range d.all() {
		if _, err := unix.FcntlInt(uintptr(*fd), unix.F_SETFD, 0); err != nil {
			return "", fmt.Errorf("hand on the workspace view: %w", err)
		}
		out = append(out, strconv.Itoa(*fd))
	}
	return strings.Join(out, ","), nil
}

// DecodeDescriptors is the reverse of Encode. The descriptors are
// close-on-exec again: a child that held the first would keep a mount alive
// that nobody serves.
func DecodeDescriptors(s string) (Descriptors, error) {
	var d Descriptors
	fields := strings.Split(s, ",")
	all := d.all()
	if len(fields) != len(all) {
		return d, fmt.Errorf("%q does not name the descriptors of the workspace view", s)
	}
	for i, f := range fields {
		n, err := strconv.Atoi(f)
		if err != nil || n < 3 {
			return d, fmt.Errorf("%q does not name the descriptors of the workspace view", s)
		}
		unix.CloseOnExec(n)
		*all[i] = n
	}
	return d, nil
}

// workspace presents the Agent Workspace, the directory src, at target: the
// view's filesystem, which is served in the next stage.
func (a *assembly) workspace(src, target int, readOnly bool) error {
	d := Descriptors{FUSE: -1}
	transient, err := a.own(fdfs.Mkdir(a.scratch, transientDir, 0o755))
	if err != nil {
		return err
	}
	ignored, err := a.own(fdfs.OpenRef(a.plan.View.Ignored))
	if err != nil {
		return fmt.Errorf("ignored workspace state: %w", err)
	}
	private, err := a.own(fdfs.OpenRef(a.plan.View.Private))
	if err != nil {
		return fmt.Errorf("private Git state: %w", err)
	}
	for _, name := range a.plan.View.Hidden {
		if _, err := a.own(fdfs.Mkdir(transient, name, 0o755)); err != nil {
			return err
		}
	}
	// The record is opened for reading: it is synced.
	record, err := a.own(fdfs.OpenRef(a.plan.View.Record))
	if err != nil {
		return fmt.Errorf("record of ignored paths: %w", err)
	}
	if d.Record, err = fdfs.Open(record, ".", unix.O_RDONLY|unix.O_DIRECTORY, true); err != nil {
		return err
	}
	for _, c := range []struct {
		from     int
		readOnly bool
		to       *int
	}{
		{src, readOnly, &d.Stores.Host},
		{ignored, false, &d.Stores.Domain},
		{private, false, &d.Stores.Private},
		{transient, false, &d.Stores.Transient},
	} {
		if *c.to, err = fsmount.Clone(c.from, c.readOnly); err != nil {
			return err
		}
	}
	d.FUSE, err = view.Mount(target)
	a.view = d
	return err
}

// Close closes the descriptors.
func (d *Descriptors) Close() {
	for _, fd := range d.all() {
		if *fd > 0 {
			_ = unix.Close(*fd)
		}
	}
}

// checkWorkspaces wants exactly one workspace: there is one view.
func checkWorkspaces(p *launch.Plan) error {
	n := 0
	for _, m := range p.Mounts {
		if m.Kind == launch.MountWorkspace {
			n++
		}
	}
	if n != 1 {
		return errors.New("a plan has one workspace")
	}
	return nil
}
