package gitodb

import (
	"bytes"
	"encoding/hex"
	"strings"
)

// TreeEntry is one name in a tree.
type TreeEntry struct {
	Name string
	Dir  bool
	Link bool // to a commit of another repository
	ID   string
}

// maxTags bounds how many tags lead to a commit.
const maxTags = 10

// TreeOf is the tree of a commit, or of what a tag names.
func (s *Store) TreeOf(id []byte) (string, error) {
	for range maxTags {
		x, err := s.object(id)
		if err != nil {
			return "", err
		}
		if x.kind == "tree" {
			return string(id), nil
		}
		line, _, _ := strings.Cut(string(x.text), "\n")
		word, name, _ := strings.Cut(line, " ")
		next, err := hex.DecodeString(name)
		if err != nil || len(next) != s.HashSize || word != "tree" && word != "object" {
			return "", errObject
		}
		if word == "tree" {
			return string(next), nil
		}
		id = next
	}
	return "", errObject
}

// Tree reads a tree.
func (s *Store) Tree(id string) ([]TreeEntry, error) {
	x, err := s.object([]byte(id))
	if err != nil {
		return nil, err
	}
	if x.kind != "tree" {
		return nil, errObject
	}
	var out []TreeEntry
	for b := x.text; len(b) > 0; {
		head, rest, ok := bytes.Cut(b, []byte{0})
		mode, name, named := strings.Cut(string(head), " ")
		if !ok || !named || len(rest) < s.HashSize {
			return nil, errObject
		}
		mode = strings.TrimLeft(mode, "0")
		out = append(out, TreeEntry{Name: name, Dir: mode == "40000", Link: mode == "160000", ID: string(rest[:s.HashSize])})
		b = rest[s.HashSize:]
	}
	return out, nil
}
