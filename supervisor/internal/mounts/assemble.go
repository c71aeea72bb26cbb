package mounts

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/protocol/faults"
	"lazaret.dev/lazaret/protocol/launch"
	"lazaret.dev/lazaret/supervisor/internal/cabundle"
	"lazaret.dev/lazaret/supervisor/internal/fdfs"
	"lazaret.dev/lazaret/supervisor/internal/fsmount"
)

// Assembled is what Assemble has made.
type Assembled struct {
	IDs  map[string]uint64 // the mounts, by their paths in the sandbox
	View Descriptors       // of the workspace; the caller's
}

// Assemble builds everything that the plan's layout names. netns is the sandbox's network
// namespace and stays the caller's. It must be called once, in a mount
// namespace of the supervisor's own. On error the namespace is left half
// built; it ends with the process.
func Assemble(p *launch.Plan, netns *os.File) (*Assembled, error) {
	if err := Check(p); err != nil {
		return nil, err
	}
	// Nothing that is mounted here may show on the host, and nothing that the
	// host mounts later here.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return nil, os.NewSyscallError("make / private", err)
	}
	a := &assembly{plan: p, netns: netns, ids: map[string]uint64{}}
	defer a.close()
	for _, step := range []struct {
		name string
		run  func() error
	}{
		{"scratch directory", a.scratchFS},
		{"network namespace", a.bindNetNS},
		{"open mounts", a.openMounts},
		{"files", a.ownFiles},
		{"lower layer", a.lowerLayer},
		{"root filesystem", a.rootFS},
		{"state anchors", a.anchors},
		{"certificates", a.certificates},
		{"mounts", a.binds},
		{"mount points", a.verifyTargets},
	} {
		if err := step.run(); err != nil {
			return nil, fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return &Assembled{a.ids, a.view}, nil
}

// assembly is the state of one Assemble.
type assembly struct {
	plan  *launch.Plan
	netns *os.File
	ids   map[string]uint64
	view  Descriptors
	fds   []int // closed at the end

	scratch  int // the tmpfs
	prepared int // the image's tree
	lower    int // Lazaret's layer
	root     int // the merged root
	sources  []int
	isFile   map[string]bool // mount targets whose host object is no directory
	ca       *caFiles
}

// own makes the assembly close fd.
func (a *assembly) own(fd int, err error) (int, error) {
	if err == nil {
		a.fds = append(a.fds, fd)
	}
	return fd, err
}

func (a *assembly) close() {
	for _, fd := range a.fds {
		_ = unix.Close(fd)
	}
}

// scratchFS mounts the tmpfs in which everything is assembled.
func (a *assembly) scratchFS() error {
	dir, err := a.own(fdfs.OpenRef(a.plan.Scratch))
	if err != nil {
		return err
	}
	m, err := a.own(fsmount.New("tmpfs", []fsmount.Option{{Key: "source", Value: "lazaret"}, {Key: "mode", Value: "0700"}}, unix.MOUNT_ATTR_NODEV))
	if err != nil {
		return err
	}
	a.scratch = m
	err = fsmount.Attach(m, dir)
	faults.Point("start.rs.scratch-mounted")
	return err
}

// bindNetNS gives the network namespace a name that runsc can open, and keeps
// it alive.
func (a *assembly) bindNetNS() error {
	if err := fdfs.WriteFile(a.scratch, netnsFile, 0o600, nil); err != nil {
		return err
	}
	err := unix.Mount(fdfs.Path(int(a.netns.Fd())), Plan(a.plan).NetNS, "", unix.MS_BIND, "")
	return os.NewSyscallError("mount", err)
}

// openMounts opens every host object of the plan before anything is built on
// them.
func (a *assembly) openMounts() (err error) {
	if a.prepared, err = a.own(fdfs.OpenRef(a.plan.Rootfs.Prepared)); err != nil {
		return err
	}
	a.isFile = map[string]bool{}
	for _, m := range a.plan.Mounts {
		fd, err := a.own(fdfs.OpenRef(m.Host))
		if err != nil {
			return fmt.Errorf("%s: %w", m.Kind, err)
		}
		st, err := fdfs.Stat(fd)
		if err != nil {
			return err
		}
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFDIR:
		case unix.S_IFREG:
			a.isFile[m.Target] = true
		default:
			return fmt.Errorf("%s: %q is neither a directory nor a regular file", m.Kind, m.Host.Path)
		}
		a.sources = append(a.sources, fd)
	}
	return nil
}

// ownFiles writes the files that are mounted read-only.
func (a *assembly) ownFiles() error {
	run, err := a.own(fdfs.Mkdir(a.scratch, runDir, 0o755))
	if err != nil {
		return err
	}
	if err := a.copyEscalate(run); err != nil {
		return fmt.Errorf("escalation client: %w", err)
	}
	if ca := a.plan.Files.CABundle; ca != "" {
		if err := fdfs.WriteFile(run, path.Base(launch.GuestCABundle), 0o644, []byte(ca)); err != nil {
			return err
		}
	}
	if err := a.gitFiles(run); err != nil {
		return fmt.Errorf("git: %w", err)
	}
	files, err := a.own(fdfs.Mkdir(a.scratch, filesDir, 0o755))
	if err != nil {
		return err
	}
	for _, f := range ownFiles(&a.plan.Files) {
		if err := fdfs.WriteFile(files, path.Base(f.target), 0o644, []byte(f.text)); err != nil {
			return err
		}
	}
	_, err = a.own(fdfs.Mkdir(a.scratch, bundleDir, 0o700))
	return err
}

// copyEscalate copies the escalation client, so that the sandbox holds no
// descriptor of the installation.
func (a *assembly) copyEscalate(run int) error {
	ref, err := a.own(fdfs.OpenRef(a.plan.Rootfs.Escalate))
	if err != nil {
		return err
	}
	in, err := os.Open(fdfs.Path(ref))
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	fd, err := unix.Openat(run, escalateName, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o755)
	if err != nil {
		return os.NewSyscallError("create", err)
	}
	out := os.NewFile(uintptr(fd), escalateName)
	_, werr := io.Copy(out, in)
	return errors.Join(werr, out.Chmod(0o755), out.Close())
}

// lowerLayer builds Lazaret's own layer.
func (a *assembly) lowerLayer() (err error) {
	if a.lower, err = a.own(fdfs.Mkdir(a.scratch, lowerDir, 0o755)); err != nil {
		return err
	}
	if a.ca, err = planCA(a.prepared, a.plan.Files.CABundle); err != nil {
		return err
	}
	l := &lower{dir: a.lower, prepared: a.prepared}
	ferr := l.fill(a.plan, a.isFile, a.ca)
	if ferr == nil {
		ferr = l.gitConfig(&a.plan.Files)
	}
	return errors.Join(ferr, l.finish())
}

// rootFS mounts the transient root overlay.
func (a *assembly) rootFS() error {
	state, err := a.own(fdfs.OpenRef(a.plan.Rootfs.Transient))
	if err != nil {
		return err
	}
	// A generation that was killed could not empty it.
	if err := emptyTransient(state); err != nil {
		return err
	}
	target, err := a.own(fdfs.Mkdir(a.scratch, rootDir, 0o755))
	if err != nil {
		return err
	}
	a.root, err = a.own(overlay([]int{a.lower, a.prepared}, state, target))
	if err != nil {
		return err
	}
	faults.Point("start.rs.root-mounted")
	a.ids["/"], err = fdfs.MountID(a.root)
	return err
}

// anchors mounts one nested overlay for each State Anchor.
func (a *assembly) anchors() error {
	for _, an := range a.plan.Rootfs.Anchors {
		if err := a.anchor(&an); err != nil {
			return fmt.Errorf("%s: %w", an.Path, err)
		}
	}
	return nil
}

func (a *assembly) anchor(an *launch.Anchor) error {
	state, err := fdfs.OpenRef(an.Dir)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(state) }()
	own, err := fdfs.Open(a.lower, an.Path, unix.O_PATH|unix.O_DIRECTORY, true)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(own) }()
	lowers := []int{own}
	image, err := fdfs.Open(a.prepared, an.Path, unix.O_PATH|unix.O_DIRECTORY, true)
	switch {
	case err == nil:
		defer func() { _ = unix.Close(image) }()
		lowers = append(lowers, image)
	case errors.Is(err, os.ErrNotExist):
		// The image has none: the anchor starts empty.
	default:
		return err
	}
	target, err := fdfs.Open(a.root, an.Path, unix.O_PATH|unix.O_DIRECTORY, true)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(target) }()
	m, err := overlay(lowers, state, target)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(m) }()
	faults.Point("start.rs.anchor-mounted")
	a.ids[an.Path], err = fdfs.MountID(m)
	return err
}

// certificates brings the host's certificates into bundles that an earlier
// generation has rebuilt without them: those lie in a State Anchor and hide
// the layer's.
func (a *assembly) certificates() error {
	for _, p := range a.ca.paths {
		text, err := fdfs.ReadRegular(a.root, p, cabundle.MaxSize)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, fdfs.ErrTooLarge) {
			continue // removed inside, led elsewhere, or no bundle: the sandbox's own choice
		}
		if err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		extra := cabundle.Missing(a.ca.host, text)
		if len(extra) == 0 {
			continue
		}
		if err := replaceFile(a.root, p, cabundle.Extend(text, extra)); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	return nil
}

// replaceFile replaces a regular file in a tree that the sandbox has written.
func replaceFile(root int, p string, text []byte) error {
	dir, err := fdfs.Open(root, path.Dir(p), unix.O_PATH|unix.O_DIRECTORY, true)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(dir) }()
	// A name that nobody could put something under.
	temp := ".lazaret-" + rand.Text()
	if err := fdfs.WriteFile(dir, temp, 0o644, text); err != nil {
		return err
	}
	return os.NewSyscallError("rename", unix.Renameat(dir, temp, dir, path.Base(p)))
}

// binds brings the workspace and the volumes to their neutral names.
func (a *assembly) binds() error {
	dir, err := a.own(fdfs.Mkdir(a.scratch, bindsDir, 0o755))
	if err != nil {
		return err
	}
	for i, m := range a.plan.Mounts {
		if err := a.bind(dir, strconv.Itoa(i), m, a.sources[i]); err != nil {
			return fmt.Errorf("%s at %s: %w", m.Kind, m.Target, err)
		}
	}
	return nil
}

func (a *assembly) bind(dir int, name string, m launch.Mount, src int) error {
	target, err := a.mountPoint(dir, name, a.isFile[m.Target])
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(target) }()
	if m.Kind == launch.MountWorkspace {
		err = a.workspace(src, target, m.ReadOnly)
	} else {
		err = bind(src, target, m.ReadOnly)
	}
	if err != nil {
		return err
	}
	mounted, err := fdfs.Open(dir, name, unix.O_PATH, true)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(mounted) }()
	faults.Point("start.rs.workspace-mounted")
	a.ids[m.Target], err = fdfs.MountID(mounted)
	return err
}

// mountPoint makes and opens an empty file or directory.
func (a *assembly) mountPoint(dir int, name string, file bool) (int, error) {
	if !file {
		return fdfs.Mkdir(dir, name, 0o755)
	}
	if err := fdfs.WriteFile(dir, name, 0o644, nil); err != nil {
		return -1, err
	}
	return fdfs.Open(dir, name, unix.O_PATH, true)
}

// verifyTargets makes sure that each mount point is there, and is what it must
// be, in the merged tree. A sandbox of an earlier generation may have put
// something else into a State Anchor where this one mounts.
func (a *assembly) verifyTargets() error {
	for _, b := range Plan(a.plan).Binds {
		wantFile := a.isFile[b.Target]
		for _, f := range ownFiles(&a.plan.Files) {
			wantFile = wantFile || f.target == b.Target
		}
		if err := a.verifyTarget(b.Target, wantFile); err != nil {
			return fmt.Errorf("%s: %w", b.Target, err)
		}
	}
	return nil
}

func (a *assembly) verifyTarget(target string, wantFile bool) error {
	dir, err := fdfs.Open(a.root, path.Dir(target), unix.O_PATH|unix.O_DIRECTORY, true)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) {
		return &TargetError{Target: target, Err: err}
	}
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(dir) }()
	name := path.Base(target)
	fd, err := fdfs.Open(dir, name, unix.O_PATH|unix.O_NOFOLLOW, true)
	if err == nil {
		defer func() { _ = unix.Close(fd) }()
		st, serr := fdfs.Stat(fd)
		if serr != nil {
			return serr
		}
		switch kind := st.Mode & unix.S_IFMT; {
		case wantFile && kind == unix.S_IFREG, !wantFile && kind == unix.S_IFDIR:
			return nil
		case kind == unix.S_IFDIR:
			return &TargetError{Target: target, Err: unix.EISDIR}
		}
		// A link or a file in the way is removed: it would be covered anyway.
		if err := unix.Unlinkat(dir, name, 0); err != nil {
			return os.NewSyscallError("unlink", err)
		}
	} else if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if wantFile {
		return fdfs.WriteFile(dir, name, 0o644, nil)
	}
	made, err := fdfs.Mkdir(dir, name, 0o755)
	if err == nil {
		_ = unix.Close(made)
	}
	return err
}

// TargetError reports that the sandbox's own earlier changes leave no place
// for a mount.
type TargetError struct {
	Target string
	Err    error
}

func (e *TargetError) Error() string {
	return fmt.Sprintf("a sandbox has put something else where this is mounted: %v", e.Err)
}

func (e *TargetError) Unwrap() error { return e.Err }

// Hint says how to get out of it.
func (e *TargetError) Hint() string {
	return "start once without this volume and move what is at " + e.Target + " away"
}

// Cleanup takes the mounts down and empties the transient layer. The sandbox
// must be gone. It returns the first failure, after trying everything.
func Cleanup(p *launch.Plan) error {
	// Detached, and all at once: what is mounted below scratch goes with it, and
	// no process but the caller's is left in this namespace.
	err := unix.Unmount(p.Scratch.Path, unix.MNT_DETACH)
	if err != nil && !errors.Is(err, unix.EINVAL) {
		return os.NewSyscallError("unmount scratch directory", err)
	}
	faults.Point("end.rs.unmounted")
	state, err := fdfs.OpenRef(p.Rootfs.Transient)
	if err != nil {
		return fmt.Errorf("transient layer: %w", err)
	}
	defer func() { _ = unix.Close(state) }()
	return emptyTransient(state)
}

// emptyTransient empties the root overlay's upper and work directories.
func emptyTransient(state int) error {
	for _, name := range []string{"upper", "work"} {
		if err := fdfs.Empty(state, name); err != nil {
			return fmt.Errorf("empty transient layer: %w", err)
		}
	}
	return nil
}
