package tree_test

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"lazaret.dev/lazaret/supervisor/internal/view/internal/object"
	"lazaret.dev/lazaret/supervisor/internal/view/internal/tree"
)

func info(ino uint64, dir bool) *object.Info {
	i := &object.Info{Key: object.Key{Ino: ino}, Mode: unix.S_IFREG}
	if dir {
		i.Mode = unix.S_IFDIR
	}
	return i
}

// Whatever the host does between two looks, every node has an end to its path,
// the names of a directory and of its entries agree, and what the kernel has
// forgotten is gone.
func TestAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr := tree.New(0, info(1000, true))
		refs := map[uint64]uint64{}
		dirs := func() []*tree.Node {
			out := []*tree.Node{tr.Get(tree.Root)}
			return append(out, tr.Below(out[0])...)
		}
		pick := func(label string) *tree.Node {
			all := dirs()
			n := all[rapid.IntRange(0, len(all)-1).Draw(t, label)]
			if n.Dir == nil {
				n = all[0]
			}
			return n
		}
		name := func(label string) string { return fmt.Sprint(rapid.IntRange(0, 3).Draw(t, label)) }
		t.Repeat(map[string]func(*rapid.T){
			"enter": func(*rapid.T) {
				// Directories have even numbers, and may turn up anywhere.
				ino := uint64(rapid.IntRange(1, 8).Draw(t, "inode"))
				n := tr.Enter(pick("parent"), name("name"), 0, info(ino, ino%2 == 0))
				refs[n.ID]++
			},
			"remove": func(*rapid.T) { tr.Remove(pick("parent"), name("name"), rapid.Bool().Draw(t, "gone")) },
			"move": func(*rapid.T) {
				from, to, old, now := pick("from"), pick("to"), name("old"), name("new")
				for p := to; ; {
					if p == tr.Child(from, old) {
						return // no kernel asks for that
					}
					up, ok := tr.Name(p)
					if !ok {
						break
					}
					p = up.Parent
				}
				if from != to || old != now {
					tr.Remove(to, now, true)
					tr.Move(from, old, to, now)
				}
			},
			"forget": func(*rapid.T) {
				for id, n := range refs {
					tr.Forget(id, n)
					delete(refs, id)
					break
				}
			},
			"": func(t *rapid.T) {
				for _, n := range dirs() {
					if _, ok := tr.Path(n); !ok {
						t.Fatalf("node %d is below the root and has no path", n.ID)
					}
					if n.Dir != nil && len(tr.Names(n)) > 1 {
						t.Fatalf("directory %d has names %v", n.ID, tr.Names(n))
					}
					for name, c := range tr.Children(n) {
						found := false
						for _, has := range tr.Names(c) {
							found = found || has.Parent == n && has.Name == name
						}
						if !found {
							t.Fatalf("node %d does not know its name %q", c.ID, name)
						}
					}
				}
				for id := range refs {
					if tr.Get(id) == nil {
						t.Fatalf("node %d is gone, and the kernel knows it", id)
					}
				}
			},
		})
	})
}

// An inode that is used again is another node.
func TestReuse(t *testing.T) {
	tr := tree.New(0, info(1000, true))
	root := tr.Get(tree.Root)
	a := tr.Enter(root, "a", 0, info(1, false))
	if tr.Enter(root, "b", 0, info(1, false)) != a {
		t.Error("two names of one file are two nodes")
	}
	tr.Remove(root, "a", false)
	tr.Remove(root, "b", true)
	if tr.Enter(root, "c", 0, info(1, false)) == a {
		t.Error("the new file is the old node")
	}
	later := info(1, false)
	later.Born = 5
	if c := tr.Child(root, "c"); tr.Enter(root, "d", 0, later) == c {
		t.Error("a file of another time is the same node")
	}
}

// A number that the host gives away again is told from its last owner's for as
// long as the kernel knows that one.
func TestTwins(t *testing.T) {
	tr := tree.New(0, info(1000, true))
	root := tr.Get(tree.Root)
	born := func(at int64) *object.Info {
		i := info(7, false)
		i.Born = at
		return i
	}
	first, second, third := tr.Enter(root, "log", 0, born(1)), tr.Enter(root, "log", 0, born(2)), tr.Enter(root, "other", 1, born(3))
	if a, b, c := tr.Twin(first), tr.Twin(second), tr.Twin(third); a != 0 || b != 1 || c != 0 {
		t.Errorf("twins %d, %d, in another store %d", a, b, c)
	}
	tr.Forget(first.ID, 1)
	if again := tr.Enter(root, "log", 0, born(4)); tr.Twin(again) != 0 || tr.Twin(second) != 1 {
		t.Errorf("after the first is forgotten: %d, and the second %d", tr.Twin(again), tr.Twin(second))
	}
}
