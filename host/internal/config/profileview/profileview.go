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
	return []Shown{
		{"image", orDefault(c, p.Image)},
		{"command", nonNil(p.Command)},
		{"setup", nonNil(p.Setup)},
		{"user", p.User},
		{"isolate_gitignored", p.IsolateGitignored},
		{"expose", nonNil(p.Expose)},
		{"persistent_dirs", nonNil(p.PersistentDirs)},
		{"volumes", showVolumes(p.Volumes)},
		{"env", showEnv(p.Env)},
		{"allow_egress", nonNil(p.AllowEgress)},
		{"deny_egress", nonNil(p.DenyEgress)},
		{"network.default_allow", nonNil(f.Network.DefaultAllow)},
		{"network.default_deny", nonNil(f.Network.DefaultDeny)},
		{"hide_editor_dirs", p.HideEditorDirs},
		{"host_ca", p.HostCA},
		{"watch", p.Watch},
		{"report", p.Report},
		{"git_config_gate", p.GitConfigGate},
		{"clipboard_bytes", p.ClipboardBytes},
		{"warn_bytes", p.WarnBytes},
		{"escalation.enabled", f.Escalation.Enabled},
		{"escalation.timeout", f.Escalation.Timeout},
		{"escalation.run_timeout", f.Escalation.RunTimeout},
		{"escalation.max_output", f.Escalation.MaxOutput},
		{"escalation.auto_approve", showRules(f.Escalation.AutoApprove)},
		{"escalation.deny", showDenials(f.Escalation.Deny)},
		{"desktop.approve", f.Desktop.Approve},
		{"storage.data_root", f.Storage.DataRoot},
		{"images.keep_days", f.Images.KeepDays},
		{"images.max_bytes", f.Images.MaxBytes},
	}, nil
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
		if _, err := fmt.Fprintf(w, "%-26s %s\n", s.Key, render(s.Value)); err != nil {
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
