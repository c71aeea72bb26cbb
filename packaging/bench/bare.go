package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/klauspost/compress/zstd"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// bare is runsc as a user without Lazaret would call it, on the base image's
// files.
type bare struct {
	runsc  string
	root   string // the base image's files
	bundle string
	state  string
	count  int
}

// newBare unpacks the base image once; the files belong to the user.
func newBare(ctx context.Context, tree, state string) (*bare, error) {
	b := &bare{
		runsc:  filepath.Join(tree, "libexec/lazaret/runsc"),
		root:   filepath.Join(state, "root"),
		bundle: filepath.Join(state, "bundle"),
		state:  filepath.Join(state, "runsc"),
	}
	for _, dir := range []string{b.bundle, b.state} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
	}
	if _, err := os.Stat(b.root); errors.Is(err, fs.ErrNotExist) {
		if err := b.unpack(ctx, filepath.Join(tree, "image")); err != nil {
			return nil, fmt.Errorf("unpack the base image: %w", err)
		}
	}
	return b, nil
}

func (b *bare) unpack(ctx context.Context, layout string) error {
	var index v1.Index
	if err := readJSON(filepath.Join(layout, v1.ImageIndexFile), &index); err != nil {
		return err
	}
	if len(index.Manifests) != 1 {
		return fmt.Errorf("%s holds %d images", layout, len(index.Manifests))
	}
	blob := func(d v1.Descriptor) string {
		return filepath.Join(layout, v1.ImageBlobsDir, d.Digest.Algorithm().String(), d.Digest.Encoded())
	}
	var manifest v1.Manifest
	if err := readJSON(blob(index.Manifests[0]), &manifest); err != nil {
		return err
	}
	part := b.root + ".part"
	if err := os.MkdirAll(part, 0o755); err != nil {
		return err
	}
	for _, l := range manifest.Layers {
		f, err := os.Open(blob(l))
		if err != nil {
			return err
		}
		z, err := zstd.NewReader(f)
		if err != nil {
			return errors.Join(err, f.Close())
		}
		cmd := exec.CommandContext(ctx, "tar", "-x", "--no-same-owner", "-C", part, "-f", "-")
		cmd.Stdin = z
		out, err := cmd.CombinedOutput()
		z.Close()
		if err := errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("tar: %w: %s", err, out)
		}
	}
	return os.Rename(part, b.root)
}

func readJSON(name string, v any) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// configure writes the bundle's configuration: runsc's own template with the
// root and the command in place.
func (b *bare) configure(argv ...string) error {
	mount := func(dest, kind string) map[string]any {
		return map[string]any{"destination": dest, "type": kind, "source": kind}
	}
	namespaces := make([]map[string]string, 0, 5)
	for _, kind := range []string{"pid", "ipc", "uts", "mount", "network"} {
		namespaces = append(namespaces, map[string]string{"type": kind})
	}
	config := map[string]any{
		"ociVersion": "1.0.0",
		"process": map[string]any{
			"user": map[string]any{"uid": 0, "gid": 0},
			"args": argv,
			"env":  []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
			"cwd":  "/",
		},
		"root":     map[string]any{"path": b.root, "readonly": false},
		"hostname": "bare",
		"mounts":   []any{mount("/proc", "proc"), mount("/dev", "tmpfs"), mount("/sys", "sysfs")},
		"linux":    map[string]any{"namespaces": namespaces},
	}
	data, err := json.Marshal(config)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(b.bundle, "config.json"), data, 0o644)
}

func (b *bare) command(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, b.runsc, append([]string{
		"--root", b.state, "--rootless", "--ignore-cgroups", "--network=none",
	}, args...)...)
}

func (b *bare) id() string {
	b.count++
	return "bench-" + strconv.Itoa(os.Getpid()) + "-" + strconv.Itoa(b.count)
}

// run starts a sandbox for `true` and waits for its end.
func (b *bare) run(ctx context.Context) (time.Duration, error) {
	if err := b.configure("true"); err != nil {
		return 0, err
	}
	return timed(b.command(ctx, "run", "--bundle", b.bundle, b.id()))
}

// hold keeps a sandbox running, for exec, until the returned function is called.
func (b *bare) hold(ctx context.Context) (func(), error) {
	if err := b.configure("sleep", "3600"); err != nil {
		return nil, err
	}
	id := b.id()
	cmd := b.command(ctx, "run", "--bundle", b.bundle, id)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	end := func() {
		_ = b.command(context.WithoutCancel(ctx), "kill", id, "KILL").Run()
		_ = cmd.Wait()
	}
	if err := eventually(ctx, func() error { _, err := b.exec(ctx); return err }); err != nil {
		end()
		return nil, err
	}
	return end, nil
}

// exec runs `true` in the sandbox that hold keeps: the newest.
func (b *bare) exec(ctx context.Context) (time.Duration, error) {
	return timed(b.command(ctx, "exec", "bench-"+strconv.Itoa(os.Getpid())+"-"+strconv.Itoa(b.count), "true"))
}

// timed runs a command that must succeed and says how long it took.
func timed(cmd *exec.Cmd) (time.Duration, error) {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	start := time.Now()
	err := cmd.Run()
	d := time.Since(start)
	if err != nil {
		return 0, fmt.Errorf("%s: %w: %s", cmd, err, bytes.TrimSpace(out.Bytes()))
	}
	return d, nil
}

// eventually tries f for up to ten seconds and returns its last error.
func eventually(ctx context.Context, f func() error) error {
	deadline := time.Now().Add(10 * time.Second)
	for {
		err := f()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}
