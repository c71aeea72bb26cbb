package main

import (
	"bufio"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"lazaret.dev/lazaret/host"
)

func newPsCommand(g *globals) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "ps", Short: "List running sandboxes and their sessions", Args: cobra.NoArgs,
		Long: "Ps lists the Domains of this user that run now, with their generations and\nsessions. It takes no lock and starts nothing.\n" + plainStatus,
		RunE: func(c *cobra.Command, _ []string) error {
			return host.List(c.Context(), g.config, os.Stdout, asJSON)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func newStopCommand(g *globals) *cobra.Command {
	var all, yes bool
	c := &cobra.Command{
		Use: "stop [DOMAIN]", Short: "Stop running sandboxes", Args: cobra.MaximumNArgs(1),
		Long: `Stop ends the sandbox of a Domain, named by its ID or the beginning of one, else
those of the current directory. It asks before it ends sessions that are
attached; each of them says who stopped it and exits with status 143. It returns
when nothing of the sandbox is left.

EXIT STATUS
  0  it is stopped
  1  it could not be, or was not wanted; the last lines say why
  2  the command line is wrong`,
		RunE: func(c *cobra.Command, args []string) error {
			o := host.StopOptions{ConfigFile: g.config, Domain: optional(args), All: all, Yes: yes, UI: g.ui}
			if term.IsTerminal(int(os.Stdin.Fd())) {
				o.Confirm = g.ui.confirm
			}
			return host.Stop(c.Context(), o)
		},
	}
	c.Flags().BoolVar(&all, "all", false, "stop all running sandboxes of this user")
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return c
}

// confirm asks a question; only a plain yes is one.
func (u *ui) confirm(question string) bool {
	u.ask(question + " [y/N] ")
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	answer := strings.ToLower(strings.TrimSpace(line))
	return err == nil && (answer == "y" || answer == "yes")
}
