package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// Every command says what its exit statuses are (design section 5), and its
// help speaks of no command that does not exist.
func TestHelp(t *testing.T) {
	root := newRoot(newUI(os.Stderr))
	names := map[string]bool{}
	var walk func(c *cobra.Command, f func(*cobra.Command))
	walk = func(c *cobra.Command, f func(*cobra.Command)) {
		if !c.Hidden {
			f(c)
		}
		for _, sub := range c.Commands() {
			walk(sub, f)
		}
	}
	walk(root, func(c *cobra.Command) { names[c.CommandPath()] = true })
	if len(names) < 8 {
		t.Errorf("the commands are %v", names)
	}
	said := regexp.MustCompile(`(?m)^ +(lazaret [a-z]+)`)
	walk(root, func(c *cobra.Command) {
		if !strings.Contains(c.Long, "\nEXIT STATUS\n") {
			t.Errorf("%s --help has no section on the exit status", c.CommandPath())
		}
		for _, m := range said.FindAllStringSubmatch(c.Long+"\n"+c.Example, -1) {
			if !names[m[1]] {
				t.Errorf("%s --help speaks of %q, which does not exist", c.CommandPath(), m[1])
			}
		}
	})
}
