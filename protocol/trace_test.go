package protocol_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lazaret.dev/lazaret/protocol"
)

var recordTexts = []string{
	`{"generation":"g1"}`,
	`{"generation":"g1","intents":{"host":"Owned","anchor":"Intended"},"lease":"lower"}`,
}

// What a dead generation has left survives its encoding, and nothing else is
// read as such.
func TestUnmarshalRecord(t *testing.T) {
	for _, text := range recordTexts {
		if _, err := protocol.UnmarshalRecord([]byte(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{
		"", "null", "{}", `"g1"`, `{"generation":""}`, `{"generation":1}`, `{"generation":"g1","leases":"x"}`,
		`{"generation":"g1","intents":{"guest":"Owned"}}`, `{"generation":"g1","intents":{"host":"owned?"}}`,
		`{"generation":"g1","intents":{"host":"Cleaning"}}`, `{"generation":"g1","intents":{"host":""}}`,
		`{"generation":"g1"}{}`, `{"generation":"g1"} x`,
	} {
		if r, err := protocol.UnmarshalRecord([]byte(text)); err == nil {
			t.Errorf("%s is read as %+v", text, r)
		}
	}
	if e, err := protocol.UnmarshalEvent("Closed", []byte(`{"Session":"a"}{}`)); err == nil {
		t.Errorf("an event and more is read as %v", e)
	}
}

// A record that is read is one that a recovery can begin with, and is written
// as it was read.
func FuzzUnmarshalRecord(f *testing.F) {
	for _, text := range recordTexts {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := protocol.UnmarshalRecord(b)
		if err != nil {
			return
		}
		if _, _, err := protocol.Next(protocol.Left(r), protocol.Recover{}); err != nil {
			t.Errorf("%+v: %v", r, err)
		}
		again, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		got, err := protocol.UnmarshalRecord(again)
		if diff := cmp.Diff(r.Intents, got.Intents); err != nil || got.Generation != r.Generation || got.Lease != r.Lease || len(r.Intents) > 0 && diff != "" {
			t.Errorf("%s: %+v, %v", again, got, err)
		}
	})
}
