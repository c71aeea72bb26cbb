package main

import (
	"github.com/spf13/cobra"

	"lazaret.dev/lazaret/host"
)

// reported is an error that its program has reported where it belongs; only the
// exit status is left to give.
type reported struct{ error }

// ExitStatus is the status of such a program.
func (reported) ExitStatus() int { return exitFailed }

// newHiddenCommands are the programs that Lazaret starts itself.
func newHiddenCommands() []*cobra.Command {
	var out []*cobra.Command
	for name, main := range host.Programs() {
		out = append(out, &cobra.Command{
			Use: name, Hidden: true, Args: cobra.NoArgs, DisableFlagParsing: true,
			RunE: func(*cobra.Command, []string) error {
				if err := main(); err != nil {
					return reported{err}
				}
				return nil
			},
		})
	}
	return out
}
