package route_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"lazaret.dev/lazaret/supervisor/internal/route"
)

// universe are the names that the random test asks about.
func universe() []string {
	var all []string
	for _, dir := range []string{"", "a/", "b/", "c/", "a/b/", "b/a/", "c/b/", "c/a/"} {
		for _, name := range []string{"x", "y.s", "k"} {
			all = append(all, dir+name)
		}
	}
	return all
}

// TestOneWay is the one-way rule: whatever happens inside, arrives by checkout
// or survives a restart, no name and no file that was isolated is shared, and
// what Git ignores now is isolated.
func TestOneWay(t *testing.T) {
	line := rapid.SampledFrom([]string{"x", "!x", "*.s", "!*.s", "/a/", "a/x", "b", "!b", "/c/**", "*", "!*/", "k", "b/", "**/b/x", "#", "!a/b/k"})
	text := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(line, 0, 4).Draw(t, "lines"), "\n") + "\n"
	})
	rapid.Check(t, func(t *rapid.T) {
		h := newHost()
		h.repos[""] = newRepo()
		all := universe()
		for _, p := range all {
			if !strings.HasPrefix(p, "c/") {
				h.write(p, p)
			}
		}
		ignores := []string{".gitignore", "a/.gitignore", "b/.gitignore", "a/b/.gitignore"}
		for _, p := range ignores {
			if rapid.Bool().Draw(t, "has "+p) {
				h.write(p, text.Draw(t, p))
			}
		}
		for _, p := range all {
			if rapid.IntRange(0, 3).Draw(t, "tracked") == 0 && h.files[p] != "" {
				h.add("", p)
			}
		}
		r := open(t, h, route.Options{})
		hidden := map[string]bool{} // names
		secret := map[uint64]bool{} // files
		note := func() {
			for _, p := range all {
				if r.Place(p, false) == route.Isolated {
					hidden[p] = true
					if ino, ok := h.ino[p]; ok {
						secret[ino] = true
					}
				}
			}
		}
		check := func(op string) {
			fresh := h.clone()
			now := open(t, fresh, route.Options{})
			for _, p := range all {
				place := r.Place(p, false)
				if place == route.Shared && (hidden[p] || secret[h.ino[p]] && h.files[p] != "") {
					t.Fatalf("%s: %q is shared, and was isolated\n%q", op, p, h.files)
				}
				if place == route.Shared && now.Place(p, false) == route.Isolated {
					t.Fatalf("%s: %q is shared, and Git ignores it\n%q", op, p, h.files)
				}
			}
		}
		note()
		check("start")
		// What is isolated, an inside operation does not reach on the host.
		reach := func() string {
			var list []string
			for _, p := range ignores {
				if r.Place(p, false) == route.Shared {
					list = append(list, p)
				}
			}
			if len(list) == 0 {
				return ""
			}
			return rapid.SampledFrom(list).Draw(t, "path")
		}
		pick := func(list []string) string { return rapid.SampledFrom(list).Draw(t, "path") }
		ops := map[string]func(){
			"edit": func() {
				if p := reach(); p != "" {
					inside(t, r, p, func() { h.write(p, text.Draw(t, "text")) })
				}
			},
			"delete": func() {
				if p := reach(); p != "" {
					inside(t, r, p, func() { h.remove(p) })
				}
			},
			"swap": func() {
				p, q := reach(), reach()
				if p == q || h.files[p] == "" {
					return
				}
				inside(t, r, p, func() { inside(t, r, q, func() { h.remove(q); h.move(p, q) }) })
			},
			"add": func() {
				must(t, 0, r.Settle())
				h.repos[""].tracked[pick(all)] = tracked{mode: 0o100644}
				_, err := r.RepositoryChanged("")
				must(t, 0, err)
			},
			"rm --cached": func() {
				must(t, 0, r.Settle())
				delete(h.repos[""].tracked, pick(all))
				_, err := r.RepositoryChanged("")
				must(t, 0, err)
			},
			"commit": func() {
				for _, p := range ignores {
					h.repos[""].blobs[blobName(h.files[p])] = true
				}
			},
			"checkout": func() {
				p, s := pick(ignores), text.Draw(t, "text")
				h.repos[""].blobs[blobName(s)] = true
				h.write(p, s)
				_, err := r.Changed(p)
				must(t, 0, err)
			},
			"hand edit": func() {
				p := pick(ignores)
				h.write(p, fmt.Sprintf("#%d\n%s", h.next, text.Draw(t, "text")))
				_, err := r.Changed(p)
				must(t, 0, err)
				for _, p := range all {
					if r.Place(p, false) == route.Shared {
						delete(hidden, p)
						delete(secret, h.ino[p])
					}
				}
			},
			// One that takes nothing back, on whatever the sandbox left there,
			// shares nothing.
			"hand edit that adds": func() {
				p := pick(ignores)
				h.write(p, fmt.Sprintf("%s#%d\nk\n", h.files[p], h.next))
				_, err := r.Changed(p)
				must(t, 0, err)
			},
			"clone": func() {
				dir := pick([]string{"a", "b", "a/b"})
				h.repos[dir] = newRepo()
				_, err := r.Changed(dir + "/.git")
				must(t, 0, err)
			},
			"rm .git": func() {
				dir := pick([]string{"", "a", "b", "a/b"})
				delete(h.repos, dir)
				_, err := r.Changed(strings.TrimPrefix(dir+"/.git", "/"))
				must(t, 0, err)
			},
			"rename": func() {
				step := rapid.SampledFrom([][2]string{{"a", "c"}, {"c", "a"}, {"b", "c"}, {"a/b", "c"}, {"c", "b"}}).Draw(t, "rename")
				if !h.isDir(step[0]) || h.isDir(step[1]) || r.Place(step[0], true) != route.Shared || r.Place(step[1], true) != route.Shared {
					return
				}
				m, err := r.Renaming(step[0], step[1])
				must(t, 0, err)
				h.move(step[0], step[1])
				_, err = m.Done(true)
				must(t, 0, err)
				if git := h.repos[""]; git != nil {
					for _, p := range slices.Collect(maps.Keys(git.tracked)) {
						if rest, ok := strings.CutPrefix(p, step[0]+"/"); ok && rapid.Bool().Draw(t, "git mv") {
							git.tracked[step[1]+"/"+rest] = git.tracked[p]
							delete(git.tracked, p)
						}
					}
				}
				_, err = r.RepositoryChanged("")
				must(t, 0, err)
				// There was no file of these names.
				for p := range hidden {
					if strings.HasPrefix(p, step[1]+"/") {
						delete(hidden, p)
					}
				}
			},
			"restart": func() { r = open(t, h, route.Options{}) },
			"crash": func() {
				if p := reach(); p != "" {
					_, err := r.Begin(p)
					must(t, 0, err)
					h.write(p, text.Draw(t, "text"))
				}
				r = open(t, h, route.Options{})
			},
			"new file": func() {
				if p := pick(all); h.files[p] == "" && r.Place(p, false) == route.Shared {
					h.write(p, p)
				}
			},
		}
		gitOps := []string{"add", "rm --cached", "commit", "checkout"}
		names := slices.Sorted(maps.Keys(ops))
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			op := rapid.SampledFrom(names).Draw(t, "op")
			if h.repos[""] == nil && slices.Contains(gitOps, op) {
				continue
			}
			ops[op]()
			check(op)
			note()
		}
	})
}

// TestHandEditsAlone: while only the developer edits, places are exactly what
// Git says.
func TestHandEditsAlone(t *testing.T) {
	line := rapid.SampledFrom([]string{"x", "!x", "*.s", "!*.s", "/a/", "a/x", "b", "!b", "k", "b/", "!a/b/k"})
	rapid.Check(t, func(t *rapid.T) {
		h := newHost()
		h.repos[""] = newRepo()
		for _, p := range universe() {
			h.write(p, p)
		}
		r := open(t, h, route.Options{})
		for i := range rapid.IntRange(1, 10).Draw(t, "steps") {
			p := rapid.SampledFrom([]string{".gitignore", "a/.gitignore", "a/b/.gitignore"}).Draw(t, "path")
			// No text is a blob, and none is empty, as a file that is not there.
			h.write(p, fmt.Sprintf("#%d\n%s\n", i, strings.Join(rapid.SliceOfN(line, 0, 4).Draw(t, "lines"), "\n")))
			_, err := r.Changed(p)
			must(t, 0, err)
			if rapid.Bool().Draw(t, "restart") {
				r = open(t, h, route.Options{})
			}
			now := open(t, h.clone(), route.Options{})
			for _, q := range universe() {
				if got, want := r.Place(q, false), now.Place(q, false); got != want {
					t.Fatalf("%q is %d, Git says %d\n%q", q, got, want, h.files)
				}
			}
		}
	})
}
