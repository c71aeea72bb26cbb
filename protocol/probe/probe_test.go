package probe_test

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"lazaret.dev/lazaret/protocol/probe"
)

func TestDecodeRefuses(t *testing.T) {
	for name, tc := range map[string]struct{ request, result string }{
		"empty":          {"", ""},
		"unknown member": {`{"denied":[],"port":1}`, `{"denied":[],"ok":true}`},
		"trailing data":  {`{"denied":[]}{}`, `{"denied":[],"dns_ok":true}{}`},
		"IPv6":           {`{"denied":["[fd00::1]:9"]}`, ""},
		"IPv6 source":    {`{"denied":[],"source":"fd00::1"}`, ""},
		"timeout":        {`{"denied":[],"timeout_ms":-1}`, ""},
		"verdict":        {"", `{"denied":[{"addr":"10.0.0.1:9","verdict":"fine"}]}`},
		"no verdict":     {"", `{"denied":[{"addr":"10.0.0.1:9"}]}`},
		"no address":     {"", `{"denied":[{"verdict":"closed"}]}`},
		"too large":      {strings.Repeat(" ", probe.MaxRequest) + `{}`, strings.Repeat(" ", probe.MaxResult) + `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := probe.DecodeRequest(strings.NewReader(tc.request)); err == nil && (tc.request != "" || name == "empty") {
				t.Error("the request is accepted")
			}
			if _, err := probe.DecodeResult(strings.NewReader(tc.result)); err == nil && (tc.result != "" || name == "empty") {
				t.Error("the result is accepted")
			}
		})
	}
}

func TestRequestRoundTrip(t *testing.T) {
	for _, want := range []probe.Request{
		{Denied: []netip.AddrPort{netip.MustParseAddrPort("10.0.0.1:9")}, TimeoutMS: 3000},
		{
			Denied: []netip.AddrPort{netip.MustParseAddrPort("10.0.0.1:9")}, Source: netip.MustParseAddr("10.0.2.100"),
			DNS: netip.MustParseAddrPort("10.0.2.3:53"), TimeoutMS: 1,
		},
	} {
		b, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := probe.DecodeRequest(bytes.NewReader(b))
		if err != nil || !reflect.DeepEqual(*got, want) {
			t.Errorf("%s: got %+v, %v", b, got, err)
		}
	}
}

func FuzzDecodeResult(f *testing.F) {
	f.Add([]byte(`{"denied":[{"addr":"10.0.0.1:9","verdict":"closed"}],"dns_ok":true}`))
	f.Add([]byte(`{"denied":[{"addr":"10.0.0.1:9","verdict":"reached","detail":"\u001b[2J"}],"dns_ok":false,"dns_err":"x"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		res, err := probe.DecodeResult(bytes.NewReader(b))
		if err != nil {
			return
		}
		for _, d := range res.Denied {
			if d.Verdict != probe.Closed && d.Verdict != probe.RouteOpen && d.Verdict != probe.Reached {
				t.Fatalf("verdict %q", d.Verdict)
			}
		}
		again, err := json.Marshal(res)
		if err != nil {
			t.Fatal(err)
		}
		same, err := probe.DecodeResult(bytes.NewReader(again))
		if err != nil || !reflect.DeepEqual(res, same) {
			t.Fatalf("%s became %s (%v)", b, again, err)
		}
	})
}

func FuzzDecodeRequest(f *testing.F) {
	f.Add([]byte(`{"denied":["10.0.0.1:9"],"dns":"10.0.2.3:53","timeout_ms":10}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		req, err := probe.DecodeRequest(bytes.NewReader(b))
		if err != nil {
			return
		}
		for _, a := range req.Denied {
			if !a.Addr().Is4() {
				t.Fatalf("%s is not IPv4", a)
			}
		}
	})
}
