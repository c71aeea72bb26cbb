package route_test

import (
	"slices"
	"testing"

	"lazaret.dev/lazaret/supervisor/internal/route"
)

// accept takes the present state for trusted.
func accept(r *route.Router) error {
	c, err := r.Candidate()
	if err != nil {
		return err
	}
	defer c.Close()
	return r.Accept(c)
}

// Accept shares what the developer has seen, and nothing that the sandbox adds
// between the look and the word.
func TestAcceptIsOfWhatWasSeen(t *testing.T) {
	h := project("secret\nother\n.env\n")
	h.write("secret/a", "s")
	h.write("secret/b", "s")
	h.write("other", "s")
	rec := h
	r := open(t, rec, route.Options{})
	inside(t, r, ".gitignore", func() { h.write(".gitignore", "other\n.env\n") })

	c, err := r.Candidate()
	must(t, 0, err)
	paths, more, err := r.Shares(c, 10)
	must(t, 0, err)
	if !slices.Equal(paths, []string{"secret"}) || more != 0 {
		t.Errorf("it would share %q and %d more", paths, more)
	}
	// Now the sandbox relaxes more, and adds a file by force.
	inside(t, r, ".gitignore", func() { h.write(".gitignore", ".env\n") })
	must(t, 0, r.Settle())
	h.repos[""].tracked[".env"] = tracked{mode: 0o100644}
	_, err = r.RepositoryChanged("")
	must(t, 0, err)
	must(t, 0, r.Accept(c))
	c.Close()
	places := map[string]route.Place{"secret/": route.Shared, "secret/a": route.Shared, "other": route.Isolated, ".env": route.Isolated}
	want(t, r, places)
	if got := r.Relaxed(); len(got) != 1 || !slices.Equal(got[0].Lines, []string{"other"}) {
		t.Errorf("what was added is not on record: %+v", got)
	}
	// In a later generation too.
	want(t, open(t, rec, route.Options{}), places)
}

// What was added by force is among what would be shared, although no rule has
// changed.
func TestSharesWhatWasAddedByForce(t *testing.T) {
	h := project(".env\n")
	r := open(t, h, route.Options{})
	must(t, 0, r.Settle())
	h.repos[""].tracked["src/.env"] = tracked{mode: 0o100644}
	_, err := r.RepositoryChanged("")
	must(t, 0, err)
	c, err := r.Candidate()
	must(t, 0, err)
	defer c.Close()
	paths, _, err := r.Shares(c, 10)
	must(t, 0, err)
	if !slices.Equal(paths, []string{"src/.env"}) {
		t.Errorf("it would share %q", paths)
	}
	if paths, more, err := r.Shares(c, 0); err != nil || len(paths) != 0 || more != 1 {
		t.Errorf("%q, %d, %v", paths, more, err)
	}
}

// What the sandbox has open, or has given another name, stays its own doing
// beyond an Accept.
func TestAcceptKeepsWriters(t *testing.T) {
	for name, begin := range map[string]func(h *host, r *route.Router) (end func()){
		"open": func(h *host, r *route.Router) func() {
			w, err := r.Begin(".gitignore")
			must(t, 0, err)
			return func() {
				h.write(".gitignore", "")
				_, err := w.End()
				must(t, 0, err)
			}
		},
		"linked": func(h *host, r *route.Router) func() {
			must(t, 0, r.Linking(".gitignore"))
			return func() {
				h.write(".gitignore", "")
				_, err := r.Changed(".gitignore")
				must(t, 0, err)
			}
		},
	} {
		h := project(".env\n")
		r := open(t, h, route.Options{})
		end := begin(h, r)
		must(t, 0, accept(r))
		end()
		if p := r.Place(".env", false); p != route.Isolated {
			t.Errorf("%s: .env is %d", name, p)
		}
	}
}
