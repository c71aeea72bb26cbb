package main

import (
	"errors"
	"strings"
	"testing"
)

func report(events string, err error) (string, bool) {
	var w strings.Builder
	ok := Report(&w, strings.NewReader(events)).Finish(&w, err)
	return w.String(), ok
}

func TestReport(t *testing.T) {
	t.Parallel()
	failure := errors.New("exit status 1")
	for _, tc := range []struct {
		name, events string
		err          error
		want         []string
		ok           bool
	}{
		{
			name: "passed and skipped",
			events: `{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestB","Output":"=== RUN   TestB\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"    b_test.go:3: gate runsc: no\n"}
{"Action":"skip","Package":"p","Test":"TestB"}
{"Action":"pass","Package":"p","Elapsed":0.5}
`,
			want: []string{"ok  \tp\t0.500s\n", "p TestB: b_test.go:3: gate runsc: no", "\n1 passed, 0 failed, 1 skipped\n"},
			ok:   true,
		},
		{
			name: "failed test with its output",
			events: `{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestB","Output":"    why\n"}
{"Action":"fail","Package":"p","Test":"TestB"}
{"Action":"fail","Package":"p"}
`,
			err:  failure,
			want: []string{"    why\n", "FAIL\tp", "\n1 passed, 1 failed, 0 skipped\n"},
		},
		{
			name:   "package that does not build",
			events: `{"Action":"build-output","ImportPath":"q","Output":"q.go:1: nonsense\n"}` + "\n" + `{"Action":"fail","Package":"q"}` + "\n",
			err:    failure,
			want:   []string{"q.go:1: nonsense\n", "\n0 passed, 1 failed, 0 skipped\n"},
		},
		{
			name:   "a crash between the lines",
			events: "no json\n" + `{"Action":"pass","Package":"p","Test":"TestA"}` + "\n",
			err:    failure,
			want:   []string{"no json\n", "\n1 passed, 1 failed, 0 skipped\n"},
		},
		{
			name: "traces",
			events: `{"Action":"output","Package":"p","Test":"TestA","Output":"    c.go:1: conformance: 2 traces, 36 steps\n"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestB","Output":"    c.go:1: conformance: 17 traces, 306 steps\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"    c.go:1: conformance: none\n"}
{"Action":"pass","Package":"p","Test":"TestB"}
`,
			want: []string{"\n19 traces of coordinators replayed through the protocol, 342 steps\n", "\n2 passed, 0 failed, 0 skipped\n"},
			ok:   true,
		},
		{name: "nothing tested", want: []string{"\n0 passed, 0 failed, 0 skipped\n"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, ok := report(tc.events, tc.err)
			if ok != tc.ok {
				t.Errorf("success = %v, want %v", ok, tc.ok)
			}
			for _, want := range tc.want {
				if !strings.Contains(got, want) {
					t.Errorf("report lacks %q:\n%s", want, got)
				}
			}
		})
	}
}
