package paths

import (
	"os"
	"os/user"
	"path/filepath"
	"strconv"
)

// Host is the user's environment as far as places are concerned. Its fields
// are values, so that a test can make a host of its own.
type Host struct {
	Getenv  func(string) string
	UID     int
	TempDir string // where the fallback runtime directory is made
}

// Current returns the environment of this process.
func Current() Host {
	return Host{Getenv: os.Getenv, UID: os.Getuid(), TempDir: "/tmp"}
}

// Home returns the user's home directory: $HOME if it is an absolute path,
// else the one in the user database.
func (h Host) Home() (string, error) {
	if d := h.Getenv("HOME"); filepath.IsAbs(d) {
		return filepath.Clean(d), nil
	}
	u, err := user.LookupId(strconv.Itoa(h.UID))
	if err == nil && filepath.IsAbs(u.HomeDir) {
		return filepath.Clean(u.HomeDir), nil
	}
	return "", &Error{
		Kind: KindHome,
		Msg:  "cannot find your home directory: HOME is not an absolute path and the user database has no entry for uid " + strconv.Itoa(h.UID),
		Fix:  "set HOME",
		Err:  err,
	}
}

// ConfigDir returns Lazaret's configuration directory, which need not exist:
// $XDG_CONFIG_HOME/lazaret, or ~/.config/lazaret where that is not an absolute
// path.
func (h Host) ConfigDir() (string, error) {
	if d := h.Getenv("XDG_CONFIG_HOME"); filepath.IsAbs(d) {
		return filepath.Join(d, "lazaret"), nil
	}
	home, err := h.Home()
	if err != nil {
		return "", err
	}
	return filepath.Join(home, ".config", "lazaret"), nil
}
