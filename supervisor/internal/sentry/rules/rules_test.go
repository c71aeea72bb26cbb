package rules_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"lazaret.dev/lazaret/supervisor/internal/sentry/gitdir"
	"lazaret.dev/lazaret/supervisor/internal/sentry/rules"
)

// names are section 2's lists, by class; "*" stands for more of the name.
var names = map[rules.Class]string{
	rules.ReadOnly: `config config.worktree commondir gitdir info/exclude info/attributes info/grafts info/x/y remotes remotes/x branches branches/x objects/info/alternates objects/info/http-alternates modules worktrees
objects/INFO/Alternates info/refs/x info/sparse-checkout/x`,
	rules.Gated:   `index HEAD index.stash.77 sharedindex.abc objects/pack/multi-pack-index objects/pack/multi-pack-index.d/multi-pack-index-ab.midx objects/pack/x.midx objects/Pack/Multi-Pack-Index objects/pack/x.MIDX`,
	rules.Scratch: `config.lock config.worktree.lock commondir.lock gitdir.lock info/exclude.lock info/attributes.lock objects/info/alternates.lock objects/info/http-alternates.lock`,
	rules.Private: `hooks hooks/pre-commit rebase-merge rebase-merge/end rebase-apply/last rr-cache rr-cache/x/preimage MERGE_RR MERGE_RR.lock gc.pid gc.pid.lock gc.log description EDIT_DESCRIPTION EDIT_DESCRIPTION.lock ADD_EDIT.patch
lazygit.yml gitweb/x svn/x annex/objects/x subtree-cache rebased-patches .COMMIT_EDITMSG.swp CONFIG CONFIG.lock Config INDEX INDEX.lock HOOKS Hooks/x MODULES/x/config head Head.lock index.stash sharedindexx shallow2 next-index-1
fsmonitor--daemon.ipc x.lock COMMONDIR merge_head MERGE_HEAD/x FOO/BAR _X A1 ` + "hoo\u212as/x ob\u017fects",
	rules.Shared: `objects objects/ab objects/ab/cd objects/info objects/info/packs objects/info/commit-graph objects/pack/pack-1.pack objects/pack/multi-pack-index.lock objects/pack/multi-pack-index.d refs refs/heads/main logs logs/HEAD reftable/tables.list
sequencer/todo lfs/objects/x packed-refs packed-refs.new packed-refs.lock MERGE_HEAD MERGE_MSG COMMIT_EDITMSG FETCH_HEAD ORIG_HEAD AUTO_MERGE AUTO_MERGE.lock MERGE_AUTOSTASH.lock BISECT_LOG NOTES_MERGE_REF NOTES_MERGE_WORKTREE NOTES_MERGE_WORKTREE/x
shallow shallow.lock shallow_x sharedindex_x index.lock index.stash.7.lock sharedindex.ab.lock next-index-1.lock HEAD.lock info info/refs info/refs_x info/sparse-checkout info/sparse-checkout.lock info/fast-import info/fast-import/x`,
}

func TestOf(t *testing.T) {
	t.Parallel()
	for class, list := range names {
		for name := range strings.FieldsSeq(list) {
			if got := rules.Of(name, false).Class; got != class {
				t.Errorf("%s is %v, want %v", name, got, class)
			}
		}
	}
	for name, class := range map[string]rules.Class{
		"config": rules.ReadOnly, "hooks/x": rules.ReadOnly, "index": rules.Gated, "HEAD": rules.Gated, "config.lock": rules.Scratch, "rebase-merge/end": rules.Private, "rr-cache/x": rules.Private, "MERGE_RR": rules.Private, "FETCH_HEAD": rules.Shared,
		"refs/x": rules.Shared, "Config": rules.ReadOnly, "HOOKS/x": rules.ReadOnly, "src/a": rules.Free, "README": rules.Free, "LICENSE": rules.Free, "x.lock": rules.Free, "description": rules.Free, "BISECT_LOG": rules.Shared, "COMMIT_EDITMSG": rules.Shared,
	} {
		if got := rules.Of(name, true).Class; got != class {
			t.Errorf("in a look-alike %s is %v, want %v", name, got, class)
		}
	}
}

// TestOfAliases: no other spelling of a protected name reaches the host.
func TestOfAliases(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"config", "config.worktree", "commondir", "hooks", "info", "index", "HEAD", "objects", "refs", "modules", "worktrees", "MERGE_RR", "rr-cache", "remotes", "packed-refs"}).Draw(t, "name")
		alias := []rune(name)
		i := rapid.IntRange(0, len(alias)-1).Draw(t, "at")
		switch rapid.IntRange(0, 3).Draw(t, "how") {
		case 0:
			alias[i] ^= 0x20
		case 1:
			alias = append(alias, '.')
		case 2:
			alias = append(alias[:i], append([]rune{'\u200c'}, alias[i:]...)...)
		default:
			alias = append(alias, []rune("::$DATA")...)
		}
		other := string(alias)
		if !gitdir.Folds(other, strings.ToLower(name)) || other == name {
			return
		}
		for _, look := range []bool{false, true} {
			if got := rules.Of(other, look).Class; got != rules.Private && got != rules.ReadOnly {
				t.Fatalf("%q is %v", other, got)
			}
		}
	})
}

func TestLockName(t *testing.T) {
	t.Parallel()
	for name := range strings.FieldsSeq("index.lock refs/heads/x.lock HEAD.lock packed-refs.lock packed-refs.new objects/ab/tmp_obj_1 objects/pack/tmp_pack_1 objects/pack/.tmp-1-pack-1.pack shallow_x sharedindex_x index.stash.1 logs/HEAD.lock objects/tmp_objdir-1") {
		if !rules.LockName(name) {
			t.Errorf("%s is no lock", name)
		}
	}
	for name := range strings.FieldsSeq("index HEAD refs/heads/x logs/refs/.tmp-renamed-log objects/ab/cd tmp_x refs/tmp_x sharedindex.ab shallow") {
		if rules.LockName(name) {
			t.Errorf("%s is a lock", name)
		}
	}
}

func TestClass(t *testing.T) {
	t.Parallel()
	for class, want := range map[rules.Class]string{rules.Free: "free", rules.Shared: "shared", rules.ReadOnly: "read-only", rules.Gated: "gated", rules.Private: "private", rules.Born: "born", rules.Scratch: "scratch"} {
		if class.String() != want || class.Domain() != (class >= rules.Private) {
			t.Errorf("%v is the Domain's: %v", class, class.Domain())
		}
	}
}
