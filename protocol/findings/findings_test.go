package findings_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"lazaret.dev/lazaret/protocol/findings"
)

// A report is bounded whatever was found, and says how much it leaves out.
func TestFit(t *testing.T) {
	var all []findings.Finding
	for range 2000 {
		all = append(all, findings.Finding{Kind: findings.Autorun, Path: bytes.Repeat([]byte{0xff}, 9000), Note: []byte("direnv")})
	}
	r := findings.Fit(all, 3)
	b, err := json.Marshal(r)
	if err != nil || len(b) > findings.MaxSize+64 {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	if len(r.Findings) == 0 || len(r.Findings)+r.More != len(all)+3 || len(r.Findings[0].Path) != findings.MaxText {
		t.Errorf("%d findings, %d more", len(r.Findings), r.More)
	}
	if len(all[0].Path) != 9000 || all[0].Path[findings.MaxText-1] != 0xff {
		t.Error("the findings themselves were changed")
	}
	var got findings.Report
	if err := json.Unmarshal(b, &got); err != nil || len(got.Findings) != len(r.Findings) {
		t.Errorf("decoded: %d, %v", len(got.Findings), err)
	}
	if err := json.Unmarshal([]byte(`{"findings":[{"kind":"surprise","path":""}]}`), &got); err == nil {
		t.Error("an unknown kind was accepted")
	}
	if empty := findings.Fit(nil, 0); !empty.Empty() || r.Empty() {
		t.Error("Empty")
	}
}
