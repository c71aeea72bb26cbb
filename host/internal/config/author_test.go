package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lazaret.dev/lazaret/host/internal/config"
	"lazaret.dev/lazaret/host/internal/paths"
)

// What others can write decides nothing.
func TestConfigurationOfOthers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.toml")
	if err := os.WriteFile(file, []byte("[profiles.claude]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	load := func() error {
		_, err := config.Load(config.Options{Host: paths.Current(), File: file})
		return err
	}
	for mode, refused := range map[os.FileMode]bool{0o600: false, 0o644: false, 0o664: false, 0o666: true, 0o602: true} {
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		if err := load(); (err != nil) != refused || refused && !strings.Contains(err.Error(), "lets every user write it") {
			t.Errorf("%#o: %v", mode, err)
		}
	}
	if os.Getuid() != 0 {
		return // only root can give a file away
	}
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(file, 12345, 0); err != nil {
		t.Fatal(err)
	}
	if err := load(); err == nil || !strings.Contains(err.Error(), "belongs to uid 12345") {
		t.Errorf("of another user: %v", err)
	}
}
