package gitconfig_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"lazaret.dev/lazaret/protocol/testgate"
	"lazaret.dev/lazaret/supervisor/internal/sentry/gitconfig"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]gitconfig.Entry{
		"":                                   nil,
		"\xef\xbb\xbf[A]\nB=c":               {{Section: "a", Key: "b", Value: "c"}},
		"[a]\r\n\tb = c\r\n":                 {{Section: "a", Key: "b", Value: "c"}},
		"[a \"B.c\"] d":                      {{Section: "a", Sub: "B.c", Key: "d", Bare: true}},
		"[a.B]d=\"x ; y\"  ; z":              {{Section: "a", Sub: "b", Key: "d", Value: "x ; y"}},
		"[a]b=x \\\n y\\n\\t\\\"\\\\ ":       {{Section: "a", Key: "b", Value: "x  y\n\t\"\\"}},
		"[a]b= x  y  # z\n[c]\n# d = e\nf=g": {{Section: "a", Key: "b", Value: "x  y"}, {Section: "c", Key: "f", Value: "g"}},
		"[a \"x\\\"y\\\\\"]b=":               {{Section: "a", Sub: "x\"y\\", Key: "b"}},
		"[a]b=c\x00d":                        {{Section: "a", Key: "b", Value: "c"}},
		"[a]b=\" x \"":                       {{Section: "a", Key: "b", Value: " x "}},
	} {
		got, err := gitconfig.Parse([]byte(text))
		if err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
	for _, text := range []string{"[", "[a", "[a b]", "[a \"b]", "[a \"b\n\"]", "[a \"b\"x]", "[a]\n1=2", "[a]b=\"c", "[a]b=\\x", "[a]b c", "=", "[a]b!=c", "[a$]", "\x00"} {
		var bad *gitconfig.SyntaxError
		if _, err := gitconfig.Parse([]byte(text)); !errors.As(err, &bad) || bad.Error() == "" {
			t.Errorf("%q: %v", text, err)
		}
	}
	if got, err := gitconfig.Parse([]byte("[a]\nb=c\nd=\"")); len(got) != 1 || err == nil {
		t.Errorf("before an error: %v, %v", got, err)
	}
	for _, text := range []string{strings.Repeat(" ", gitconfig.MaxSize+1), "[a]\n" + strings.Repeat("b\n", 1<<14+1)} {
		if _, err := gitconfig.Parse([]byte(text)); !errors.Is(err, gitconfig.ErrTooLarge) {
			t.Errorf("a large file: %v", err)
		}
	}
}

// TestParseGit: Git reads the same.
func TestParseGit(t *testing.T) {
	t.Parallel()
	testgate.Need(t, testgate.Git)
	path := filepath.Join(t.TempDir(), "c")
	piece := rapid.SampledFrom([]string{
		"[a]", "[a \"b\"]", "[A.B]", "[a \"x.y\\\"\"]", "\n", "\n", "\r\n", "k = v", "key", "k-1=", "k=\"q \"", "k = a # c", "k=a;b", "k=a \\\n b", "k=\\t\\n", " ", "\t", "# c", "; d", "\"", "\\", "é", "=", "[", "]", "x", ".", "1", "\r",
	})
	blanks := strings.NewReplacer("\t", " ", "\r", " ")
	good := 0
	rapid.Check(t, func(t *rapid.T) {
		text := "[s]\n" + strings.Join(rapid.SliceOfN(piece, 0, 12).Draw(t, "pieces"), "")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("git", "config", "-f", path, "--list", "-z").Output()
		entries, ours := gitconfig.Parse([]byte(text))
		if (err != nil) != (ours != nil) {
			t.Fatalf("%q: git %v, Parse %v", text, err, ours)
		}
		if err != nil {
			return
		}
		good++
		var b strings.Builder
		for _, e := range entries {
			name := e.Section + "." + e.Key
			if e.Sub != "" {
				name = e.Section + "." + e.Sub + "." + e.Key
			}
			if e.Bare {
				fmt.Fprintf(&b, "%s\x00", name)
			} else {
				fmt.Fprintf(&b, "%s\n%s\x00", name, e.Value)
			}
		}
		// Older versions of Git read every blank in a value as a space.
		if blanks.Replace(b.String()) != blanks.Replace(string(out)) {
			t.Fatalf("%q: git %q, Parse %q", text, out, b.String())
		}
	})
	if good == 0 {
		t.Error("no file was good")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("[a \"b\"]\n\tc = \"d\" ; e\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		entries, _ := gitconfig.Parse(b)
		for _, e := range entries {
			if e.Key == "" || e.Key != strings.ToLower(e.Key) || strings.ContainsRune(e.Value, 0) {
				t.Errorf("%+v", e)
			}
		}
	})
}
