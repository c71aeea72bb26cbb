package host

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"lazaret.dev/lazaret/host/internal/control"
	"lazaret.dev/lazaret/host/internal/paths"
	"lazaret.dev/lazaret/host/internal/resolve"
	pc "lazaret.dev/lazaret/protocol/control"
)

// askTimeout bounds how long one coordinator may take to answer. One that is
// stopped must not hide the others.
const askTimeout = 3 * time.Second

// running is one Domain that answers.
type running struct {
	dir    string // its runtime directory
	status pc.Status
}

// survey asks every published coordinator of this user what runs in its Domain.
// It takes no lock: it reads the sockets of the runtime directories and the
// Domains' own records.
func survey(ctx context.Context, configFile string) ([]running, error) {
	cfg, err := resolve.Load(configFile)
	if err != nil {
		return nil, err
	}
	dataRoot, err := cfg.DataRoot()
	if err != nil {
		return nil, err
	}
	h := paths.Current()
	profiles := h.Profiles(dataRoot)
	var out []running
	for _, rt := range h.Runtimes() {
		ids, err := rt.Domains()
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			profile, known := profiles[id]
			if !known {
				continue // of another data root
			}
			dir := rt.DomainPath(id)
			st, err := ask(ctx, dir, profile, id)
			if errors.Is(err, control.ErrNotPublished) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("ask the coordinator of Domain %s: %w", id, err)
			}
			out = append(out, running{dir: dir, status: *st})
		}
	}
	slices.SortFunc(out, func(a, b running) int {
		return cmp.Or(strings.Compare(a.status.Workspace, b.status.Workspace), strings.Compare(a.status.Profile, b.status.Profile))
	})
	return out, nil
}

func ask(ctx context.Context, dir, profile, id string) (*pc.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	conn, err := control.Dial(ctx, dir, profile, id)
	if err != nil {
		return nil, err
	}
	return control.Ask(conn)
}

// List writes the running Domains, their generations and sessions.
func List(ctx context.Context, configFile string, w io.Writer, asJSON bool) error {
	found, err := survey(ctx, configFile)
	if err != nil {
		return err
	}
	if asJSON {
		all := []pc.Status{}
		for _, r := range found {
			all = append(all, r.status)
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
		s := r.status
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
	found, err := survey(ctx, o.ConfigFile)
	if err != nil {
		return err
	}
	chosen, err := choose(found, o)
	if err != nil {
		return err
	}
	for _, r := range chosen {
		if err := stopOne(ctx, r, o); err != nil {
			return err
		}
	}
	return nil
}

// choose picks the Domains that are meant.
func choose(found []running, o StopOptions) ([]running, error) {
	if o.All {
		return found, nil
	}
	match := func(r running) bool { return strings.HasPrefix(r.status.DomainID, o.Domain) }
	if o.Domain == "" {
		here, err := os.Getwd()
		if err == nil {
			here, err = filepath.EvalSymlinks(here)
		}
		if err != nil {
			return nil, fmt.Errorf("cannot find the current directory: %w", err)
		}
		match = func(r running) bool { return r.status.Workspace == here }
	}
	chosen := slices.DeleteFunc(slices.Clone(found), func(r running) bool { return !match(r) })
	switch {
	case len(chosen) == 0 && o.Domain == "":
		return nil, &hintError{text: "no Domain of this directory runs", hint: "lazaret ps lists what runs"}
	case len(chosen) == 0:
		return nil, &hintError{text: fmt.Sprintf("no Domain %q runs", o.Domain), hint: "lazaret ps lists what runs"}
	case len(chosen) > 1 && o.Domain != "":
		return nil, &hintError{text: fmt.Sprintf("%q is the beginning of %d Domains", o.Domain, len(chosen)), hint: "lazaret ps lists what runs"}
	}
	return chosen, nil
}

func stopOne(ctx context.Context, r running, o StopOptions) error {
	s := r.status
	if n := len(s.Sessions); n > 0 && !o.Yes {
		if o.Confirm == nil {
			return &hintError{text: fmt.Sprintf("Domain %s has %d sessions attached", s.DomainID, n), hint: "lazaret stop --yes ends them"}
		}
		if !o.Confirm(fmt.Sprintf("Domain %s (profile %s) has %d sessions attached. Stop it?", s.DomainID, s.Profile, n)) {
			return &hintError{text: "not stopped"}
		}
	}
	conn, err := control.Dial(ctx, r.dir, s.Profile, s.DomainID)
	if errors.Is(err, control.ErrNotPublished) {
		return nil // it has ended meanwhile
	}
	if err != nil {
		return err
	}
	if err := control.Stop(ctx, conn, pc.StopRequest{By: fmt.Sprintf("lazaret stop, process %d", os.Getpid())}); err != nil {
		return err
	}
	o.UI.Notice("stopped Domain " + s.DomainID)
	return nil
}
