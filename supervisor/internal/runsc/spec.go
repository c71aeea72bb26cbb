// Package runsc renders the OCI bundle of the Agent Sandbox and owns the
// attached runsc client that runs it.
//
// It never detaches: the client is a child of the supervisor with a
// parent-death signal, and the sentry and gofer die with it. It assembles no
// mounts and knows no network. Every call of runsc has a timeout, since a
// stopped sentry answers none. It runs in the Runtime Supervisor.
package runsc

import (
	"encoding/json"

	"github.com/opencontainers/runtime-spec/specs-go"

	"lazaret.dev/lazaret/protocol/launch"
	"lazaret.dev/lazaret/supervisor/internal/mounts"
)

// initArgs is the sandbox's first process: it reaps and sleeps. Sessions are
// started beside it.
var initArgs = []string{"/run/lazaret/escalate", "_init"}

// Spec renders the OCI configuration. It is pure.
//
// /tmp is a tmpfs of the sandbox's own, as on most desktops. runsc would make
// it one by itself while the image's is empty, so that it is spelt out. /run
// stays a directory of the transient root overlay, where packages and
// /run/lazaret find what the image put there.
func Spec(p *launch.Plan, l mounts.Layout) *specs.Spec {
	capabilities := launch.Capabilities()
	s := &specs.Spec{
		Version:  specs.Version,
		Hostname: p.Files.Hostname,
		Root:     &specs.Root{Path: l.Root},
		Process: &specs.Process{
			Args: initArgs,
			Env:  []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
			Cwd:  "/",
			Capabilities: &specs.LinuxCapabilities{
				Bounding:  capabilities,
				Effective: capabilities,
				Permitted: capabilities,
			},
			Rlimits: []specs.POSIXRlimit{{Type: "RLIMIT_NOFILE", Hard: p.Runsc.NoFile, Soft: p.Runsc.NoFile}},
		},
		Mounts: []specs.Mount{
			{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "noexec", "nodev"}},
			{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"nosuid", "noexec", "nodev", "ro"}},
			{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "strictatime", "mode=755"}},
			{Destination: "/dev/pts", Type: "devpts", Source: "devpts", Options: []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"}},
			{Destination: "/dev/shm", Type: "tmpfs", Source: "shm", Options: []string{"nosuid", "noexec", "nodev", "mode=1777"}},
			{Destination: "/tmp", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "nodev", "mode=1777"}},
		},
		Linux: &specs.Linux{
			Namespaces: []specs.LinuxNamespace{
				{Type: specs.PIDNamespace},
				{Type: specs.IPCNamespace},
				{Type: specs.UTSNamespace},
				{Type: specs.MountNamespace},
				// Its addresses and routes become those of the sandbox's kernel.
				{Type: specs.NetworkNamespace, Path: l.NetNS},
			},
		},
	}
	for _, b := range l.Binds {
		access := "rw"
		if b.ReadOnly {
			access = "ro"
		}
		// No annotations: a share=container hint makes runsc put an overlay of
		// its own over a bind, and every write is lost.
		s.Mounts = append(s.Mounts, specs.Mount{
			Destination: b.Target, Type: "bind", Source: b.Source,
			Options: []string{"rbind", "rprivate", "nosuid", "nodev", access},
		})
	}
	return s
}

// encode renders the configuration file.
func encode(s *specs.Spec) ([]byte, error) { return json.MarshalIndent(s, "", "  ") }
