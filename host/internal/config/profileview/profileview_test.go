package profileview_test

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"lazaret.dev/lazaret/host/internal/config"
	"lazaret.dev/lazaret/host/internal/config/profileview"
	"lazaret.dev/lazaret/host/internal/paths"
)

const text = `
default_profile = "claude"
[profiles.claude]
command = ["claude"]
env = { API = "env:SECRET_NAME", Literal = "hunter2" }
volumes = [{ host = "{profile_dir}/c", container = "/c" }]
[profiles.codex]
image = "example\u001b[31m"
[[escalation.auto_approve]]
command = ["make"]
dangerous = true
allow_extra_args = true
[[escalation.deny]]
command = ["sudo"]
reason = "no"
`

func load(t *testing.T, text string) *config.Config {
	t.Helper()
	dir := t.TempDir()
	file := dir + "/c.toml"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	host := paths.Host{Getenv: func(k string) string { return map[string]string{"HOME": dir}[k] }, UID: os.Getuid(), TempDir: dir}
	c, err := config.Load(config.Options{File: file, Host: host})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestList(t *testing.T) {
	var b bytes.Buffer
	if err := profileview.WriteList(&b, profileview.List(load(t, text))); err != nil {
		t.Fatal(err)
	}
	want := "* claude                           docker.io/library/debian:trixie  [\"claude\"]\n" +
		"  codex                            example\\x1b[31m  (login shell)\n"
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
	b.Reset()
	if err := profileview.WriteJSON(&b, profileview.List(load(t, ""))); err != nil {
		t.Fatal(err)
	}
	var got []map[string]any
	if err := json.Unmarshal(b.Bytes(), &got); err != nil || len(got) != 1 || got[0]["name"] != "shell" || got[0]["built_in"] != true || got[0]["default"] != true {
		t.Errorf("%v: %s", err, b.String())
	}
}

// Values of env are never shown.
func TestShow(t *testing.T) {
	c := load(t, text)
	shown, err := profileview.Show(c, "claude")
	if err != nil {
		t.Fatal(err)
	}
	var plain, js bytes.Buffer
	if err := profileview.WriteShow(&plain, shown); err != nil {
		t.Fatal(err)
	}
	if err := profileview.WriteJSON(&js, shown); err != nil {
		t.Fatal(err)
	}
	for _, out := range []string{plain.String(), js.String()} {
		if strings.Contains(out, "hunter2") {
			t.Errorf("a value of env is shown:\n%s", out)
		}
		for _, want := range []string{"API (from SECRET_NAME of the caller)", "Literal (set in the configuration)", "{profile_dir}/c at /c, rw", "isolate_gitignored", "(dangerous)", "10.0.0.0/8", "with any further arguments"} {
			if !strings.Contains(out, want) {
				t.Errorf("%q is not in\n%s", want, out)
			}
		}
	}
	if _, err := profileview.Show(c, "nope"); err == nil {
		t.Error("an unknown profile was shown")
	}
	if shown, err := profileview.Show(c, ""); err != nil || shown[1].Value.([]string)[0] != "claude" {
		t.Errorf("the default profile: %v, %v", shown, err)
	}
}
