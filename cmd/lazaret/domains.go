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

func newRecoverCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use: "recover [DOMAIN]", Short: "Clear away what a dead sandbox has left", Args: cobra.MaximumNArgs(1),
		Long: `Recover clears away what the last generation of a Domain has left, if it died:
processes, sockets, directories, its claim on a prepared image. The Domain is
named by its ID or the beginning of one; else it is those of the current
directory. The project need not exist any more. The next run does the same by
itself; recover starts nothing, and says what it does.

Only what is exactly on record is touched. Anything else that is found in its
place is left alone and named, and nothing goes on before you have decided.

EXIT STATUS
  0  nothing is left
  1  something is, or the Domain is in use; the last lines say what, and what to do
  2  the command line is wrong`,
		RunE: func(c *cobra.Command, args []string) error {
			return host.Recover(c.Context(), g.config, optional(args), g.ui)
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			var out []string
			if known, err := host.Domains(g.config); err == nil && len(args) == 0 {
				for id, of := range known {
					out = append(out, cobra.CompletionWithDesc(id, of))
				}
			}
			return out, cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// confirm asks a question; only a plain yes is one.
func (u *ui) confirm(question string) bool {
	u.ask(question + " [y/N] ")
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	answer := strings.ToLower(strings.TrimSpace(line))
	return err == nil && (answer == "y" || answer == "yes")
}
