package mounts_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lazaret.dev/lazaret/protocol/launch"
	"lazaret.dev/lazaret/supervisor/internal/mounts"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestLayout(t *testing.T) {
	p := &launch.Plan{
		Scratch: launch.Ref{Path: "/run/lz/scratch"},
		Mounts: []launch.Mount{
			{Kind: launch.MountWorkspace, Host: launch.Ref{Path: "/home/u/a:b,c\n"}, Target: "/workspace"},
			{Kind: launch.MountVolume, Host: launch.Ref{Path: "/home/u/v"}, Target: "/root/.v", ReadOnly: true},
		},
	}
	l := mounts.Plan(p)
	var b strings.Builder
	fmt.Fprintf(&b, "root %s\nbundle %s\n", l.Root, l.Bundle)
	for _, m := range l.Binds {
		fmt.Fprintf(&b, "bind %s -> %s ro=%t\n", m.Source, m.Target, m.ReadOnly)
	}
	const path = "testdata/layout.txt"
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), b.String()); d != "" {
		t.Error(d)
	}
}

func TestCheck(t *testing.T) {
	good := func() *launch.Plan {
		return &launch.Plan{
			Scratch: launch.Ref{Path: "/s"},
			Rootfs:  launch.Rootfs{Anchors: []launch.Anchor{{Path: "/usr"}, {Path: "/usrlocal"}, {Path: "/root"}}},
			Mounts:  []launch.Mount{{Kind: launch.MountWorkspace, Target: "/workspace"}},
		}
	}
	if err := mounts.Check(good()); err != nil {
		t.Fatal(err)
	}
	for name, breakIt := range map[string]func(p *launch.Plan){
		"relative scratch":   func(p *launch.Plan) { p.Scratch.Path = "s" },
		"anchor at the root": func(p *launch.Plan) { p.Rootfs.Anchors[0].Path = "/" },
		"anchor with dots":   func(p *launch.Plan) { p.Rootfs.Anchors[0].Path = "/usr/../etc" },
		"same anchor twice":  func(p *launch.Plan) { p.Rootfs.Anchors[1].Path = "/usr" },
		"anchor in another":  func(p *launch.Plan) { p.Rootfs.Anchors[1].Path = "/usr/local" },
		"anchor around":      func(p *launch.Plan) { p.Rootfs.Anchors[0].Path = "/root/x" },
		"target with NUL":    func(p *launch.Plan) { p.Mounts[0].Target = "/a\x00b" },
		"target not clean":   func(p *launch.Plan) { p.Mounts[0].Target = "/a//b" },
		"unknown mount kind": func(p *launch.Plan) { p.Mounts[0].Kind = "other" },
		"missing mount kind": func(p *launch.Plan) { p.Mounts[0].Kind = "" },
	} {
		p := good()
		breakIt(p)
		if err := mounts.Check(p); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}
