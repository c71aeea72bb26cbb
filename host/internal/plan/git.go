package plan

import (
	"context"
	"os"

	"lazaret.dev/lazaret/host/internal/config"
	"lazaret.dev/lazaret/host/internal/generation"
	"lazaret.dev/lazaret/host/internal/gitfacts"
	"lazaret.dev/lazaret/host/internal/paths"
)

// Git reads what Git on this host is told, and by which files. It fails when
// the sandbox could write one of them, and comes before anything that takes
// long.
func Git(ctx context.Context, req *generation.Request, warn func(text string)) (*gitfacts.Facts, error) {
	d := &req.Domain
	untrusted := []string{d.DataRoot}
	for _, v := range d.Volumes {
		if v.Mode == config.VolumeRW {
			untrusted = append(untrusted, v.Host)
		}
	}
	f, err := gitfacts.Gather(ctx, gitfacts.Options{
		Git: req.Tools.Git, Host: paths.Current(), SearchPath: os.Getenv("PATH"),
		Workspace: d.Workspace.Path, Untrusted: untrusted, ConfigGate: d.GitConfigGate,
	})
	if err != nil {
		return nil, err
	}
	for _, w := range f.Warnings {
		warn(w)
	}
	return f, nil
}
