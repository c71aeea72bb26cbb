package runsc_test

import (
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lazaret.dev/lazaret/protocol/launch"
	"lazaret.dev/lazaret/supervisor/internal/mounts"
	"lazaret.dev/lazaret/supervisor/internal/runsc"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func plan() *launch.Plan {
	return &launch.Plan{
		Version: launch.Version, SandboxID: "lz-0123456789ab-1",
		Scratch: launch.Ref{Path: "/run/user/1000/lazaret/0123456789ab/scratch"},
		Mounts: []launch.Mount{
			// A hostile host path must not appear anywhere in the bundle.
			{Kind: launch.MountWorkspace, Host: launch.Ref{Path: "/home/u/a:b,c\\d\n\"e"}, Target: "/workspace"},
			{Kind: launch.MountVolume, Host: launch.Ref{Path: "/home/u/claude"}, Target: "/root/.claude"},
			{Kind: launch.MountVolume, Host: launch.Ref{Path: "/home/u/ro"}, Target: "/ro", ReadOnly: true},
		},
		Files: launch.Files{Hostname: "lazaret"},
		Runsc: launch.Runsc{Path: "/usr/libexec/lazaret/runsc", StateDir: "/run/user/1000/lazaret/0123456789ab/runsc", LogPath: "/log/runsc.log", NoFile: 65536, Dcache: 5000},
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := "testdata/" + name
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("%s (-want +got; -update rewrites):\n%s", path, d)
	}
}

// The whole OCI configuration. SR-1, SR-12.
func TestSpec(t *testing.T) {
	p := plan()
	b, err := json.MarshalIndent(runsc.Spec(p, mounts.Plan(p)), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "spec.json", append(b, '\n'))
	for _, bad := range []string{"NET_RAW", "NET_ADMIN", "SYS_ADMIN", "share=", "/home/u"} {
		if strings.Contains(string(b), bad) {
			t.Errorf("the configuration holds %q", bad)
		}
	}
}

func TestRunArgs(t *testing.T) {
	p := plan()
	golden(t, "run-args.txt", []byte(strings.Join(runsc.RunArgs(p, mounts.Plan(p)), "\n")+"\n"))
}
