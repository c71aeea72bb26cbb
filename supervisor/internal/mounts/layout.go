// Package mounts assembles the sandbox's root filesystem and everything that
// is mounted into it, in the supervisor's own mount namespace.
//
// It executes a launch plan and adds nothing of its own. Every host path is
// opened once, without following symbolic links, and compared with the
// identity that the Host Coordinator saw; from then on only the descriptor is
// used. Trees that the sandbox or an image has written are walked relative to
// descriptors, never as joined path strings. Nothing is written below the root
// filesystem while the sandbox runs. It runs in the Runtime Supervisor.
package mounts

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"lazaret.dev/lazaret/protocol/launch"
)

// Names in the scratch directory. They are Lazaret's own, so that no character
// of a host path ever reaches runsc or a mount option.
const (
	lowerDir  = "lower"  // Lazaret's lower layer
	rootDir   = "rootfs" // the merged root filesystem
	runDir    = "run"    // /run/lazaret
	filesDir  = "files"  // /etc/resolv.conf and its like
	bindsDir  = "mnt"    // workspace and volumes, by number
	bundleDir = "bundle" // the OCI bundle
	netnsFile = "netns"  // the sandbox's network namespace

	transientDir = "transient" // what of the workspace is gone with the generation
)

// Paths in the sandbox.
const (
	runTarget      = "/run/lazaret"
	escalateName   = "escalate"
	escalateLink   = "/usr/local/bin/escalate"
	escalateTarget = runTarget + "/" + escalateName
)

// Bind is one mount that runsc makes in the sandbox.
type Bind struct {
	Source   string // below scratch
	Target   string // in the sandbox
	ReadOnly bool
}

// Layout says where everything is. It is derived from the plan alone, so that
// each stage of the supervisor finds the same.
type Layout struct {
	Root   string // the merged root filesystem
	Bundle string // directory of the OCI bundle
	NetNS  string // the sandbox's network namespace
	Binds  []Bind // in the order in which they are mounted
}

// Plan derives the layout.
func Plan(p *launch.Plan) Layout {
	at := func(name ...string) string { return path.Join(append([]string{p.Scratch.Path}, name...)...) }
	l := Layout{Root: at(rootDir), Bundle: at(bundleDir), NetNS: at(netnsFile)}
	l.Binds = append(l.Binds, Bind{Source: at(runDir), Target: runTarget, ReadOnly: true})
	for _, f := range ownFiles(&p.Files) {
		l.Binds = append(l.Binds, Bind{Source: at(filesDir, path.Base(f.target)), Target: f.target, ReadOnly: true})
	}
	for i, m := range p.Mounts {
		l.Binds = append(l.Binds, Bind{Source: at(bindsDir, strconv.Itoa(i)), Target: m.Target, ReadOnly: m.ReadOnly})
	}
	return l
}

// ownFile is one of Lazaret's own files in the sandbox.
type ownFile struct {
	target, text string
}

func ownFiles(f *launch.Files) []ownFile {
	return []ownFile{
		{"/etc/resolv.conf", f.ResolvConf},
		{"/etc/hosts", f.Hosts},
		{"/etc/hostname", f.Hostname + "\n"},
	}
}

// Check refuses a plan whose paths this package could not honour.
func Check(p *launch.Plan) error {
	if err := clean("scratch", p.Scratch.Path); err != nil {
		return err
	}
	for i, a := range p.Rootfs.Anchors {
		if err := clean("state anchor", a.Path); err != nil {
			return err
		}
		for _, b := range p.Rootfs.Anchors[:i] {
			if within(a.Path, b.Path) || within(b.Path, a.Path) {
				return fmt.Errorf("state anchors %q and %q lie within one another", a.Path, b.Path)
			}
		}
	}
	for _, name := range p.View.Hidden {
		if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
			return fmt.Errorf("%q is no name of a hidden directory", name)
		}
	}
	if err := checkWorkspaces(p); err != nil {
		return err
	}
	for _, m := range p.Mounts {
		if err := clean("mount target", m.Target); err != nil {
			return err
		}
		switch m.Kind {
		case launch.MountWorkspace, launch.MountVolume:
		default:
			return fmt.Errorf("mount %q has the unknown kind %q", m.Target, m.Kind)
		}
	}
	return nil
}

func clean(what, p string) error {
	if !path.IsAbs(p) || path.Clean(p) != p || p == "/" || strings.ContainsRune(p, 0) {
		return fmt.Errorf("%s %q is not a clean absolute path below /", what, p)
	}
	return nil
}

// within tells whether p is dir or lies in it.
func within(p, dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }
