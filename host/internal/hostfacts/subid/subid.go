// Package subid finds the subordinate ids that a user has been granted, and
// judges whether a full id mapping can be made of them.
//
// It grants nothing and writes no map; it is given the files' texts and opens
// nothing itself. It runs where package hostfacts does.
package subid

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Need is how many subordinate ids a full mapping takes.
const Need = 65536

// Range is a range of ids of the host.
type Range struct {
	Start uint32
	Count uint32
}

// End is one past the last id.
func (r Range) End() uint64 { return uint64(r.Start) + uint64(r.Count) }

func (r Range) overlaps(o Range) bool {
	return uint64(r.Start) < o.End() && uint64(o.Start) < r.End()
}

// grants is what one of the two files grants.
type grants struct {
	file   string
	mine   Range  // of the first of the user's ranges that is large enough
	found  bool   // mine is set
	small  bool   // the user has ranges, and none is large enough
	shared string // another owner whose range overlaps mine
	top    uint64 // one past the highest id that is granted to anyone
}

// Source is what there is to know about a user's grants.
type Source struct {
	User   string
	UID    int
	SubUID string // text of /etc/subuid
	SubGID string // text of /etc/subgid
	// GetSubIDs returns the output of getsubids with these flags for the user,
	// or "". It is asked only where a file names nothing for the user.
	GetSubIDs func(flags ...string) string
}

// IDs is what a user has been granted.
type IDs struct {
	user       string
	uids, gids grants
}

// Lookup reads the user's ranges: from the files, or, where they name nothing
// for the user (SSSD and the like), from getsubids.
func Lookup(s Source) IDs {
	return IDs{
		user: s.User,
		uids: s.grants("/etc/subuid", s.SubUID),
		gids: s.grants("/etc/subgid", s.SubGID, "-g"),
	}
}

// UIDs returns the Need user ids that a full mapping takes; see [IDs.Usable].
func (i IDs) UIDs() Range { return i.uids.mine }

// GIDs returns the Need group ids that a full mapping takes.
func (i IDs) GIDs() Range { return i.gids.mine }

func (s Source) grants(file, text string, flags ...string) grants {
	g := grants{file: file}
	var mine, others []entry
	for line := range strings.Lines(text) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if len(f) != 3 {
			continue
		}
		r, ok := parseRange(f[1], f[2])
		if !ok {
			continue
		}
		g.top = max(g.top, r.End())
		if f[0] == s.User || f[0] == strconv.Itoa(s.UID) {
			mine = append(mine, entry{f[0], r})
		} else {
			others = append(others, entry{f[0], r})
		}
	}
	if len(mine) == 0 {
		mine = s.fromNameService(flags)
	}
	for _, m := range mine {
		if m.Count < Need {
			g.small = true
			continue
		}
		// No more than is taken.
		g.mine, g.found, g.small = Range{Start: m.Start, Count: Need}, true, false
		break
	}
	for _, o := range others {
		if g.found && o.overlaps(g.mine) {
			g.shared = o.owner
		}
	}
	return g
}

type entry struct {
	owner string
	Range
}

// fromNameService reads lines like "0: dev 100000 65536".
func (s Source) fromNameService(flags []string) []entry {
	var list []entry
	for line := range strings.Lines(s.GetSubIDs(flags...)) {
		f := strings.Fields(line)
		if len(f) != 4 {
			continue
		}
		if r, ok := parseRange(f[2], f[3]); ok {
			list = append(list, entry{s.User, r})
		}
	}
	return list
}

// parseRange reads a range. One that is empty, begins at root or runs over the
// end of the id space is none.
func parseRange(start, count string) (Range, bool) {
	s, err1 := strconv.ParseUint(start, 10, 32)
	c, err2 := strconv.ParseUint(count, 10, 32)
	if err1 != nil || err2 != nil || s == 0 || c == 0 || s+c > math.MaxUint32 {
		return Range{}, false
	}
	return Range{Start: uint32(s), Count: uint32(c)}, true
}

// Usable reports whether a full mapping can be made, or in a sentence why not.
func (i IDs) Usable() (why string, ok bool) {
	for _, g := range []grants{i.uids, i.gids} {
		switch {
		case g.shared != "":
			return fmt.Sprintf("The subordinate ids of %s in %s overlap those of %s.", i.user, g.file, g.shared), false
		case g.small:
			return fmt.Sprintf("The subordinate ids of %s in %s are fewer than %d.", i.user, g.file, Need), false
		case !g.found:
			return fmt.Sprintf("No subordinate ids for %s in %s.", i.user, g.file), false
		}
	}
	return "", true
}

// Free returns the first of a run of ids that nobody has been granted.
func (i IDs) Free() uint64 { return max(i.uids.top, i.gids.top, 100000) }
