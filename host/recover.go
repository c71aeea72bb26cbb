package host

import (
	"context"
	"os"

	"golang.org/x/sys/unix"

	"lazaret.dev/lazaret/host/internal/domains"
	"lazaret.dev/lazaret/host/internal/paths"
	"lazaret.dev/lazaret/host/internal/resolve"
)

// Domains lists the Domains of the data root, by ID, with what each is of. It
// takes no lock.
func Domains(configFile string) (map[string]string, error) {
	root, err := dataRoot(configFile)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, d := range domains.Known(root) {
		out[d.ID] = d.Profile + " " + plain(d.Workspace)
	}
	return out, nil
}

func dataRoot(configFile string) (string, error) {
	cfg, err := resolve.Load(configFile)
	if err != nil {
		return "", err
	}
	return cfg.DataRoot()
}

// Recover clears away what dead generations of Domains have left, and starts
// nothing. A Domain is named by its ID or the beginning of one; an empty name is
// those of the current directory. No workspace is needed: it may have been moved
// or removed.
func Recover(ctx context.Context, configFile, name string, ui UI) error {
	if os.Getuid() == 0 {
		return errRoot
	}
	unix.Umask(0o077) // as a coordinator's, which this process is for once
	root, err := dataRoot(configFile)
	if err != nil {
		return err
	}
	chosen, err := domains.Choose(domains.Known(root), name)
	if err != nil {
		return err
	}
	data, err := paths.Current().OpenDataRoot(root)
	if err != nil {
		return err
	}
	ctx, early := catchInterrupt(ctx)
	defer early.release()
	for _, d := range chosen {
		err := domains.Recover(ctx, data, d, ui.Notice)
		if ctx.Err() != nil {
			return errInterrupted // what is done is on record
		}
		if err != nil {
			return err
		}
	}
	return nil
}
