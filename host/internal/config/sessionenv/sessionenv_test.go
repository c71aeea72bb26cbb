package sessionenv_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lazaret.dev/lazaret/host/internal/config/sessionenv"
)

// Cases 84 and 96: what goes inside, and nothing else.
func TestBuild(t *testing.T) {
	full := map[string]string{
		"TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "de_DE.UTF-8", "NO_COLOR": "1",
		"AWS_SECRET_ACCESS_KEY": "secret", "PATH": "/x", "HOME": "/home/u", "LC_ALL": "C", "KEY": "k", "EMPTY": "",
	}
	for _, tt := range []struct {
		name     string
		caller   map[string]string
		profile  map[string]string
		args     []sessionenv.Var
		want     []string
		warnings int
	}{
		{
			"caller's four", full, nil, nil,
			[]string{"COLORTERM=truecolor", "LANG=de_DE.UTF-8", "NO_COLOR=1", "TERM=xterm-256color"},
			0,
		},
		{
			"LANG unless set",
			map[string]string{"TERM": "dumb", "LANG": ""},
			nil, nil,
			[]string{"LANG=C.UTF-8", "TERM=dumb"},
			0,
		},
		{"nothing", nil, nil, nil, []string{"LANG=C.UTF-8"}, 0},
		{
			"references", full,
			map[string]string{"API": "env:KEY", "Lit": "eNv:KEY", "E": "env:EMPTY"},
			nil,
			[]string{"API=k", "COLORTERM=truecolor", "E=", "LANG=de_DE.UTF-8", "Lit=eNv:KEY", "NO_COLOR=1", "TERM=xterm-256color"},
			0,
		},
		{
			"a missing reference is left out", nil,
			map[string]string{"API": "env:NONE", "B": "1"},
			nil,
			[]string{"B=1", "LANG=C.UTF-8"},
			1,
		},
		{
			"a missing reference that is given", nil,
			map[string]string{"API": "env:NONE"},
			[]sessionenv.Var{{Name: "API", Value: "x"}},
			[]string{"API=x", "LANG=C.UTF-8"},
			0,
		},
		{
			"order of strength", full,
			map[string]string{"TERM": "vt100", "LANG": "C"},
			[]sessionenv.Var{{Name: "LANG", Value: "1"}, {Name: "LANG", Value: "env:KEY"}, {Name: "NO_COLOR", Value: ""}},
			[]string{"COLORTERM=truecolor", "LANG=env:KEY", "NO_COLOR=", "TERM=vt100"},
			0,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, warnings := sessionenv.Build(tt.profile, tt.args, func(k string) (string, bool) { v, ok := tt.caller[k]; return v, ok })
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			if len(warnings) != tt.warnings || (tt.warnings == 1 && !strings.Contains(warnings[0], "NONE")) {
				t.Errorf("warnings %q", warnings)
			}
		})
	}
}

func TestParseVar(t *testing.T) {
	for in, want := range map[string]sessionenv.Var{
		"A=b":   {Name: "A", Value: "b"},
		"A=":    {Name: "A"},
		"A=b=c": {Name: "A", Value: "b=c"},
		"a.b=1": {Name: "a.b", Value: "1"},
	} {
		if got, err := sessionenv.ParseVar(in); err != nil || got != want {
			t.Errorf("%q: got %v, %v", in, got, err)
		}
	}
	for in, says := range map[string]string{
		"A": "has no value", "=x": "needs a name", "": "no value", "LAZARET_X=1": "Lazaret's own", "LD_PRELOAD=x": "LD_PRELOAD", "A=b\x00": "NUL", "A\x00=b": "NUL",
	} {
		_, err := sessionenv.ParseVar(in)
		var e *sessionenv.Error
		if !errors.As(err, &e) || !strings.Contains(e.Msg, says) {
			t.Errorf("%q: error %v, want %q", in, err, says)
		}
	}
}

func TestCheckProfile(t *testing.T) {
	for _, tt := range []struct{ name, value, says string }{
		{"LAZARET_SESSION_ID", "x", "Lazaret's own"},
		{"LD_LIBRARY_PATH", "x", "LD_LIBRARY_PATH"},
		{"A=B", "x", "'='"},
		{"A\x00", "x", "NUL"},
		{"", "x", "needs a name"},
		{"A", "\x00", "NUL"},
		{"A", "env:", "needs a name"},
		{"A", "env:B=C", "'='"},
	} {
		if err := sessionenv.CheckProfile(tt.name, tt.value); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%q=%q: %v", tt.name, tt.value, err)
		}
	}
	for _, tt := range []struct{ name, value string }{{"A", "env:LD_PRELOAD"}, {"A", "x"}, {"MyVar", ""}, {"lazaret_x", ""}, {"OLD_X", ""}} {
		if err := sessionenv.CheckProfile(tt.name, tt.value); err != nil {
			t.Errorf("%q=%q: %v", tt.name, tt.value, err)
		}
	}
}
