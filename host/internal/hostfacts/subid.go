package hostfacts

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// needIDs is how many subordinate ids a full mapping takes.
const needIDs = 65536

// Range is a range of ids of the host.
type Range struct {
	Start uint32
	Count uint32
}

func (r Range) end() uint64 { return uint64(r.Start) + uint64(r.Count) } // one past the last

func (r Range) overlaps(o Range) bool {
	return uint64(r.Start) < o.end() && uint64(o.Start) < r.end()
}

// grants is what one of the two files grants.
type grants struct {
	file   string
	mine   Range  // the first of the user's ranges that is large enough
	found  bool   // mine is set
	small  bool   // the user has ranges, and none is large enough
	shared string // another owner whose range overlaps mine
	top    uint64 // one past the highest id that is granted to anyone
}

type ids struct{ uids, gids grants }

// lookupIDs reads the user's subordinate ranges: from the files, or, where they
// name nothing for the user (SSSD and the like), from getsubids.
func lookupIDs(ctx context.Context, e Env) ids {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return ids{
		uids: e.grants(ctx, "/etc/subuid"),
		gids: e.grants(ctx, "/etc/subgid", "-g"),
	}
}

func (e Env) grants(ctx context.Context, file string, flags ...string) grants {
	g := grants{file: file}
	var mine, others []entry
	for line := range strings.Lines(e.read(file)) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if len(f) != 3 {
			continue
		}
		r, ok := parseRange(f[1], f[2])
		if !ok {
			continue
		}
		g.top = max(g.top, r.end())
		if f[0] == e.User || f[0] == strconv.Itoa(e.UID) {
			mine = append(mine, entry{f[0], r})
		} else {
			others = append(others, entry{f[0], r})
		}
	}
	if len(mine) == 0 {
		mine = e.getsubids(ctx, flags...)
	}
	for _, m := range mine {
		if m.Count < needIDs {
			g.small = true
			continue
		}
		g.mine, g.found, g.small = m.Range, true, false
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

// getsubids asks the name service. Its lines read "0: dev 100000 65536".
func (e Env) getsubids(ctx context.Context, flags ...string) []entry {
	tool := e.lookPath("getsubids")
	if tool == "" {
		return nil
	}
	out, err := e.System.Run(ctx, tool, append(flags, e.User)...)
	if err != nil || out.Status != 0 {
		return nil
	}
	var list []entry
	for line := range strings.Lines(out.Stdout) {
		f := strings.Fields(line)
		if len(f) != 4 {
			continue
		}
		if r, ok := parseRange(f[2], f[3]); ok {
			list = append(list, entry{e.User, r})
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

// usable reports whether a full mapping can be made, or why not.
func (i ids) usable(user string) (why string, ok bool) {
	for _, g := range []grants{i.uids, i.gids} {
		switch {
		case g.shared != "":
			return fmt.Sprintf("The subordinate ids of %s in %s overlap those of %s.", user, g.file, g.shared), false
		case g.small:
			return fmt.Sprintf("The subordinate ids of %s in %s are fewer than %d.", user, g.file, needIDs), false
		case !g.found:
			return fmt.Sprintf("No subordinate ids for %s in %s.", user, g.file), false
		}
	}
	return "", true
}

// free returns the first of a run of ids that nobody has been granted.
func (i ids) free() uint64 { return max(i.uids.top, i.gids.top, 100000) }
