package host

import (
	"context"
	"io"
	"os"

	"lazaret.dev/lazaret/host/internal/ignored"
	"lazaret.dev/lazaret/host/internal/resolve"
	"lazaret.dev/lazaret/protocol/isolation"
)

// IgnoreOptions are what `lazaret ignore` was asked for.
type IgnoreOptions struct {
	ConfigFile         string
	Profile, Workspace string // empty: the default one, the current directory
	JSON               bool

	// Confirm asks the user before anything is shared; nil where nobody can be
	// asked.
	Confirm func(question string) bool
	Yes     bool // do not ask
	UI      UI
}

// Ignore carries out `lazaret ignore`, and writes to w what was asked for.
func Ignore(ctx context.Context, verb isolation.Verb, o IgnoreOptions, w io.Writer) error {
	if os.Getuid() == 0 {
		return errRoot
	}
	d, err := resolve.Domain(o.ConfigFile, o.Profile, o.Workspace) //nolint:contextcheck // looks at files; nothing in it waits
	if err != nil {
		return err
	}
	if verb == isolation.List {
		a, err := ignored.Ask(ctx, d, isolation.Request{Verb: verb})
		if err != nil {
			return err
		}
		return ignored.WriteList(w, a, o.JSON)
	}
	a, err := ignored.Ask(ctx, d, isolation.Request{Verb: isolation.Review})
	if err != nil {
		return err
	}
	if err := ignored.WriteReview(w, a, o.JSON); err != nil || verb == isolation.Review {
		return err
	}
	switch {
	case ignored.Empty(a):
		o.UI.Notice("there is nothing to accept")
		return nil
	case o.Yes:
	case o.Confirm == nil:
		return &hintError{text: "not accepted: nobody can be asked here", hint: "lazaret ignore accept --yes accepts what lazaret ignore review shows"}
	case !o.Confirm("Accept this?"):
		return &hintError{text: "not accepted"}
	}
	if _, err := ignored.Ask(ctx, d, isolation.Request{Verb: isolation.Accept, Reviewed: a.Digest}); err != nil {
		return err
	}
	o.UI.Notice("accepted")
	return nil
}
