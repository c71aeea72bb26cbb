package main

import (
	"os"

	"github.com/spf13/cobra"

	"lazaret.dev/lazaret/host"
)

func newDoctorCommand(g *globals) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Check this host for everything that Lazaret needs",
		Long: `Doctor checks every prerequisite on this host and says, for each one that is
missing, exactly what to type. It changes nothing.

EXIT STATUS
  0  nothing blocks
  1  something blocks; a sandbox cannot start
  2  the command line is wrong`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			status, err := host.Doctor(c.Context(), g.config, os.Stdout, asJSON)
			g.ui.code = status
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func newProfileCommand(g *globals) *cobra.Command {
	var asJSON bool
	ls := &cobra.Command{
		Use: "ls", Short: "List the profiles", Args: cobra.NoArgs,
		Long: "Ls lists the profiles of the configuration.\n" + plainStatus,
		RunE: func(*cobra.Command, []string) error { return host.ProfileList(g.config, os.Stdout, asJSON) },
	}
	show := &cobra.Command{
		Use: "show [PROFILE]", Short: "Show a profile's settings", Args: cobra.MaximumNArgs(1),
		Long: "Show prints a profile's settings, with defaults filled in. Values of environment\nvariables are not printed.\n" + plainStatus,
		RunE: func(_ *cobra.Command, args []string) error {
			return host.ProfileShow(g.config, optional(args), os.Stdout, asJSON)
		},
	}
	for _, c := range []*cobra.Command{ls, show} {
		c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	}
	c := &cobra.Command{
		Use: "profile", Short: "Show the profiles of the configuration",
		Long: "Profile shows the profiles of the configuration.\n" + groupStatus,
	}
	c.AddCommand(ls, show)
	return c
}

func newNetCommand(g *globals) *cobra.Command {
	var asJSON bool
	show := &cobra.Command{
		Use: "show [PROFILE]", Short: "Show the derived network policy", Args: cobra.MaximumNArgs(1),
		Long: "Show prints the network policy that Lazaret derives for a profile on this host.\n" + plainStatus,
		RunE: func(_ *cobra.Command, args []string) error {
			return host.NetShow(g.config, optional(args), os.Stdout, asJSON)
		},
	}
	test := &cobra.Command{
		Use: "test [PROFILE]", Short: "Check the network policy from inside the sandbox", Args: cobra.MaximumNArgs(1),
		Long: `Test starts the sandbox of the current project, or joins it, and proves the
network policy from inside: one address of every denied prefix, and the resolver.

EXIT STATUS
  0    the policy holds
  1    it does not
  2    the command line is wrong
  125  the sandbox could not be started`,
		RunE: func(c *cobra.Command, args []string) error {
			g.ui.fail = exitFailed
			status, err := host.NetTest(c.Context(), g.config, optional(args), os.Stdout, asJSON, g.ui)
			g.ui.code = status
			return err
		},
	}
	for _, c := range []*cobra.Command{show, test} {
		c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	}
	c := &cobra.Command{
		Use: "net", Short: "Show or test the derived network policy",
		Long: "Net shows the network policy that Lazaret derives for a profile, or tests it.\n" + groupStatus,
	}
	c.AddCommand(show, test)
	return c
}

// plainStatus is the section on the exit status of commands that only print.
const plainStatus = `
EXIT STATUS
  0  it was printed
  1  it could not be; the last lines say why
  2  the command line is wrong`

// groupStatus is that of commands that only have others.
const groupStatus = `
EXIT STATUS
  0  this help was printed
  2  the command line is wrong
Each command's own help has its own.`

func optional(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}
