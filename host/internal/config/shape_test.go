package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"lazaret.dev/lazaret/host/internal/config"
)

const shaped = `
[network]
default_allow = ["9.9.9.0/24", "8.8.0.0/16"]
[escalation]
timeout = "300s"
[profiles.claude]
persistent_dirs = ["/root", "/var"]
expose = ["b", "a"]
`

// What shapes the sandbox changes the fingerprint; what belongs to a session
// or the host, or is only written differently, does not.
func TestFingerprint(t *testing.T) {
	w := newWorld(t)
	base, err := w.resolve(shaped)
	if err != nil {
		t.Fatal(err)
	}
	with := func(old, new string) string {
		if old == "" {
			return shaped + new
		}
		if !strings.Contains(shaped, old) {
			t.Fatalf("the text has no %q", old)
		}
		return strings.Replace(shaped, old, new, 1)
	}
	for _, tt := range []struct {
		name, text, differs string
	}{
		{"same", shaped, ""},
		{"order of prefixes", with(`"9.9.9.0/24", "8.8.0.0/16"`, `"8.8.0.0/16", "9.9.9.0/24"`), ""},
		{"order of directories", with(`"/root", "/var"`, `"/var/", "/root"`), ""},
		{"order of exposed", with(`"b", "a"`, `"a", "b"`), ""},
		{"unit of time", with(`"300s"`, `"5m"`), ""},
		{"env", with("", "env = { A = \"1\" }\n"), ""},
		{"command", with("", "command = [\"x\"]\n"), ""},
		{"report", with("", "report = false\n"), ""},
		{"clipboard", with("", "clipboard_bytes = \"1\"\nwarn_bytes = \"1\"\n"), ""},
		{"desktop", "desktop.approve = \"off\"\n" + shaped, ""},
		{"images", "images.keep_days = 1\n" + shaped, ""},
		{"default_profile", "default_profile = \"claude\"\n" + shaped, ""},

		{"image", with("", "image = \"x\"\n"), "image"},
		{"data_root", "storage.data_root = \"~/d\"\n" + shaped, "storage.data_root"},
		{"setup", with("", "setup = [\"x\"]\n"), "setup"},
		{"persistent_dirs", with(`"/root", `, ""), "persistent_dirs"},
		{"default_allow", with(`"9.9.9.0/24", `, ""), "network.default_allow"},
		{"default_deny", with("[network]", "[network]\ndefault_deny = []"), "network.default_deny"},
		{"allow_egress", with("", "allow_egress = [\"10.1.1.1/32\"]\n"), "allow_egress"},
		{"deny_egress", with("", "deny_egress = [\"1.1.1.1/32\"]\n"), "deny_egress"},
		{"volumes", with("", "volumes = [{host=\"{BASE}/cache\",container=\"/c\"}]\n"), "volumes"},
		{"isolate", with("", "isolate_gitignored = false\n"), "isolate_gitignored"},
		{"expose", with(`"b", `, ""), "expose"},
		{"editor dirs", with("", "hide_editor_dirs = true\n"), "hide_editor_dirs"},
		{"gate", with("", "git_config_gate = true\n"), "git_config_gate"},
		{"watch", with("", "watch = \"off\"\n"), "watch"},
		{"host_ca", with("", "host_ca = false\n"), "host_ca"},
		{"user", with("", "user = \"developer\"\n"), "user"},
		{"escalation", with("[escalation]", "[escalation]\nenabled = false"), "escalation.enabled"},
		{"timeout", with(`"300s"`, `"6m"`), "escalation.timeout"},
		{"run_timeout", with("[escalation]", "[escalation]\nrun_timeout = \"1m\""), "escalation.run_timeout"},
		{"max_output", with("[escalation]", "[escalation]\nmax_output = \"2MiB\""), "escalation.max_output"},
		{"auto_approve", with("", "[[escalation.auto_approve]]\ncommand = [\"x\"]\n"), "escalation.auto_approve"},
		{"deny", with("", "[[escalation.deny]]\ncommand = [\"x\"]\n"), "escalation.deny"},
	} {
		d, err := w.resolve(tt.text)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		diff := config.Diff(base.Shape(), d.Shape())
		if tt.differs == "" {
			if len(diff) != 0 || d.Fingerprint() != base.Fingerprint() {
				t.Errorf("%s: differs in %q", tt.name, diff)
			}
			continue
		}
		if d.Fingerprint() == base.Fingerprint() || len(diff) != 1 || !strings.HasPrefix(diff[0], tt.differs+": ") {
			t.Errorf("%s: diff %q", tt.name, diff)
		}
	}
}

func TestDiff(t *testing.T) {
	got := config.Diff(map[string]string{"a": "1", "b": "2", "c": ""}, map[string]string{"a": "1", "b": "3", "d": "4"})
	want := []string{
		"b: running with 2, configured is 3",
		"c: running with nothing, configured is nothing",
		"d: running with nothing, configured is 4",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Two shapes have one fingerprint exactly if they are equal, however the maps
// were made.
func TestFingerprintOf(t *testing.T) {
	gen := rapid.MapOfN(rapid.StringMatching(`[ab:= \n]{1,3}`), rapid.StringMatching(`[ab:= \n0-9]{0,3}`), 0, 4)
	rapid.Check(t, func(t *rapid.T) {
		a, b := gen.Draw(t, "a"), gen.Draw(t, "b")
		equal := fmt.Sprint(a) == fmt.Sprint(b) && cmp.Equal(a, b)
		if (config.FingerprintOf(a) == config.FingerprintOf(b)) != equal {
			t.Fatalf("equal: %t, fingerprints say otherwise", equal)
		}
		if (len(config.Diff(a, b)) == 0) != equal {
			t.Fatalf("equal: %t, Diff says otherwise", equal)
		}
		copied := map[string]string{}
		for _, k := range rapid.Permutation(keys(a)).Draw(t, "order") {
			copied[k] = a[k]
		}
		if config.FingerprintOf(copied) != config.FingerprintOf(a) {
			t.Fatal("the fingerprint depends on the order of insertion")
		}
	})
}

func keys(m map[string]string) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	return out
}
