package unpack

import (
	"fmt"
	"os"
	"strings"
)

// idSets says which owners a file can have here.
type idSets struct {
	single     bool
	uids, gids idSet
}

// idSet is the inside of one id mapping.
type idSet []idRange

type idRange struct{ first, count int64 }

func (s idSet) has(id int) bool {
	for _, r := range s {
		if int64(id) >= r.first && int64(id) < r.first+r.count {
			return true
		}
	}
	return false
}

// fallback is the owner of what belongs to nobody here.
func (s idSet) fallback() int {
	if s.has(nobody) {
		return nobody
	}
	return 0
}

// readIDs reads the process's own mappings: the truth, whatever was asked for.
func readIDs(m Mapping) (idSets, error) {
	if m == MappingSingle {
		return idSets{single: true}, nil
	}
	uids, err := readMap("/proc/self/uid_map")
	if err != nil {
		return idSets{}, err
	}
	gids, err := readMap("/proc/self/gid_map")
	if err != nil {
		return idSets{}, err
	}
	return idSets{uids: uids, gids: gids}, nil
}

func readMap(file string) (idSet, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read id mapping: %w", err)
	}
	var s idSet
	for line := range strings.Lines(string(b)) {
		var r idRange
		var outside int64
		if _, err := fmt.Sscan(line, &r.first, &outside, &r.count); err != nil {
			return nil, fmt.Errorf("read id mapping %s: %w", file, err)
		}
		s = append(s, r)
	}
	if !s.has(0) {
		return nil, fmt.Errorf("read id mapping %s: id 0 is not mapped", file)
	}
	return s, nil
}
