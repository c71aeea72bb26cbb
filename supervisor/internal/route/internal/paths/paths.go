// Package paths is arithmetic on the workspace's relative paths, and sets of
// them. It touches no file. It runs in the Runtime Supervisor.
package paths

import (
	"iter"
	"maps"
	"strings"
)

// Above yields the directories above a path, the nearest first and the
// workspace's root last.
func Above(path string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for path != "" {
			path = Parent(path)
			if !yield(path) {
				return
			}
		}
	}
}

// Parent is the directory of a path, "" for the root.
func Parent(path string) string { return path[:max(strings.LastIndexByte(path, '/'), 0)] }

// Base is the last component of a path.
func Base(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// Join is the entry of a directory.
func Join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

// Below tells whether path lies below dir, and is not dir.
func Below(path, dir string) bool {
	return dir == "" && path != "" || len(path) > len(dir) && path[len(dir)] == '/' && strings.HasPrefix(path, dir)
}

// Within tells whether path is dir or lies below it.
func Within(path, dir string) bool { return path == dir || Below(path, dir) }

// Set is a set of paths that knows the directories above them.
type Set struct {
	paths map[string]bool
	dirs  map[string]int
}

// NewSet makes a set.
func NewSet(paths ...string) *Set {
	s := &Set{paths: map[string]bool{}, dirs: map[string]int{}}
	for _, p := range paths {
		s.Add(p)
	}
	return s
}

// Add puts a path into the set.
func (s *Set) Add(path string) {
	if s.paths[path] {
		return
	}
	s.paths[path] = true
	for dir := range Above(path) {
		s.dirs[dir]++
	}
}

// Remove takes a path out.
func (s *Set) Remove(path string) {
	if !s.paths[path] {
		return
	}
	delete(s.paths, path)
	for dir := range Above(path) {
		if s.dirs[dir]--; s.dirs[dir] == 0 {
			delete(s.dirs, dir)
		}
	}
}

// Has tells whether path is in the set.
func (s *Set) Has(path string) bool { return s.paths[path] }

// HasBelow tells whether something below dir is.
func (s *Set) HasBelow(dir string) bool { return s.dirs[dir] > 0 }

// Len is how many there are.
func (s *Set) Len() int { return len(s.paths) }

// All yields them in no order. What is removed meanwhile is not yielded.
func (s *Set) All() iter.Seq[string] { return maps.Keys(s.paths) }
