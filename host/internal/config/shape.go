package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"sort"
)

// Shape returns the settings that shape the sandbox, rendered for comparison
// and for people: image, storage, network, volumes, isolation, user and
// escalation rules. What belongs to one session (env, command, desktop,
// report, clipboard, warnings) and what belongs to the host (images) is not in it.
func (d *Domain) Shape() map[string]string {
	m := map[string]string{
		"image":                   d.Image,
		"storage.data_root":       d.DataRoot,
		"setup":                   render(d.Setup),
		"persistent_dirs":         render(sorted(d.PersistentDirs)),
		"network.default_allow":   render(prefixes(d.Network.DefaultAllow)),
		"network.default_deny":    render(prefixes(d.Network.DefaultDeny)),
		"allow_egress":            render(prefixes(d.Network.AllowEgress)),
		"deny_egress":             render(prefixes(d.Network.DenyEgress)),
		"isolate_gitignored":      render(d.IsolateGitignored),
		"expose":                  render(sorted(d.Expose)),
		"hide_editor_dirs":        render(d.HideEditorDirs),
		"git_config_gate":         render(d.GitConfigGate),
		"watch":                   string(d.Watch),
		"host_ca":                 render(d.HostCA),
		"user":                    string(d.User),
		"escalation.enabled":      render(d.Escalation.Enabled),
		"escalation.timeout":      d.Escalation.Timeout.String(),
		"escalation.run_timeout":  d.Escalation.RunTimeout.String(),
		"escalation.max_output":   render(d.Escalation.MaxOutput),
		"escalation.auto_approve": render(d.Escalation.AutoApprove),
		"escalation.deny":         render(d.Escalation.Deny),
		"volumes":                 "[]",
	}
	vols := []string{}
	for _, v := range d.Volumes {
		vols = append(vols, fmt.Sprintf("%s %q at %q", v.Mode, v.Host, v.Target))
	}
	m["volumes"] = render(sorted(vols))
	return m
}

// Fingerprint is the Configuration Fingerprint: SHA-256 over [Domain.Shape],
// in hex.
func (d *Domain) Fingerprint() string { return FingerprintOf(d.Shape()) }

// FingerprintOf is the fingerprint of a shape.
func FingerprintOf(shape map[string]string) string {
	keys := make([]string, 0, len(shape))
	for k := range shape {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	h := sha256.New()
	fmt.Fprintf(h, "lazaret-config-1\n")
	for _, k := range keys {
		fmt.Fprintf(h, "%d:%s %d:%s\n", len(k), k, len(shape[k]), shape[k])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Diff says what differs between the shape of a running Domain and the one of
// a configuration, one line a setting, sorted; empty if nothing does.
func Diff(running, configured map[string]string) []string {
	keys := map[string]bool{}
	for k := range running {
		keys[k] = true
	}
	for k := range configured {
		keys[k] = true
	}
	var out []string
	for k := range keys {
		a, inA := running[k]
		b, inB := configured[k]
		if a != b || inA != inB {
			out = append(out, fmt.Sprintf("%s: running with %s, configured is %s", k, orNothing(a), orNothing(b)))
		}
	}
	sort.Strings(out)
	return out
}

func orNothing(s string) string {
	if s == "" {
		return "nothing"
	}
	return s
}

// render is JSON, in which no two values look alike. Nil slices are [].
func render(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprintf("%#v", v)
	}
	if string(b) == "null" {
		return "[]"
	}
	return string(b)
}

func sorted(in []string) []string {
	out := slices.Clone(in)
	sort.Strings(out)
	return out
}

func prefixes(in []netip.Prefix) []string {
	out := []string{}
	for _, p := range in {
		out = append(out, p.String())
	}
	return sorted(out)
}
