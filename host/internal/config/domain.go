package config

import (
	"fmt"
	"net/netip"
	"time"

	"lazaret.dev/lazaret/protocol/launch"
)

// Domain is the validated, resolved configuration of one profile in one Agent
// Workspace. It is plain data: it can be sent as JSON, and holds no secret
// that a profile takes from the caller's environment.
type Domain struct {
	ID        string     `json:"id"`
	Profile   string     `json:"profile"`
	Workspace launch.Ref `json:"workspace"` // canonical

	ConfigFile string `json:"config_file,omitempty"` // empty: built-in
	DataRoot   string `json:"data_root"`             // canonical; need not exist yet
	ProfileDir string `json:"profile_dir"`           // need not exist yet
	DomainDir  string `json:"domain_dir"`            // need not exist yet

	Image             string            `json:"image"`
	Command           []string          `json:"command,omitempty"` // empty: a login shell
	Setup             []string          `json:"setup,omitempty"`
	IsolateGitignored bool              `json:"isolate_gitignored"`
	Expose            []string          `json:"expose,omitempty"` // relative to the workspace, clean
	PersistentDirs    []string          `json:"persistent_dirs"`  // sorted
	Network           Network           `json:"network"`
	Env               map[string]string `json:"env,omitempty"` // as written; "env:NAME" is resolved per session
	Volumes           []Volume          `json:"volumes,omitempty"`
	HideEditorDirs    bool              `json:"hide_editor_dirs"`
	HostCA            bool              `json:"host_ca"`
	User              User              `json:"user"`
	Watch             Watch             `json:"watch"`
	Report            bool              `json:"report"`
	GitConfigGate     bool              `json:"git_config_gate"`
	ClipboardBytes    int64             `json:"clipboard_bytes"`
	WarnBytes         int64             `json:"warn_bytes"`

	Escalation Escalation `json:"escalation"`
	Desktop    Desktop    `json:"desktop"`
	Images     Images     `json:"images"`
}

// Network are the configured prefixes, IPv4, masked, sorted, without
// duplicates. No prefix is both allowed and denied.
type Network struct {
	DefaultAllow []netip.Prefix `json:"default_allow"`
	DefaultDeny  []netip.Prefix `json:"default_deny"`
	AllowEgress  []netip.Prefix `json:"allow_egress"`
	DenyEgress   []netip.Prefix `json:"deny_egress"`
}

// Volume is one host path shown in the sandbox.
type Volume struct {
	Host   string     `json:"host"`   // canonical
	Target string     `json:"target"` // absolute, inside the sandbox
	Mode   VolumeMode `json:"mode"`

	// Owned says that Host lies beneath the profile's or the Domain's directory
	// and that Lazaret makes it (paths.DataRoot.EnsureVolume); any other exists.
	Owned bool `json:"owned"`
}

// Escalation are the settings of host command requests.
type Escalation struct {
	Enabled     bool          `json:"enabled"`
	Timeout     time.Duration `json:"timeout"`
	RunTimeout  time.Duration `json:"run_timeout"`
	MaxOutput   int64         `json:"max_output"`
	AutoApprove []ApproveRule `json:"auto_approve,omitempty"`
	Deny        []DenyRule    `json:"deny,omitempty"`
}

// ApproveRule approves one argument vector without asking.
type ApproveRule struct {
	Command        []string `json:"command"`
	AllowExtraArgs bool     `json:"allow_extra_args"`
	Dangerous      bool     `json:"dangerous"`
}

// DenyRule refuses every request that begins with Command.
type DenyRule struct {
	Command []string `json:"command"`
	Reason  string   `json:"reason,omitempty"`
}

// Desktop are the settings of notifications.
type Desktop struct {
	Approve DesktopApprove `json:"approve"`
}

// Images are the settings of the image cache.
type Images struct {
	KeepDays int   `json:"keep_days"`
	MaxBytes int64 `json:"max_bytes"`
}

// User is whom a session runs as inside.
type User string

// The users.
const (
	UserRoot      User = "root"
	UserDeveloper User = "developer"
)

// UnmarshalText refuses unknown users.
func (u *User) UnmarshalText(b []byte) error {
	return enum(u, b, UserRoot, UserDeveloper)
}

// Watch is how host edits reach watchers inside.
type Watch string

// The ways.
const (
	WatchBridge Watch = "bridge"
	WatchPoll   Watch = "poll"
	WatchOff    Watch = "off"
)

// UnmarshalText refuses unknown ways.
func (w *Watch) UnmarshalText(b []byte) error {
	return enum(w, b, WatchBridge, WatchPoll, WatchOff)
}

// VolumeMode says whether a volume can be written.
type VolumeMode string

// The modes.
const (
	VolumeRW VolumeMode = "rw"
	VolumeRO VolumeMode = "ro"
)

// UnmarshalText refuses unknown modes.
func (m *VolumeMode) UnmarshalText(b []byte) error {
	return enum(m, b, VolumeRW, VolumeRO)
}

// DesktopApprove says what a notification may decide.
type DesktopApprove string

// The choices.
const (
	DesktopShort DesktopApprove = "short" // approve what fits into the notification
	DesktopNever DesktopApprove = "never" // notify, but decide in a terminal
	DesktopOff   DesktopApprove = "off"   // no notification
)

// UnmarshalText refuses unknown choices.
func (d *DesktopApprove) UnmarshalText(b []byte) error {
	return enum(d, b, DesktopShort, DesktopNever, DesktopOff)
}

func enum[T ~string](dst *T, b []byte, known ...T) error {
	for _, k := range known {
		if string(b) == string(k) {
			*dst = k
			return nil
		}
	}
	return fmt.Errorf("%q is none of %q", b, known)
}
