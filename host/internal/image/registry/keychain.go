package registry

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
)

const (
	helperTimeout = 10 * time.Second
	maxDockerFile = 1 << 20
)

// keychain looks credentials up as Docker does, in its configuration and with
// its credential helpers, with one difference: what is broken there is said
// once and passed over, since most images need no credentials.
type keychain struct{ warn func(string) }

// dockerConfig is what is read of Docker's configuration file.
type dockerConfig struct {
	Auths       map[string]authn.AuthConfig `json:"auths"`
	CredHelpers map[string]string           `json:"credHelpers"`
	CredsStore  string                      `json:"credsStore"`
}

// resolve returns the credentials for a registry's host; anonymous if there are
// none. It fails only when ctx ends.
func (k keychain) resolve(ctx context.Context, host string) (authn.Authenticator, error) {
	cfg, err := readDockerConfig()
	if err != nil {
		k.warn("registry credentials are not used: " + err.Error())
		return authn.Anonymous, nil //nolint:nilerr // a broken file must not break public pulls (case 95)
	}
	keys := []string{host}
	if host == name.DefaultRegistry {
		keys = []string{authn.DefaultAuthKey, host, "docker.io"}
	}
	var helper string
	for _, key := range keys {
		helper = cmp.Or(helper, cfg.CredHelpers[key])
	}
	if helper = cmp.Or(helper, cfg.CredsStore); helper != "" {
		auth, err := askHelper(ctx, helper, keys[0])
		switch {
		case ctx.Err() != nil:
			return nil, fmt.Errorf("ask credential helper %s: %w", helper, context.Cause(ctx))
		case err != nil:
			k.warn(fmt.Sprintf("credential helper %q failed for %s: %v", helper, host, err))
		case auth != nil:
			return authn.FromConfig(*auth), nil
		}
	}
	for _, key := range keys {
		for entry, auth := range cfg.Auths {
			if hostOf(entry) == hostOf(key) && auth != (authn.AuthConfig{}) {
				return authn.FromConfig(auth), nil
			}
		}
	}
	return authn.Anonymous, nil
}

// hostOf reduces a key of the configuration, which may be an address, to its
// host.
func hostOf(key string) string {
	key = strings.TrimPrefix(strings.TrimPrefix(key, "https://"), "http://")
	host, _, _ := strings.Cut(key, "/")
	return host
}

// readDockerConfig reads Docker's file, else the one that Podman writes in the
// same format.
func readDockerConfig() (*dockerConfig, error) {
	home, _ := os.UserHomeDir()
	var files []string
	if d := os.Getenv("DOCKER_CONFIG"); d != "" {
		files = append(files, filepath.Join(d, "config.json"))
	} else if home != "" {
		files = append(files, filepath.Join(home, ".docker", "config.json"))
	}
	if d := os.Getenv("XDG_RUNTIME_DIR"); d != "" {
		files = append(files, filepath.Join(d, "containers", "auth.json"))
	}
	for _, file := range files {
		f, err := os.Open(file)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			continue
		}
		if err != nil {
			return nil, err
		}
		defer f.Close()
		var cfg dockerConfig
		if err := json.NewDecoder(io.LimitReader(f, maxDockerFile)).Decode(&cfg); err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		return &cfg, nil
	}
	return &dockerConfig{}, nil
}

// askHelper runs a credential helper. It returns nil when the helper knows no
// credentials. The helper and all that it started is ended when it takes too
// long.
func askHelper(ctx context.Context, helper, server string) (*authn.AuthConfig, error) {
	if strings.ContainsAny(helper, "/\x00") {
		return nil, errors.New("its name is malformed")
	}
	ctx, cancel := context.WithTimeoutCause(ctx, helperTimeout, fmt.Errorf("it gave no answer within %v", helperTimeout))
	defer cancel()
	cmd := exec.CommandContext(ctx, "docker-credential-"+helper, "get")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	cmd.Stdin = strings.NewReader(server)
	var out bytes.Buffer
	cmd.Stdout = &limitedWriter{w: &out, left: maxDockerFile}
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if strings.Contains(out.String(), "credentials not found") {
			return nil, nil
		}
		return nil, err
	}
	var got struct{ Username, Secret string }
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		return nil, errors.New("its answer is malformed")
	}
	if got.Username == "<token>" {
		return &authn.AuthConfig{IdentityToken: got.Secret}, nil
	}
	return &authn.AuthConfig{Username: got.Username, Password: got.Secret}, nil
}

type limitedWriter struct {
	w    io.Writer
	left int
}

// Write implements io.Writer.
func (l *limitedWriter) Write(p []byte) (int, error) {
	if l.left -= len(p); l.left < 0 {
		return 0, errors.New("too much output")
	}
	return l.w.Write(p)
}
