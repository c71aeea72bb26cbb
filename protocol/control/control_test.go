package control_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"lazaret.dev/lazaret/protocol/control"
)

func TestCredit(t *testing.T) {
	for _, n := range []int{0, 1, control.Window} {
		if got, err := control.DecodeCredit(control.EncodeCredit(n)); got != n || err != nil {
			t.Errorf("%d: %d, %v", n, got, err)
		}
	}
	for _, b := range [][]byte{nil, {1, 2, 3}, {1, 2, 3, 4, 5}, control.EncodeCredit(control.Window + 1), {0xff, 0xff, 0xff, 0xff}} {
		if n, err := control.DecodeCredit(b); err == nil {
			t.Errorf("%v: accepted as %d", b, n)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	for _, b := range []string{
		``, `{`, `[]`, `{"name":"INT"}{}`, `{"name":"INT"}x`, `{"name":"KILL"}`, `{"name":"int"}`, `{"name":9}`, `{"name":"INT","pid":1}`,
	} {
		var s control.Signal
		if err := control.Decode([]byte(b), &s); err == nil {
			t.Errorf("%q: accepted as %+v", b, s)
		}
	}
	for _, b := range []string{`{"rows":70000,"cols":1}`, `{"rows":-1,"cols":1}`, `{"rows":1.5,"cols":1}`, `{"rows":"1","cols":1}`} {
		var s control.Size
		if err := control.Decode([]byte(b), &s); err == nil {
			t.Errorf("%q: accepted as %+v", b, s)
		}
	}
	var r control.Refused
	if err := control.Decode([]byte(`{"why":"because"}`), &r); err == nil {
		t.Errorf("an unknown refusal is accepted as %+v", r)
	}
}

// fuzzStable: what is accepted means the same when it is written again.
func fuzzStable[T any](f *testing.F, seeds ...string) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var first, second T
		if control.Decode(b, &first) != nil {
			return
		}
		again, err := json.Marshal(first)
		if err != nil {
			t.Fatal(err)
		}
		if err := control.Decode(again, &second); err != nil {
			t.Fatalf("%q, written again as %q: %v", b, again, err)
		}
		if diff := cmp.Diff(first, second, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("%q: %s", b, diff)
		}
	})
}

func FuzzEnrollRequest(f *testing.F) {
	fuzzStable[control.EnrollRequest](f, `{"version":1,"public_key":"AAAA"}`, `{"version":1}{}`, "\x00")
}

func FuzzEnrollReply(f *testing.F) {
	fuzzStable[control.EnrollReply](f, `{"version":1,"error":"no"}`, `{"version":1,"certificate":"AA==","anchor":"AA==","coordinator":"c","generation":"g"}`)
}

func FuzzOpenRequest(f *testing.F) {
	fuzzStable[control.OpenRequest](f, `{"fingerprint":"f","shape":{"a":"b"},"argv":["x"],"env":["A=b"],"tty":true,"size":{"rows":1,"cols":2},"quiet":false}`)
}

func FuzzExit(f *testing.F) {
	fuzzStable[control.Exit](f, `{"status":7,"failed":true,"reason":"r","log":"/l"}`)
}
