// Package profileview owns what `lazaret profile ls` and `lazaret profile show`
// say, as text and as JSON. It runs in the Client CLI. It shows settings as they
// are written, resolves nothing, and never shows the value of a variable of env.
package profileview

import (
	"encoding/json"
	"fmt"
	"io"
	"sort"
	"strings"

	"lazaret.dev/lazaret/host/internal/config"
	"lazaret.dev/lazaret/host/internal/config/internal/document"
	"lazaret.dev/lazaret/host/internal/config/sessionenv"
)

// Listed is one profile in `lazaret profile ls`.
type Listed struct {
	Name    string   `json:"name"`
	Default bool     `json:"default"` // what `lazaret run` without PROFILE starts
	BuiltIn bool     `json:"built_in"`
	Image   string   `json:"image"`
	Command []string `json:"command"` // empty: a login shell
}

// List returns all profiles, sorted by name.
func List(c *config.Config) []Listed {
	f := c.File()
	def, err := c.Select("")
	out := []Listed{}
	for _, name := range c.Profiles() {
		p := f.Profiles[name]
		out = append(out, Listed{Name: name, Default: err == nil && name == def, BuiltIn: c.BuiltIn(), Image: orDefault(c, p.Image), Command: nonNil(p.Command)})
	}
	return out
}

// Shown is one setting in `lazaret profile show`.
type Shown struct {
	Key   string `json:"key"`
	Value any    `json:"value"`

	// Pending says that the setting is read and checked, and that nothing acts on
	// it yet.
	Pending bool `json:"pending,omitempty"`
}

// pending are the settings whose features are still to come: a person who sees
// isolate_gitignored must not take an ignored file for hidden.
var pending = map[string]bool{
	"setup": true, "user": true, "isolate_gitignored": true, "expose": true, "hide_editor_dirs": true,
	"watch": true, "report": true, "git_config_gate": true, "clipboard_bytes": true, "warn_bytes": true,
	"escalation": true, "desktop": true, "images": true,
}

// Show returns the settings of a profile (empty: the one that `lazaret run`
// would start) and the general ones, with defaults filled
// in and placeholders as they are written. Of env only the names are shown, and
// where a value comes from: values may be secret.
func Show(c *config.Config, profile string) ([]Shown, error) {
	profile, err := c.Select(profile)
	if err != nil {
		return nil, err
	}
	f := c.File()
	p := f.Profiles[profile]
	settings := []Shown{
		{Key: "image", Value: orDefault(c, p.Image)},
		{Key: "command", Value: nonNil(p.Command)},
		{Key: "setup", Value: nonNil(p.Setup)},
		{Key: "user", Value: p.User},
		{Key: "isolate_gitignored", Value: p.IsolateGitignored},
		{Key: "expose", Value: nonNil(p.Expose)},
		{Key: "persistent_dirs", Value: nonNil(p.PersistentDirs)},
		{Key: "volumes", Value: showVolumes(p.Volumes)},
		{Key: "env", Value: showEnv(p.Env)},
		{Key: "allow_egress", Value: nonNil(p.AllowEgress)},
		{Key: "deny_egress", Value: nonNil(p.DenyEgress)},
		{Key: "network.default_allow", Value: nonNil(f.Network.DefaultAllow)},
		{Key: "network.default_deny", Value: nonNil(f.Network.DefaultDeny)},
		{Key: "hide_editor_dirs", Value: p.HideEditorDirs},
		{Key: "host_ca", Value: p.HostCA},
		{Key: "watch", Value: p.Watch},
		{Key: "report", Value: p.Report},
		{Key: "git_config_gate", Value: p.GitConfigGate},
		{Key: "clipboard_bytes", Value: p.ClipboardBytes},
		{Key: "warn_bytes", Value: p.WarnBytes},
		{Key: "escalation.enabled", Value: f.Escalation.Enabled},
		{Key: "escalation.timeout", Value: f.Escalation.Timeout},
		{Key: "escalation.run_timeout", Value: f.Escalation.RunTimeout},
		{Key: "escalation.max_output", Value: f.Escalation.MaxOutput},
		{Key: "escalation.auto_approve", Value: showRules(f.Escalation.AutoApprove)},
		{Key: "escalation.deny", Value: showDenials(f.Escalation.Deny)},
		{Key: "desktop.approve", Value: f.Desktop.Approve},
		{Key: "storage.data_root", Value: f.Storage.DataRoot},
		{Key: "images.keep_days", Value: f.Images.KeepDays},
		{Key: "images.max_bytes", Value: f.Images.MaxBytes},
	}
	for i := range settings {
		table, _, _ := strings.Cut(settings[i].Key, ".")
		settings[i].Pending = pending[table]
	}
	return settings, nil
}

func orDefault(c *config.Config, image string) string {
	if image == "" {
		return c.DefaultImage()
	}
	return image
}

func nonNil(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

func showVolumes(in []document.Volume) []string {
	out := []string{}
	for _, v := range in {
		out = append(out, fmt.Sprintf("%s at %s, %s", v.Host, v.Container, v.Mode))
	}
	return out
}

func showEnv(in map[string]string) []string {
	out := []string{}
	for name, v := range in {
		if from, ok := sessionenv.Caller(v); ok {
			out = append(out, name+" (from "+from+" of the caller)")
		} else {
			out = append(out, name+" (set in the configuration)")
		}
	}
	sort.Strings(out)
	return out
}

func showRules(in []document.Approve) []string {
	out := []string{}
	for _, r := range in {
		s := render(r.Command)
		if r.AllowExtraArgs {
			s += " with any further arguments"
		}
		if r.Dangerous {
			s += " (dangerous)"
		}
		out = append(out, s)
	}
	return out
}

func showDenials(in []document.Deny) []string {
	out := []string{}
	for _, r := range in {
		out = append(out, strings.TrimSuffix(render(r.Command)+": "+r.Reason, ": "))
	}
	return out
}

// WriteList prints profiles for people.
func WriteList(w io.Writer, list []Listed) error {
	for _, l := range list {
		mark, cmd := " ", "(login shell)"
		if l.Default {
			mark = "*"
		}
		if len(l.Command) > 0 {
			cmd = render(l.Command)
		}
		if _, err := fmt.Fprintf(w, "%s %-32s %s  %s\n", mark, l.Name, visible(l.Image), cmd); err != nil {
			return err
		}
	}
	return nil
}

// WriteShow prints settings for people, one a line.
func WriteShow(w io.Writer, settings []Shown) error {
	for _, s := range settings {
		later := ""
		if s.Pending {
			later = "  (not in effect yet)"
		}
		if _, err := fmt.Fprintf(w, "%-26s %s%s\n", s.Key, render(s.Value), later); err != nil {
			return err
		}
	}
	return nil
}

// WriteJSON prints a list or settings as one JSON document.
func WriteJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// visible renders a text of the configuration so that it cannot act on a terminal.
func visible(s string) string {
	q := fmt.Sprintf("%q", s)
	return q[1 : len(q)-1]
}

// render is JSON, which shows control characters escaped.
func render(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprintf("%#v", v)
	}
	return string(b)
}
