package document_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pelletier/go-toml/v2"
	"pgregory.net/rapid"

	"lazaret.dev/lazaret/host/internal/config/internal/document"
)

func TestDefaults(t *testing.T) {
	d, err := document.Parse("c.toml", []byte("[profiles.claude]\nvolumes = [{host = \"/a\", container = \"/b\"}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := document.File{
		Storage:    document.Storage{DataRoot: "~/.local/share/lazaret"},
		Network:    document.Network{DefaultAllow: []string{}, DefaultDeny: []string{"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16", "100.64.0.0/10"}},
		Escalation: document.Escalation{Enabled: true, Timeout: "5m", RunTimeout: "30m", MaxOutput: "1MiB"},
		Desktop:    document.Desktop{Approve: "short"},
		Images:     document.Images{KeepDays: 30, MaxBytes: "20GiB"},
		Profiles: map[string]document.Profile{"claude": {
			IsolateGitignored: true, HostCA: true, Report: true, User: "root", Watch: "bridge",
			PersistentDirs: []string{"/root", "/home", "/usr", "/var", "/etc", "/opt"},
			ClipboardBytes: "100KiB", WarnBytes: "10GiB",
			Volumes: []document.Volume{{Host: "/a", Container: "/b", Mode: "rw"}},
		}},
	}
	if diff := cmp.Diff(want, d.File); diff != "" {
		t.Error(diff)
	}
	p := document.BuiltIn("bash", "-l")
	if diff := cmp.Diff([]string{"bash", "-l"}, p.Command); diff != "" || !p.HostCA {
		t.Errorf("%s%+v", diff, p)
	}
}

// What is written wins over a default, also when it is false or empty.
func TestWrittenWins(t *testing.T) {
	d, err := document.Parse("c.toml", []byte(`
network.default_deny = []
escalation = { enabled = false, max_output = "2MiB" }
images.keep_days = 0
profiles.a-b = { report = false, persistent_dirs = [], host_ca = false }
`))
	if err != nil {
		t.Fatal(err)
	}
	p := d.Profiles["a-b"]
	if len(d.Network.DefaultDeny) != 0 || d.Escalation.Enabled || d.Escalation.MaxOutput != "2MiB" || d.Escalation.Timeout != "5m" ||
		d.Images.KeepDays != 0 || p.Report || p.HostCA || len(p.PersistentDirs) != 0 || !p.IsolateGitignored {
		t.Errorf("%+v", d.File)
	}
}

// Case 22: names keep their case and their dots.
func TestKeysSurvive(t *testing.T) {
	d, err := document.Parse("c.toml", []byte(`
[profiles.claude.env]
MyVar = "1"
MYVAR = "2"
"a.Example.com" = "3"
`))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"MyVar": "1", "MYVAR": "2", "a.Example.com": "3"}
	if diff := cmp.Diff(want, d.Profiles["claude"].Env); diff != "" {
		t.Error(diff)
	}
}

func TestEnvNamesSurvive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.MapOfN(rapid.StringMatching(`[A-Za-z_.\- :]{1,12}`), rapid.StringMatching(`[ -~]{0,12}`), 1, 8).Draw(t, "env")
		b, err := toml.Marshal(map[string]any{"profiles": map[string]any{"p1": map[string]any{"env": want}}})
		if err != nil {
			t.Fatal(err)
		}
		d, err := document.Parse("c.toml", b)
		if err != nil {
			t.Fatalf("%v\n%s", err, b)
		}
		if diff := cmp.Diff(want, d.Profiles["p1"].Env); diff != "" {
			t.Fatal(diff)
		}
	})
}

// Case 22, and the older contract: every refusal names the key and the line.
func TestRefused(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		line       int
		key        string
		says, hint string
	}{
		{"misspelt section", "\n[netwrok]\ndefault_deny = []\n", 2, "netwrok", "unknown key", `"network"`},
		{"misspelt top key", "netwrok=1\n", 1, "netwrok", "unknown key", `"network"`},
		{"misspelt key", "[network]\n\n\ndefault_dney = []\n", 4, "network.default_dney", "unknown key", `"network.default_deny"`},
		{"misspelt profile key", "[profiles.claude]\nimage = \"x\"\nimgae = \"y\"\n", 3, "profiles.claude.imgae", "unknown key", `"profiles.claude.image"`},
		{"far off", "[profiles.claude]\nkubernetes = \"y\"\n", 2, "profiles.claude.kubernetes", "unknown key", "README.md lists"},
		{"wrong case", "Default_Profile = \"x\"\n", 1, "Default_Profile", "unknown key", `"default_profile"`},
		{"wrong case in profile", "[profiles.claude]\nImage = \"x\"\n", 2, "profiles.claude.Image", "unknown key", "image"},
		{"quoted dots", "\"storage.data_root\" = \"/x\"\n", 1, "storage.data_root", "unknown key", ""},
		{"in an inline table", "[profiles.claude]\nvolumes = [\n  {host = \"/a\", container = \"/b\"},\n  {host = \"/a\", conatiner = \"/b\"},\n]\n", 4, "profiles.claude.volumes[1].conatiner", "unknown key", "container"},
		{"in an array of tables", "[[escalation.auto_approve]]\ncommand = [\"a\"]\n[[escalation.auto_approve]]\ncomand = [\"a\"]\n", 4, "escalation.auto_approve[1].comand", "unknown key", "command"},
		{"empty table", "[profiles.claude.envs]\n", 1, "profiles.claude.envs", "unknown key", "env"},

		{"broken", "[network]\ndefault_deny = [\"10.0.0.0/8\"\n\n[x\n", 4, "", "not valid TOML", ""},
		{"broken first line", "= 3\n", 1, "", "not valid TOML", ""},
		{"twice", "[network]\ndefault_deny = []\ndefault_deny = []\n", 3, "", "not valid TOML", ""},
		{"not UTF-8", "default_profile = \"\xff\"\n", 1, "", "not valid TOML", ""},

		{"string for bool", "[escalation]\nenabled = \"yes\"\n", 2, "escalation.enabled", "true or false", ""},
		{"int for string", "[images]\nmax_bytes = 5\n", 2, "images.max_bytes", "a string in quotes", ""},
		{"string for int", "[images]\nkeep_days = \"5\"\n", 2, "images.keep_days", "a whole number", ""},
		{"string for list", "[profiles.claude]\ncommand = \"claude\"\n", 2, "profiles.claude.command", "a list of strings", ""},
		{"list for table", "profiles = []\n", 1, "profiles", "", ""},
		{"number in env", "[profiles.claude]\nenv = { A = 1 }\n", 2, "profiles.claude.env", "a table of strings", ""},
		{"volume as text", "[profiles.claude]\nvolumes = [\"/a:/b:z\"]\n", 2, "profiles.claude.volumes", "", ""},

		{"socket_dir", "[escalation]\nenabled = true\nsocket_dir = \"/tmp/x\"\n", 3, "escalation.socket_dir", "older version", "XDG_RUNTIME_DIR"},
		{"auto_approve of strings", "[escalation]\nauto_approve = [\"git push\"]\n", 2, "escalation.auto_approve", "older version", "[[escalation.auto_approve]]"},
		{"auto_approve string", "[escalation]\nauto_approve = \"git push\"\n", 2, "escalation.auto_approve", "older version", "[[escalation.auto_approve]]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := document.Parse("/x/c.toml", []byte(tt.text))
			var e *document.Error
			if !errors.As(err, &e) {
				t.Fatalf("error %v, want a *document.Error", err)
			}
			if e.Line != tt.line || (tt.key != "" && e.Key != tt.key && tt.key != "profiles" && !strings.HasSuffix(tt.key, ".volumes")) {
				t.Errorf("line %d, key %q; want %d, %q (%v)", e.Line, e.Key, tt.line, tt.key, err)
			}
			if !strings.Contains(err.Error(), "/x/c.toml") || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error %q does not name the file and %q", err, tt.says)
			}
			if !strings.Contains(e.Hint(), tt.hint) {
				t.Errorf("hint %q does not say %q", e.Hint(), tt.hint)
			}
			if strings.Contains(err.Error(), "document.") {
				t.Errorf("error %q speaks Go", err)
			}
		})
	}
}

func TestFault(t *testing.T) {
	d, err := document.Parse("c.toml", []byte("[profiles.claude]\n\nvolumes = [\n  {host = \"/a\", container = \"/b\"},\n]\n"))
	if err != nil {
		t.Fatal(err)
	}
	for key, line := range map[string]int{
		"profiles/claude/volumes/0/container": 4,
		"profiles/claude/volumes/0/mode":      4, // a default: the line of the entry
		"profiles/claude/image":               1,
		"network/default_deny":                0,
	} {
		if e := d.Fault(strings.Split(key, "/"), "", "x"); e.Line != line {
			t.Errorf("%s: line %d, want %d", key, e.Line, line)
		}
	}
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	if _, err := document.Read(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := document.Read(dir); err == nil {
		t.Error("a directory was read")
	}
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := document.Read(fifo); err == nil || !strings.Contains(err.Error(), "regular") {
		t.Errorf("a FIFO: %v", err)
	}
	big := filepath.Join(dir, "big")
	if err := os.WriteFile(big, []byte(strings.Repeat("#\n", document.MaxBytes/2+1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := document.Read(big); err == nil || !strings.Contains(err.Error(), "larger") {
		t.Errorf("a large file: %v", err)
	}
	if err := os.Truncate(big, document.MaxBytes); err != nil {
		t.Fatal(err)
	}
	if _, err := document.Read(big); err != nil {
		t.Errorf("a file of just the limit: %v", err)
	}
}

// FuzzParse: no text makes the reader panic; what it refuses has a file, and
// what it accepts has the env that TOML says.
func FuzzParse(f *testing.F) {
	f.Add([]byte("default_profile = \"a\"\n[profiles.claude.env]\nMyVar = \"1\"\n\"a.b\" = \"\"\n"))
	f.Add([]byte("[[escalation.auto_approve]]\ncommand = [\"a\"]\n[[escalation.auto_approve]]\ncommand = [\"b\"]\n"))
	f.Add([]byte("profiles.x = { volumes = [ {host='/a', container='/b'} ] }\n"))
	f.Add([]byte("[a]\nb.c.d = [[1],[{x=1}]]\n[[a.b.e]]\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := document.Parse("f", text)
		if err != nil {
			var e *document.Error
			if !errors.As(err, &e) || e.File != "f" {
				t.Fatalf("error %v (%T)", err, err)
			}
			return
		}
		var plain document.File
		if err := toml.Unmarshal(text, &plain); err != nil {
			t.Fatalf("accepted, but %v", err)
		}
		if len(plain.Profiles) != len(d.Profiles) {
			t.Fatalf("%d profiles, want %d", len(d.Profiles), len(plain.Profiles))
		}
		for name, p := range plain.Profiles {
			if len(p.Env) != len(d.Profiles[name].Env) {
				t.Fatalf("env of %q: %q, want %q", name, d.Profiles[name].Env, p.Env)
			}
			for k, v := range p.Env {
				if d.Profiles[name].Env[k] != v {
					t.Fatalf("env %q of %q is %q, want %q", k, name, d.Profiles[name].Env[k], v)
				}
			}
		}
	})
}
