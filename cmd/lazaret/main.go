// Command lazaret runs programs in a rootless gVisor sandbox on the current
// project. It parses the command line, prints, and knows the exit statuses;
// everything else is package host's. The same binary is the Host Coordinator
// and the programs that unpack images in a user namespace, as hidden commands.
package main

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"
)

func main() {
	os.Exit(run(os.Args[1:]))
}

func run(args []string) int {
	// A reader that goes away must not kill a client in raw mode: writes report
	// it as an error instead.
	ui := newUI(os.Stderr)
	root := newRoot(ui)
	root.SetArgs(args)
	err := root.ExecuteContext(context.Background())
	return ui.exit(err)
}

// newRoot is the one list of commands.
func newRoot(ui *ui) *cobra.Command {
	g := &globals{ui: ui}
	root := &cobra.Command{
		Use:   "lazaret",
		Short: "Run AI coding agents in a rootless gVisor sandbox on your project",
		Long: `Lazaret runs an AI coding agent, or any other program, in a rootless gVisor
sandbox on the current project. The project is shared live, installed tools
persist, and the local network cannot be reached.
` + groupStatus,
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
		Version:           version(),
	}
	root.SetVersionTemplate("lazaret {{.Version}}\n")
	root.PersistentFlags().StringVar(&g.config, "config", "", "read this configuration `FILE`")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{err} })
	root.AddCommand(
		newRunCommand(g), newPsCommand(g), newStopCommand(g), newRecoverCommand(g), newDoctorCommand(g), newProfileCommand(g), newNetCommand(g),
		newIgnoreCommand(g),
	)
	for _, c := range newHiddenCommands() {
		root.AddCommand(c)
	}
	markUsage(root)
	return root
}

// globals are the options of every command.
type globals struct {
	config string
	ui     *ui
}

// usageError reports a command line that cannot be understood.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }
func (e *usageError) Hint() string  { return "lazaret --help lists the commands" }

// markUsage turns every command's complaint about its arguments into a usage
// error, so that they share one exit status.
func markUsage(c *cobra.Command) {
	if check := c.Args; check != nil {
		c.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return &usageError{err}
			}
			return nil
		}
	}
	for _, sub := range c.Commands() {
		markUsage(sub)
	}
	if c.HasSubCommands() && c.RunE == nil {
		c.Args = func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return &usageError{errors.New("unknown command " + quote(args[0]) + " for " + quote(cmd.CommandPath()))}
			}
			return nil
		}
		c.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
}
