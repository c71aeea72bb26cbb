package main

import (
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"lazaret.dev/lazaret/host"
	"lazaret.dev/lazaret/protocol/isolation"
)

func newIgnoreCommand(g *globals) *cobra.Command {
	var o host.IgnoreOptions
	run := func(verb isolation.Verb) func(c *cobra.Command, _ []string) error {
		return func(c *cobra.Command, _ []string) error {
			o.ConfigFile, o.UI = g.config, g.ui
			if term.IsTerminal(int(os.Stdin.Fd())) {
				o.Confirm = g.ui.confirm
			}
			return host.Ignore(c.Context(), verb, o, os.Stdout)
		}
	}
	ls := &cobra.Command{
		Use: "ls", Short: "List what the sandbox has for its own", Args: cobra.NoArgs,
		Long: `Ls lists the paths of the project that the sandbox has for its own: Git ignores
them, so that what is there on the host is invisible inside, and what is made
there inside stays off the host.
` + plainStatus,
		RunE: run(isolation.List),
	}
	review := &cobra.Command{
		Use: "review", Short: "Show what waits to be accepted", Args: cobra.NoArgs,
		Long: `Review shows which rules of Git's ignore files, and what else of that kind, the
sandbox has relaxed, or a checkout or merge has brought; and which files of the
host accept would show to the sandbox. Until then the earlier rules count as well.
` + plainStatus,
		RunE: run(isolation.Review),
	}
	accept := &cobra.Command{
		Use: "accept", Short: "Show to the sandbox what review shows", Args: cobra.NoArgs,
		Long: `Accept takes the rules as they are for yours: what they no longer ignore is shared
with the sandbox from then on. It shows what that is and asks. If the rules have
changed meanwhile, nothing is accepted.

EXIT STATUS
  0  it is accepted, or there was nothing to accept
  1  it is not; the last lines say why
  2  the command line is wrong`,
		RunE: run(isolation.Accept),
	}
	accept.Flags().BoolVar(&o.Yes, "yes", false, "do not ask")
	c := &cobra.Command{
		Use: "ignore", Short: "Show or accept what is isolated because Git ignores it",
		Long: `Ignore is about the paths of a project that Git ignores: the sandbox has its own of
them. It concerns the sandbox of a profile and a project, running or not.
` + groupStatus,
	}
	for _, sub := range []*cobra.Command{ls, review, accept} {
		f := sub.Flags()
		f.StringVar(&o.Profile, "profile", "", "the sandbox of this `PROFILE` instead of the default one")
		f.StringVar(&o.Workspace, "workspace", "", "use `DIR` as the project instead of the current directory")
		f.BoolVar(&o.JSON, "json", false, "print JSON")
		c.AddCommand(sub)
	}
	return c
}
