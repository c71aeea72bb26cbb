package isolation_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"lazaret.dev/lazaret/protocol/isolation"
)

// An answer is bounded, says how much it leaves out, and what is left out counts
// in its digest.
func TestFit(t *testing.T) {
	var a isolation.Answer
	for i := range 5000 {
		a.Shared = append(a.Shared, fmt.Appendf(nil, "dir/%d", i))
		a.Own = append(a.Own, isolation.Entry{Path: fmt.Appendf(nil, "own/%d", i)})
	}
	a.Relaxed = []isolation.Relaxation{{File: []byte(".gitignore"), Lines: [][]byte{bytes.Repeat([]byte("x"), 9000)}}}
	whole, err := a.Sum()
	if err != nil {
		t.Fatal(err)
	}
	b := a
	b.Shared = append([][]byte(nil), a.Shared...)
	b.Shared[4999] = []byte("dir/other")
	if other, err := b.Sum(); err != nil || bytes.Equal(whole, other) {
		t.Errorf("another review has the same digest, %v", err)
	}
	a.Fit()
	text, err := json.Marshal(a)
	if err != nil || len(text) > isolation.MaxSize+4<<10 {
		t.Fatalf("%d bytes, %v", len(text), err)
	}
	if n := len(a.Own) + len(a.Shared) + len(a.Relaxed) + a.More; n != 10001 || len(a.Own) == 0 || len(a.Relaxed) != 0 {
		t.Errorf("%d in all, %d own, %d relaxed, %d more", n, len(a.Own), len(a.Relaxed), a.More)
	}
	for _, text := range []string{`{"verb":"surprise"}`, `{"verb":""}`} {
		var r isolation.Request
		if err := json.Unmarshal([]byte(text), &r); err == nil {
			t.Errorf("%s was accepted", text)
		}
	}
}
