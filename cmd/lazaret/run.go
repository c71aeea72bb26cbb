package main

import (
	"errors"
	"os"

	"github.com/spf13/cobra"

	"lazaret.dev/lazaret/host"
)

// runOptions are the flags of `lazaret run`.
type runOptions struct {
	workspace      string
	env            []string
	tty, noTTY     bool
	quiet, verbose bool
}

func (o *runOptions) addFlags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&o.workspace, "workspace", "", "use `DIR` as the project instead of the current directory")
	f.StringArrayVar(&o.env, "env", nil, "set an environment variable `K=V` for the command (repeatable)")
	f.BoolVar(&o.tty, "tty", false, "give the command a terminal")
	f.BoolVar(&o.noTTY, "no-tty", false, "give the command pipes, also when started on a terminal")
	f.BoolVar(&o.quiet, "quiet", false, "print nothing but errors")
	f.BoolVar(&o.verbose, "verbose", false, "follow the logs while the sandbox starts and runs")
}

// check refuses options that contradict each other.
func (o *runOptions) check() error {
	switch {
	case o.tty && o.noTTY:
		return errors.New("--tty and --no-tty exclude each other")
	case o.quiet && o.verbose:
		return errors.New("--quiet and --verbose exclude each other")
	}
	return nil
}

func newRunCommand(g *globals) *cobra.Command {
	o := &runOptions{}
	c := &cobra.Command{
		Use:   "run [PROFILE] [flags] [-- COMMAND ARG...]",
		Short: "Run a command in the sandbox of this project",
		Long: `Run starts the sandbox of the current project, which is the directory that you
are in, or joins it when it already runs, and runs a command in it: COMMAND,
else the profile's command, else a login shell. The sandbox ends with its last
session, which then reports on stderr what was left behind in the project that
needs a look (refs moved back, files that tools run by themselves, refusals).

EXIT STATUS
  The command's own, or 128+n when signal n ended it.
  2    the command line is wrong
  125  Lazaret failed before or under the command; the last line says how
  126  the command cannot be executed
  127  the command was not found`,
		Example: `  lazaret run                       a shell, or the default profile's command
  lazaret run claude                the profile "claude" of the configuration
  lazaret run -- npm test           one command`,
		Args: func(c *cobra.Command, args []string) error {
			before := c.ArgsLenAtDash()
			if before < 0 {
				before = len(args)
			}
			if before > 1 {
				return errors.New("run takes one PROFILE; put -- before a COMMAND")
			}
			if c.ArgsLenAtDash() >= 0 && len(args) == before {
				return errors.New("there is no COMMAND after --")
			}
			return o.check()
		},
		RunE: func(c *cobra.Command, args []string) error {
			g.ui.fail = exitFailed
			g.ui.quiet = o.quiet
			if o.verbose {
				g.ui.follow = &follower{}
			}
			opts := host.RunOptions{
				ConfigFile: g.config, Workspace: o.workspace, Env: o.env, TTY: host.TTYAuto,
				Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, UI: g.ui,
			}
			dash := c.ArgsLenAtDash()
			if dash >= 0 {
				opts.Command = args[dash:]
				args = args[:dash]
			}
			if len(args) == 1 {
				opts.Profile = args[0]
			}
			switch {
			case o.tty:
				opts.TTY = host.TTYOn
			case o.noTTY:
				opts.TTY = host.TTYOff
			}
			status, err := host.Run(c.Context(), opts)
			g.ui.code = status
			return err
		},
	}
	o.addFlags(c)
	return c
}
