// Package launch holds the launch plan: the complete description of one
// Domain generation's sandbox, as one value.
//
// The Host Coordinator builds it from trusted host configuration; the Runtime
// Supervisor executes it and adds nothing of its own. The package is pure: it
// opens, mounts and starts nothing. It is linked into both processes.
package launch

import (
	"encoding/json"
	"fmt"

	"lazaret.dev/lazaret/protocol/netpolicy"
)

// Version is the version of the plan's encoding. Both ends of a handoff come
// from one build, so any other version is refused rather than translated.
const Version = 1

// Ref names a host file or directory and the identity that the Host
// Coordinator saw there. The Runtime Supervisor opens Path without following
// symbolic links and refuses it when the identity differs: a path is a lookup
// hint, never a proof of ownership (spec 3.5).
type Ref struct {
	Path string `json:"path"` // absolute, canonical
	Dev  uint64 `json:"dev"`
	Ino  uint64 `json:"ino"`
}

// Plan is everything that the Runtime Supervisor needs to bring up one
// generation's sandbox.
type Plan struct {
	Version    int    `json:"version"`
	DomainID   string `json:"domain_id"`
	Profile    string `json:"profile"`
	Generation string `json:"generation"`
	SandboxID  string `json:"sandbox_id"` // Agent Sandbox ID; also the runsc container id
	NetworkID  string `json:"network_id"` // Network Sidecar ID

	// ConfigFingerprint is the Configuration Fingerprint, in hex. It enters the
	// network readiness fingerprint.
	ConfigFingerprint string `json:"config_fingerprint"`

	// Scratch is an empty host directory, private to the generation. The
	// Runtime Supervisor mounts a tmpfs over it in its own mount namespace and
	// assembles everything below; the host never sees what is in it.
	Scratch Ref `json:"scratch"`

	Rootfs Rootfs  `json:"rootfs"`
	View   View    `json:"view"`
	Mounts []Mount `json:"mounts"`
	Files  Files   `json:"files"`

	// HostGit is the configuration that Git on the host obeys: paths in the
	// workspace that it names are no business of the sandbox's.
	HostGit HostGit `json:"host_git"`

	Network netpolicy.Policy `json:"network"`
	Runsc   Runsc            `json:"runsc"`
	Slirp   Slirp            `json:"slirp"`
}

// Rootfs describes the root filesystem: an overlay over the prepared lower,
// and one nested overlay for each persistent directory (design section 8).
type Rootfs struct {
	PreparedID string `json:"prepared_id"`
	Prepared   Ref    `json:"prepared"` // the prepared lower's tree

	// Transient holds "upper" and "work" of the root overlay. The Runtime
	// Supervisor empties it at teardown.
	Transient Ref `json:"transient"`

	// Anchors are the State Anchors, outermost first. No path is "/", and none
	// lies within another.
	Anchors []Anchor `json:"anchors"`

	// Escalate is the host path of the static escalation client, which appears
	// inside as /run/lazaret/escalate and /usr/local/bin/escalate.
	Escalate Ref `json:"escalate"`
}

// Anchor is one State Anchor: the persistent writable layer of one directory.
type Anchor struct {
	Path string `json:"path"` // absolute, inside the sandbox
	Dir  Ref    `json:"dir"`  // host directory that holds "upper" and "work"
}

// View describes how the Agent Workspace is presented (design section 7).
type View struct {
	// Ignored is the Ignored Workspace State: the Domain's directory from which
	// paths that Git ignores are served. Private holds what Git keeps of its own
	// inside and the host must not see.
	Ignored Ref `json:"ignored"`
	Private Ref `json:"private"`

	// Record is the directory in which is written down what stays ignored
	// whatever the sandbox does to the rules. No part of it is served.
	Record Ref `json:"record"`

	// Isolate is isolate_gitignored, Expose are paths in the workspace that are
	// shown read-only although they are ignored, and Hidden are names in its root
	// that are served from transient storage.
	Isolate bool     `json:"isolate"`
	Expose  []string `json:"expose,omitempty"`
	Hidden  []string `json:"hidden,omitempty"`

	// ConfigGate is git_config_gate.
	ConfigGate bool `json:"config_gate"`

	// UID and GID are who the developer is inside.
	UID uint32 `json:"uid"`
	GID uint32 `json:"gid"`
}

// MountKind says what a Mount presents.
type MountKind string

// The kinds of mounts.
const (
	MountWorkspace MountKind = "workspace" // the Agent Workspace, at /workspace
	MountVolume    MountKind = "volume"    // a developer-configured volume
)

// Mount is one host path that is presented inside the sandbox.
type Mount struct {
	Kind     MountKind `json:"kind"`
	Host     Ref       `json:"host"`
	Target   string    `json:"target"` // absolute, inside the sandbox
	ReadOnly bool      `json:"read_only"`
}

// Files are the contents of Lazaret's own files in the sandbox. They are
// mounted read-only and never land in an upper layer.
type Files struct {
	Hostname   string `json:"hostname"`
	Hosts      string `json:"hosts"`
	ResolvConf string `json:"resolv_conf"`

	// CABundle is PEM text to trust inside in addition to the image's own
	// bundle; empty when host_ca is false or the host has none.
	CABundle string `json:"ca_bundle,omitempty"`

	// GitConfig is Git's configuration inside, read before the image's own and
	// anybody else's; GitExclude is the developer's file of names that are ignored
	// everywhere.
	GitConfig  string `json:"git_config,omitempty"`
	GitExclude []byte `json:"git_exclude,omitempty"`
}

// Where GitConfig and GitExclude can be found inside.
const (
	GuestGitConfig  = "/run/lazaret/git/config"
	GuestGitExclude = "/run/lazaret/git/exclude"
)

// HostGit is what Git on the host obeys beyond repositories.
type HostGit struct {
	Home string `json:"home"` // what ~ in it means

	// Sources are the files, those first that are read first. Files whose
	// condition does not hold are among them, since it may hold at any time.
	Sources []GitSource `json:"sources,omitempty"`
}

// GitScope says for whom a file of Git's configuration holds.
type GitScope string

// The scopes beyond a repository, in the order in which Git reads them.
const (
	GitSystem GitScope = "system"
	GitGlobal GitScope = "global"
)

// GitSource is one file of Git's configuration on the host, outside of any
// repository. It may hold credentials and is shown to nobody.
type GitSource struct {
	Scope GitScope `json:"scope"`
	Path  string   `json:"path"` // absolute, as Git names it
	Dev   uint64   `json:"dev"`  // its inode, which may have another name in the workspace
	Ino   uint64   `json:"ino"`
	Text  []byte   `json:"text"`
}

// GuestCABundle is where CABundle alone can be found inside, for programs that
// have a bundle of their own and take another file in addition.
const GuestCABundle = "/run/lazaret/ca.pem"

// Runsc says how the attached runsc client is started.
type Runsc struct {
	Path     string `json:"path"`      // absolute path of the binary
	StateDir string `json:"state_dir"` // --root; reachable from the host, so that the Host Coordinator can exec
	LogPath  string `json:"log_path"`  // runsc and sentry log, appended
	NoFile   uint64 `json:"no_file"`   // RLIMIT_NOFILE of the guest
	Dcache   int    `json:"dcache"`    // --dcache; at most a quarter of the hard fd limit (design section 7)
}

// Slirp says how slirp4netns is started.
type Slirp struct {
	Path    string `json:"path"`
	LogPath string `json:"log_path"`

	// PrivateResolver is the nameserver to write into a private /etc/resolv.conf
	// for slirp4netns, or empty to let it read the host's own. It is needed when
	// the host's file is a link that leaves /etc and /run (design section 9).
	PrivateResolver string `json:"private_resolver,omitempty"`
}

// Encode renders the plan for the handoff.
func (p *Plan) Encode() ([]byte, error) {
	b, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encode launch plan: %w", err)
	}
	return b, nil
}

// Decode reads a plan and refuses unknown fields and other versions.
func Decode(b []byte) (*Plan, error) {
	var p Plan
	if err := unmarshalStrict(b, &p); err != nil {
		return nil, fmt.Errorf("decode launch plan: %w", err)
	}
	if p.Version != Version {
		return nil, fmt.Errorf("decode launch plan: version %d, want %d", p.Version, Version)
	}
	return &p, nil
}
