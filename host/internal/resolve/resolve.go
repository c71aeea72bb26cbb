// Package resolve turns what a command line says into a Domain, and finds out
// whether this host can run it: the part that commands which concern one Domain
// have in common. It changes nothing. It runs in the CLI.
package resolve

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"lazaret.dev/lazaret/host/internal/config"
	"lazaret.dev/lazaret/host/internal/hostfacts"
	"lazaret.dev/lazaret/host/internal/paths"
)

// Executable is this program's path with every link resolved, as its helpers
// lie beside it.
func Executable() (string, error) {
	exe, err := os.Executable()
	if err == nil {
		exe, err = filepath.EvalSymlinks(exe)
	}
	if err != nil {
		return "", fmt.Errorf("cannot find the running program: %w", err)
	}
	return exe, nil
}

// Load reads the configuration as every command does.
func Load(file string) (*config.Config, error) {
	exe, err := Executable()
	if err != nil {
		return nil, err
	}
	return config.Load(config.Options{
		File: file, Host: paths.Current(), Image: config.DefaultImage(filepath.Dir(filepath.Dir(exe))),
	})
}

// noDirectory reports a current directory that is gone.
type noDirectory struct{ cause error }

func (e *noDirectory) Error() string {
	return "cannot find the current directory: " + e.cause.Error()
}
func (e *noDirectory) Unwrap() error { return e.cause }

// Hint says what to do.
func (e *noDirectory) Hint() string {
	return "change to a directory that exists, or name one with --workspace DIR"
}

// Domain resolves the Domain of a profile, "" for the default one, and a
// workspace, "" for the current directory.
func Domain(configFile, profile, workspace string) (*config.Domain, error) {
	cfg, err := Load(configFile)
	if err != nil {
		return nil, err
	}
	if profile, err = cfg.Select(profile); err != nil {
		return nil, err
	}
	if workspace == "" {
		if workspace, err = os.Getwd(); err != nil {
			return nil, &noDirectory{err}
		}
	}
	if workspace, err = filepath.Abs(workspace); err != nil {
		return nil, fmt.Errorf("cannot find the workspace: %w", err)
	}
	return cfg.Resolve(profile, workspace)
}

// Facts looks at the host for what the Domain needs.
func Facts(d *config.Domain) (hostfacts.Env, hostfacts.Facts, error) {
	env, err := hostfacts.Current(d.DataRoot)
	if err != nil {
		return env, hostfacts.Facts{}, err
	}
	env.Untrusted = untrusted(d, env)
	facts, err := hostfacts.Quick(context.Background(), env)
	return env, facts, err
}

// untrusted are the directories on the host in which this sandbox, or another
// Domain's, can write.
func untrusted(d *config.Domain, env hostfacts.Env) []string {
	out := []string{d.DataRoot, d.Workspace.Path}
	if env.OwnPath() {
		out = append(out, paths.Current().Workspaces(d.DataRoot)...)
	}
	for _, v := range d.Volumes {
		if v.Mode == config.VolumeRW {
			out = append(out, v.Host)
		}
	}
	return out
}
