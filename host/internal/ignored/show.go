package ignored

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"

	"lazaret.dev/lazaret/protocol/isolation"
)

// ownEntry and review are the JSON that people's programs read. Bytes that are
// no text are replaced there.
type ownEntry struct {
	Path   string `json:"path"`
	Dir    bool   `json:"dir"`
	Unused bool   `json:"unused"`
}

type change struct {
	File  string   `json:"file,omitempty"`
	Lines []string `json:"lines,omitempty"`
	Path  string   `json:"path,omitempty"`
	Repo  string   `json:"repository,omitempty"`
}

type review struct {
	Changes []change `json:"changes"`
	Shares  []string `json:"shares"`
	More    int      `json:"more"`
}

func quote(b []byte) string { return strconv.QuoteToGraphic(string(b)) }

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// WriteList writes what the Domain has for its own.
func WriteList(w io.Writer, a *isolation.Answer, asJSON bool) error {
	slices.SortFunc(a.Own, func(x, y isolation.Entry) int { return bytes.Compare(x.Path, y.Path) })
	if asJSON {
		out := struct {
			Entries []ownEntry `json:"entries"`
			More    int        `json:"more"`
		}{[]ownEntry{}, a.More}
		for _, e := range a.Own {
			out.Entries = append(out.Entries, ownEntry{string(e.Path), e.Dir, e.Unused})
		}
		return writeJSON(w, out)
	}
	var b bytes.Buffer
	for _, e := range a.Own {
		b.WriteString(quote(e.Path))
		if e.Dir {
			b.WriteString(" (directory)")
		}
		if e.Unused {
			b.WriteString(" (unused: the project's own is seen there)")
		}
		b.WriteByte('\n')
	}
	if a.More > 0 {
		fmt.Fprintf(&b, "and more that is not listed\n")
	}
	_, err := w.Write(b.Bytes())
	return err
}

// Empty tells whether there is nothing to accept.
func Empty(a *isolation.Answer) bool { return len(a.Relaxed)+len(a.Shared)+a.More == 0 }

// WriteReview writes what Accept would share.
func WriteReview(w io.Writer, a *isolation.Answer, asJSON bool) error {
	if asJSON {
		out := review{Changes: []change{}, Shares: []string{}, More: a.More}
		for _, r := range a.Relaxed {
			c := change{File: string(r.File), Path: string(r.Path), Repo: string(r.Repo)}
			for _, l := range r.Lines {
				c.Lines = append(c.Lines, string(l))
			}
			out.Changes = append(out.Changes, c)
		}
		for _, p := range a.Shared {
			out.Shares = append(out.Shares, string(p))
		}
		return writeJSON(w, out)
	}
	var b bytes.Buffer
	for _, r := range a.Relaxed {
		switch name := cmp.Or(string(r.File), string(r.Path), string(r.Repo)); {
		case len(r.File) > 0:
			for _, l := range r.Lines {
				fmt.Fprintf(&b, "changed: %s, where %s counts as before\n", quote([]byte(name)), quote(l))
			}
		case len(r.Path) > 0:
			fmt.Fprintf(&b, "renamed: %s, which is isolated whatever the rules say\n", quote([]byte(name)))
		default:
			fmt.Fprintf(&b, "repository: %s has come or gone\n", quote([]byte(name)))
		}
	}
	for _, p := range a.Shared {
		fmt.Fprintf(&b, "accept would show to the sandbox: %s\n", quote(p))
	}
	if a.More > 0 {
		fmt.Fprintf(&b, "and %d more that are not listed\n", a.More)
	}
	_, err := w.Write(b.Bytes())
	return err
}
