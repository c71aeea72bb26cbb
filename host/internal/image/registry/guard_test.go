package registry

import (
	"net/http"
	"strings"
	"testing"
)

// recorder answers every request without sending it.
type recorder struct{ urls []string }

func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	r.urls = append(r.urls, req.URL.String())
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: req}, nil
}

// Plain http is for this machine; elsewhere it is refused before anything is
// sent, whatever the client library takes for local.
func TestPlainHTTP(t *testing.T) {
	for url, allowed := range map[string]bool{
		"http://127.0.0.1:5000/v2/": true, "http://localhost:5000/v2/": true, "http://[::1]:5000/v2/": true, "http://127.9.9.9/v2/": true,
		"https://registry.example/v2/": true, "https://10.1.1.1/v2/": true,
		"http://10.1.1.1:5000/v2/": false, "http://192.168.1.1/v2/": false, "http://registry.local/v2/": false,
		"http://registry.example/token": false, "http://localhost.example/v2/": false, "http://127.0.0.1.example/v2/": false,
	} {
		req, err := http.NewRequest(http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		next := &recorder{}
		resp, err := (&guard{next}).RoundTrip(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		if allowed != (err == nil) || allowed != (len(next.urls) == 1) {
			t.Errorf("%s: %v, sent %q", url, err, next.urls)
		}
		if !allowed && !strings.Contains(err.Error(), "plain http") {
			t.Errorf("%s: %v", url, err)
		}
	}
}
