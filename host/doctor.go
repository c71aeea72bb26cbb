package host

import (
	"context"
	"io"

	"lazaret.dev/lazaret/host/internal/config/profileview"
	"lazaret.dev/lazaret/host/internal/hostfacts"
	"lazaret.dev/lazaret/host/internal/paths"
	"lazaret.dev/lazaret/host/internal/resolve"
)

// Doctor checks the host and writes the report. It returns the command's exit
// status. A configuration that cannot be read does not keep it from checking
// the rest.
func Doctor(ctx context.Context, configFile string, w io.Writer, asJSON bool) (int, error) {
	dataRoot := ""
	configured := hostfacts.Check{ID: "config", Name: "configuration", Status: hostfacts.OK}
	cfg, err := resolve.Load(configFile)
	if err == nil {
		configured.Found = cfg.Path()
		dataRoot, err = cfg.DataRoot()
	}
	if err != nil {
		configured.Status, configured.Why, configured.Fix = hostfacts.Block, err.Error(), hintOf(err)
	} else if configured.Found == "" {
		configured.Found = "none; the built-in profile"
	}
	env, err := hostfacts.Current(dataRoot)
	if err != nil {
		return 0, err
	}
	if dataRoot != "" {
		env.Untrusted = append(paths.Current().Workspaces(dataRoot), dataRoot)
	}
	report := hostfacts.Examine(ctx, env)
	report.Checks = append([]hostfacts.Check{configured}, report.Checks...)
	if asJSON {
		err = report.WriteJSON(w)
	} else {
		err = report.WriteText(w)
	}
	return report.ExitStatus(), err
}

// ProfileList writes the profiles.
func ProfileList(configFile string, w io.Writer, asJSON bool) error {
	cfg, err := resolve.Load(configFile)
	if err != nil {
		return err
	}
	list := profileview.List(cfg)
	if asJSON {
		return profileview.WriteJSON(w, list)
	}
	return profileview.WriteList(w, list)
}

// ProfileShow writes one profile's settings; an empty name is the default one.
func ProfileShow(configFile, name string, w io.Writer, asJSON bool) error {
	cfg, err := resolve.Load(configFile)
	if err != nil {
		return err
	}
	if name, err = cfg.Select(name); err != nil {
		return err
	}
	shown, err := profileview.Show(cfg, name)
	if err != nil {
		return err
	}
	if asJSON {
		return profileview.WriteJSON(w, shown)
	}
	return profileview.WriteShow(w, shown)
}
