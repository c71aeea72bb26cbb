package config

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"lazaret.dev/lazaret/host/internal/config/internal/document"
	"lazaret.dev/lazaret/host/internal/config/internal/shellrule"
	"lazaret.dev/lazaret/host/internal/config/internal/value"
	"lazaret.dev/lazaret/host/internal/config/sessionenv"
	"lazaret.dev/lazaret/host/internal/paths"
	"lazaret.dev/lazaret/protocol/launch"
)

// Resolve validates one profile for one Agent Workspace and returns everything
// that the Host Coordinator needs. It makes no directory. Faults are [*Error],
// and a *paths.Error for the workspace.
func (c *Config) Resolve(profile, workspace string) (*Domain, error) {
	p, ok := c.doc.Profiles[profile]
	if !ok {
		return nil, &Error{File: c.doc.Name, Msg: "there is no profile " + profile, Fix: c.known()}
	}
	guard, err := c.Guard()
	if err != nil {
		return nil, err
	}
	// Case 99: every way to name a project leads to one Domain.
	ws, err := guard.Workspace(workspace)
	if err != nil {
		return nil, err
	}
	ref, err := paths.Identify(ws)
	if err != nil {
		return nil, err
	}
	d := &Domain{Profile: profile, Workspace: ref, ConfigFile: c.doc.Name}
	if err := c.identity(d); err != nil {
		return nil, err
	}
	x := value.Expander{Home: c.home, Tokens: map[string]string{
		"profile_name":  profile,
		"profile_dir":   d.ProfileDir,
		"domain_id":     d.ID,
		"domain_hash":   d.ID,
		"domain_dir":    d.DomainDir,
		"workspace_dir": ws,
	}}
	key := []string{"profiles", profile}
	for _, step := range []func() error{
		func() (err error) { d.Image, err = c.imageRef(x, sub(key, "image"), p.Image); return },
		func() (err error) { d.Command, err = c.words(sub(key, "command"), p.Command, false); return },
		func() (err error) { d.Setup, err = c.lines(sub(key, "setup"), p.Setup); return },
		func() (err error) { d.Expose, err = c.expose(sub(key, "expose"), p.Expose); return },
		func() (err error) {
			d.PersistentDirs, err = c.persistentDirs(x, sub(key, "persistent_dirs"), p.PersistentDirs)
			return
		},
		func() (err error) { d.Network, err = c.Network(profile); return },
		func() (err error) { d.Env, err = c.env(sub(key, "env"), p.Env); return },
		func() (err error) { d.Volumes, err = c.volumes(x, d, guard, sub(key, "volumes"), p.Volumes); return },
		func() (err error) { d.User, err = choice[User](c, sub(key, "user"), p.User); return },
		func() (err error) { d.Watch, err = choice[Watch](c, sub(key, "watch"), p.Watch); return },
		func() (err error) {
			d.ClipboardBytes, err = read(c, sub(key, "clipboard_bytes"), value.Size, p.ClipboardBytes)
			return
		},
		func() (err error) {
			d.WarnBytes, err = read(c, sub(key, "warn_bytes"), value.Size, p.WarnBytes)
			return
		},
		func() (err error) { d.Escalation, err = c.escalation(ws); return },
		func() (err error) {
			d.Desktop.Approve, err = choice[DesktopApprove](c, []string{"desktop", "approve"}, c.doc.Desktop.Approve)
			return
		},
		func() (err error) { d.Images, err = c.Images(); return },
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	d.IsolateGitignored, d.HideEditorDirs, d.HostCA = p.IsolateGitignored, p.HideEditorDirs, p.HostCA
	d.Report, d.GitConfigGate = p.Report, p.GitConfigGate
	return d, nil
}

// identity fills in the Domain's identity and directories.
func (c *Config) identity(d *Domain) error {
	root, err := c.DataRoot()
	if err != nil {
		return err
	}
	if root, err = paths.Resolve(root); err != nil {
		return c.cause([]string{"storage", "data_root"}, "the path cannot be used", err)
	}
	d.ID = paths.DomainID(d.Profile, d.Workspace.Path)
	d.DataRoot = root
	d.ProfileDir = paths.ProfileDirPath(root, d.Profile)
	d.DomainDir = paths.DomainDirPath(root, d.ID)
	return nil
}

// words reads an argument vector; empty is allowed unless needed.
func (c *Config) words(key []string, in []string, needed bool) ([]string, error) {
	if len(in) == 0 && !needed {
		return nil, nil
	}
	if len(in) == 0 || in[0] == "" {
		return nil, c.doc.Fault(key, `write the whole argument vector, such as ["notify-send", "done"]`, "a command is missing")
	}
	return in, c.noNUL(key, in)
}

func (c *Config) lines(key []string, in []string) ([]string, error) {
	for i, s := range in {
		if strings.TrimSpace(s) == "" {
			return nil, c.doc.Fault(sub(key, i), "", "an empty line does nothing")
		}
	}
	return in, c.noNUL(key, in)
}

func (c *Config) env(key []string, in map[string]string) (map[string]string, error) {
	for _, name := range slices.Sorted(maps.Keys(in)) {
		if err := sessionenv.CheckProfile(name, in[name]); err != nil {
			return nil, c.cause(sub(key, name), "this variable cannot be set", err)
		}
	}
	return in, nil
}

func (c *Config) escalation(workspace string) (Escalation, error) {
	in, key := c.doc.Escalation, []string{"escalation"}
	out := Escalation{Enabled: in.Enabled}
	var err error
	if out.Timeout, err = read(c, sub(key, "timeout"), value.Duration, in.Timeout); err != nil {
		return out, err
	}
	if out.RunTimeout, err = read(c, sub(key, "run_timeout"), value.Duration, in.RunTimeout); err != nil {
		return out, err
	}
	if out.MaxOutput, err = read(c, sub(key, "max_output"), value.Size, in.MaxOutput); err != nil {
		return out, err
	}
	for i, r := range in.AutoApprove {
		k := sub(key, "auto_approve", i)
		cmd, err := c.approvable(k, r, workspace)
		if err != nil {
			return out, err
		}
		out.AutoApprove = append(out.AutoApprove, ApproveRule{Command: cmd, AllowExtraArgs: r.AllowExtraArgs, Dangerous: r.Dangerous})
	}
	for i, r := range in.Deny {
		cmd, err := c.words(sub(key, "deny", i, "command"), r.Command, true)
		if err != nil {
			return out, err
		}
		out.Deny = append(out.Deny, DenyRule{Command: cmd, Reason: r.Reason})
	}
	return out, nil
}

func (c *Config) approvable(key []string, r document.Approve, workspace string) ([]string, error) {
	cmd, err := c.words(sub(key, "command"), r.Command, true)
	if err != nil || r.Dangerous {
		return cmd, err
	}
	resolve := func(p string) string {
		if real, err := filepath.EvalSymlinks(p); err == nil {
			return real
		}
		return p
	}
	if why := shellrule.Reason(cmd, workspace, resolve); why != "" {
		return nil, c.doc.Fault(sub(key, "command"),
			"approve it each time; or set dangerous = true in this rule if the agent may run anything on this host unasked",
			"a rule for %q amounts to a shell: %s", cmd, why)
	}
	return cmd, nil
}

// Ref returns the identity of a volume's host path. The path must exist.
func (v Volume) Ref() (launch.Ref, error) { return paths.Identify(v.Host) }
