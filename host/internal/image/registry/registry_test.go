package registry_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"

	"lazaret.dev/lazaret/host/internal/image/fault"
	"lazaret.dev/lazaret/host/internal/image/registry"
)

const body = `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json"}`

// serve answers every manifest, to everybody or to one user, with basic or
// bearer authentication.
func serve(t *testing.T, user, scheme string) (repo name.Repository) {
	t.Helper()
	var srv *httptest.Server
	srv = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/token" {
			if u, p, _ := r.BasicAuth(); u+":"+p != user {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			fmt.Fprint(w, `{"token":"ticket"}`)
			return
		}
		auth := r.Header.Get("Authorization")
		ok := user == "" || auth == "Basic "+base64.StdEncoding.EncodeToString([]byte(user)) && scheme == "Basic" ||
			auth == "Bearer ticket" && scheme == "Bearer"
		if !ok {
			w.Header().Set("WWW-Authenticate", scheme+` realm="`+srv.URL+`/token",service="s"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if strings.Contains(r.URL.Path, "/manifests/") {
			w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
			fmt.Fprint(w, body)
		}
	}))
	t.Cleanup(srv.Close)
	repo, err := name.NewRepository(strings.TrimPrefix(srv.URL, "http://") + "/app")
	if err != nil {
		t.Fatal(err)
	}
	return repo
}

// docker writes Docker's configuration, and helpers onto the PATH.
func docker(t *testing.T, config string, helpers map[string]string) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("DOCKER_CONFIG", dir)
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	for n, script := range helpers {
		if err := os.WriteFile(filepath.Join(dir, "docker-credential-"+n), []byte("#!/bin/sh\n"+script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
}

// pull asks for one manifest.
func pull(ctx context.Context, repo name.Repository) (warned []string, err error) {
	c, err := registry.Dial(ctx, repo, func(s string) { warned = append(warned, s) })
	if err != nil {
		return warned, err
	}
	defer c.Close()
	_, raw, err := c.Manifest(ctx, repo.Tag("v1"))
	if err == nil && string(raw) != body {
		err = fmt.Errorf("manifest %q", raw)
	}
	return warned, err
}

// Case 95
func TestPublicPullsSurviveBrokenCredentials(t *testing.T) {
	for name, c := range map[string]struct {
		config, script string
		warned         int
	}{
		"no helper":        {`{"credsStore":"desktop"}`, "", 1},
		"helper fails":     {`{"credsStore":"test"}`, "echo broken; exit 1", 1},
		"helper babbles":   {`{"credsStore":"test"}`, "echo hello", 1},
		"helper's name":    {`{"credsStore":"../test"}`, "", 1},
		"knows nothing":    {`{"credsStore":"test"}`, "echo credentials not found in native keychain; exit 1", 0},
		"broken file":      {`{`, "", 1},
		"nothing":          {`{}`, "", 0},
		"for another host": {`{"credHelpers":{"other.example":"desktop"}}`, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			repo := serve(t, "", "")
			docker(t, c.config, map[string]string{"test": c.script})
			warned, err := pull(context.Background(), repo)
			if err != nil || len(warned) != c.warned {
				t.Errorf("%v; warned: %q", err, warned)
			}
		})
	}
}

// Case 95: a helper that hangs is given up, and ended with all it started.
func TestHangingHelper(t *testing.T) {
	repo := serve(t, "", "")
	pidFile := filepath.Join(t.TempDir(), "pid")
	docker(t, `{"credsStore":"test"}`, map[string]string{"test": "sleep 1000 & echo $! >" + pidFile + "; wait"})
	start := time.Now()
	warned, err := pull(context.Background(), repo)
	if err != nil || len(warned) != 1 || !strings.Contains(warned[0], "no answer") || time.Since(start) > 30*time.Second {
		t.Errorf("%v after %v; warned: %q", err, time.Since(start), warned)
	}
	b, err := os.ReadFile(pidFile)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(5 * time.Second)
	for alive(pid) && time.Now().Before(deadline) {
		time.Sleep(10 * time.Millisecond)
	}
	if alive(pid) {
		t.Error("what the helper started is still there")
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	start = time.Now()
	if _, err := pull(ctx, repo); err == nil || time.Since(start) > 5*time.Second {
		t.Errorf("cancelled: %v after %v", err, time.Since(start))
	}
}

// alive counts zombies as dead.
func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(b), ") Z ")
}

// Case 95: the credentials that are there are used, in every form.
func TestCredentials(t *testing.T) {
	auth := base64.StdEncoding.EncodeToString([]byte("me:secret"))
	for name, c := range map[string]struct{ config, script string }{
		"auth":              {`{"auths":{"HOST":{"auth":"` + auth + `"}}}`, ""},
		"address":           {`{"auths":{"https://HOST/v1/":{"auth":"` + auth + `"}}}`, ""},
		"user and password": {`{"auths":{"HOST":{"username":"me","password":"secret"}}}`, ""},
		"helper":            {`{"credHelpers":{"HOST":"test"}}`, `test "$(cat)" = HOST && echo '{"Username":"me","Secret":"secret"}'`},
		"store":             {`{"credsStore":"test"}`, `echo '{"Username":"me","Secret":"secret"}'`},
		"store, then file":  {`{"credsStore":"none","auths":{"HOST":{"auth":"` + auth + `"}}}`, ""},
	} {
		for _, scheme := range []string{"Basic", "Bearer"} {
			t.Run(name+" "+scheme, func(t *testing.T) {
				repo := serve(t, "me:secret", scheme)
				fill := func(s string) string { return strings.ReplaceAll(s, "HOST", repo.RegistryStr()) }
				docker(t, fill(c.config), map[string]string{"test": fill(c.script)})
				if _, err := pull(context.Background(), repo); err != nil {
					t.Error(err)
				}
			})
		}
	}
	for _, scheme := range []string{"Basic", "Bearer"} {
		for _, config := range []string{`{}`, `{"auths":{"HOST":{"username":"me","password":"expired"}}}`} {
			repo := serve(t, "me:secret", scheme)
			docker(t, strings.ReplaceAll(config, "HOST", repo.RegistryStr()), nil)
			_, err := pull(context.Background(), repo)
			var hint interface{ Hint() string }
			if !fault.Has(err, fault.Auth) {
				t.Errorf("%s %s: %v", scheme, config, err)
			} else if hint = asHint(err); !strings.Contains(hint.Hint(), "docker login "+repo.RegistryStr()) {
				t.Errorf("hint %q", hint.Hint())
			}
		}
	}
}

func asHint(err error) interface{ Hint() string } {
	h, _ := err.(interface{ Hint() string })
	return h
}

// A registry's answers are bounded, its text is printable, and it does not
// redirect to local addresses.
func TestHostileRegistry(t *testing.T) {
	docker(t, `{}`, nil)
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		text    string
	}{
		"endless manifest": {func(w http.ResponseWriter, r *http.Request) {
			for range 100 {
				if _, err := w.Write(make([]byte, 1<<20)); err != nil {
					return
				}
			}
		}, "more than"},
		"long manifest": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "99999999")
			w.WriteHeader(http.StatusOK)
		}, "99999999 bytes"},
		"escapes": {func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"errors":[{"code":"MANIFEST_UNKNOWN","message":"\u001b[31mred\u202e"}]}`)
		}, `\x1b[31mred\u202e`},
	} {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.Contains(r.URL.Path, "/manifests/") {
					c.handler(w, r)
				}
			}))
			defer srv.Close()
			repo, err := nameOf(srv.URL)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := pull(context.Background(), repo); err == nil || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%v", err)
			}
		})
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/blobs/") {
			http.Redirect(w, r, "http://127.0.0.2:9/secret", http.StatusFound)
		}
	}))
	defer srv.Close()
	repo, err := nameOf(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	c, err := registry.Dial(context.Background(), repo, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	b, _, err := c.Blob(context.Background(), "sha256:"+strings.Repeat("0", 64), 0)
	if err == nil {
		_, _ = io.Copy(io.Discard, b)
		b.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "local address") {
		t.Errorf("redirect: %v", err)
	}
}

func nameOf(url string) (name.Repository, error) {
	return name.NewRepository(strings.TrimPrefix(url, "http://") + "/app")
}
