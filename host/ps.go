package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"lazaret.dev/lazaret/host/internal/control"
	"lazaret.dev/lazaret/host/internal/domains"
	pc "lazaret.dev/lazaret/protocol/control"
)

// survey asks the coordinators of the configured data root.
func survey(ctx context.Context, configFile string) ([]domains.Running, []*domains.Unanswered, error) {
	root, err := dataRoot(configFile)
	if err != nil {
		return nil, nil, err
	}
	return domains.Survey(ctx, root)
}

// unanswered names the Domains that do not answer, as one error; nil where all
// do.
func unanswered(silent []*domains.Unanswered) error {
	if len(silent) == 0 {
		return nil
	}
	var text, hint []string
	for _, u := range silent {
		text = append(text, u.Error())
		hint = append(hint, hintOf(u))
	}
	return &hintError{text: strings.Join(text, "\n"), hint: strings.Join(hint, "\n")}
}

// List writes the running Domains, their generations and sessions. It fails when
// it has named those of which it cannot tell.
func List(ctx context.Context, configFile string, w io.Writer, asJSON bool) error {
	found, silent, err := survey(ctx, configFile)
	if err != nil {
		return err
	}
	return errors.Join(list(found, w, asJSON), unanswered(silent))
}

func list(found []domains.Running, w io.Writer, asJSON bool) error {
	if asJSON {
		all := []pc.Status{}
		for _, r := range found {
			all = append(all, r.Status)
		}
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(all)
	}
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	if len(found) > 0 {
		fmt.Fprintln(t, "DOMAIN\tPROFILE\tPHASE\tSINCE\tSESSIONS\tWORKSPACE")
	}
	for _, r := range found {
		s := r.Status
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%s\n", s.DomainID, s.Profile, s.Phase, s.Since.Format(time.DateTime), len(s.Sessions), plain(s.Workspace))
		for _, c := range s.Sessions {
			fmt.Fprintf(t, "  %.12s\t%s\t%s\t%s\t\t%s\n", c.ID, terminal(c.TTY), c.Phase, c.Since.Format(time.DateTime), command(c.Command))
		}
	}
	return t.Flush()
}

func terminal(tty bool) string {
	if tty {
		return "terminal"
	}
	return "pipes"
}

// command renders an argument vector so that it can be read back.
func command(argv []string) string {
	if len(argv) == 0 {
		return "(login shell)"
	}
	words := make([]string, len(argv))
	for i, a := range argv {
		words[i] = plain(a)
	}
	return strings.Join(words, " ")
}

// plain quotes what is not plainly printable, or ambiguous in a list.
func plain(s string) string {
	q := fmt.Sprintf("%q", s)
	if s == "" || q[1:len(q)-1] != s || strings.ContainsAny(s, " \t'\"") {
		return q
	}
	return s
}

// StopOptions are what `lazaret stop` was asked for.
type StopOptions struct {
	ConfigFile string
	Domain     string // a Domain ID or the beginning of one; empty: the current directory's
	All        bool

	// Confirm asks the user before sessions are ended; nil where nobody can be
	// asked.
	Confirm func(question string) bool
	Yes     bool // do not ask
	UI      UI
}

// Stop ends running Domains and returns when nothing of them is left.
func Stop(ctx context.Context, o StopOptions) error {
	found, silent, err := survey(ctx, o.ConfigFile)
	if err != nil {
		return err
	}
	found, silent, err = choose(found, silent, o)
	if err != nil {
		return err
	}
	errs := []error{unanswered(silent)}
	for _, r := range found {
		errs = append(errs, stopOne(ctx, r, o))
	}
	return errors.Join(errs...)
}

// choose picks the Domains that are meant.
func choose(found []domains.Running, silent []*domains.Unanswered, o StopOptions) ([]domains.Running, []*domains.Unanswered, error) {
	if o.All {
		return found, silent, nil
	}
	match := func(id, _ string) bool { return strings.HasPrefix(id, o.Domain) }
	if o.Domain == "" {
		here, err := domains.WorkingDirectory()
		if err != nil {
			return nil, nil, err
		}
		match = func(_, workspace string) bool { return workspace == here }
	}
	found = slices.DeleteFunc(found, func(r domains.Running) bool { return !match(r.Status.DomainID, r.Status.Workspace) })
	silent = slices.DeleteFunc(silent, func(u *domains.Unanswered) bool { return !match(u.ID, u.Workspace) })
	switch n := len(found) + len(silent); {
	case n == 0 && o.Domain == "":
		return nil, nil, &hintError{text: "no Domain of this directory runs", hint: "lazaret ps lists what runs"}
	case n == 0:
		return nil, nil, &hintError{text: fmt.Sprintf("no Domain %q runs", o.Domain), hint: "lazaret ps lists what runs"}
	case n > 1 && o.Domain != "":
		return nil, nil, &hintError{text: fmt.Sprintf("%q is the beginning of %d Domains", o.Domain, n), hint: "lazaret ps lists what runs"}
	}
	return found, silent, nil
}

func stopOne(ctx context.Context, r domains.Running, o StopOptions) error {
	s := r.Status
	if n := len(s.Sessions); n > 0 && !o.Yes {
		if o.Confirm == nil {
			return &hintError{text: fmt.Sprintf("Domain %s has %d sessions attached", s.DomainID, n), hint: "lazaret stop --yes ends them"}
		}
		if !o.Confirm(fmt.Sprintf("Domain %s (profile %s) has %d sessions attached. Stop it?", s.DomainID, s.Profile, n)) {
			return &hintError{text: "not stopped"}
		}
	}
	conn, err := control.Dial(ctx, r.Dir, s.Profile, s.DomainID)
	if errors.Is(err, control.ErrNotPublished) {
		return nil // it has ended meanwhile
	}
	if err != nil {
		return err
	}
	err = control.Stop(ctx, conn, pc.StopRequest{Generation: s.Generation, By: fmt.Sprintf("lazaret stop, process %d", os.Getpid())})
	if errors.Is(err, control.ErrNotPublished) {
		return nil // as above
	}
	if err != nil {
		return err
	}
	o.UI.Notice("stopped Domain " + s.DomainID)
	return nil
}
