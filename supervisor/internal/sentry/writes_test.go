package sentry_test

import (
	"strings"
	"syscall"
	"testing"

	"lazaret.dev/lazaret/supervisor/internal/sentry"
	"lazaret.dev/lazaret/supervisor/internal/sentry/targets"
)

// gitWrites is section 4 of the research, row by row, for a gitdir G: what Git
// does there by system calls, which the Sentry lets it do. Of what is private, the
// host sees nothing.
var gitWrites = []struct {
	row     string
	ops     []string
	private bool // nothing reaches the host
	gate    bool // with the configuration's gate
}{
	{row: "config: identical", ops: []string{"lock G/config = " + hostConfig}, private: true},
	{row: "config.worktree: sparse-checkout init", ops: []string{"lock G/config = " + hostConfig + "[extensions]\n\tworktreeConfig = true\n", "lock G/config.worktree = [core]\n\tsparseCheckout = true\n"}, gate: true},
	{row: "config: push -u, branch -u, switch -c x origin/y", ops: []string{"lock G/config = " + hostConfig + "[branch \"x\"]\n\tremote = origin\n\tmerge = refs/heads/y\n"}, gate: true},
	{row: "config: branch -D", ops: []string{"lock G/config = " + hostConfig + "[branch \"x\"]\n\tremote = .\n", "lock G/config = " + hostConfig}, gate: true},
	{row: "config: submodule init", ops: []string{"lock G/config = " + hostConfig + "[submodule \"s\"]\n\tactive = true\n\turl = https://example.org/x.git\n"}, gate: true},
	{row: "worktree add", ops: []string{
		"mkdir G/worktrees/new", "create G/worktrees/new/commondir", "create G/worktrees/new/gitdir", "create G/worktrees/new/HEAD", "mkdir G/worktrees/new/refs",
		"lock G/worktrees/new/index = x", "create new/.git",
	}, private: true},
	{row: "init, clone, first submodule clone: a gitdir with hooks, info/exclude, description, branches, and the probe", ops: []string{
		"mkdir n/.git", "mkdir n/.git/hooks", "create n/.git/hooks/x.sample", "mkdir n/.git/info", "create n/.git/info/exclude", "create n/.git/description", "mkdir n/.git/branches", "symlink n/.git/tXXXXXX testing",
		"rm n/.git/tXXXXXX", "lock n/.git/config = x", "lock n/.git/HEAD = x", "mkdir n/.git/objects", "create n/.git/objects/info/alternates", "mkdir n/.git/refs",
		"mkdir G/modules/new", "mkdir G/modules/new/objects", "create G/modules/new/config", "create G/modules/new/HEAD", "create n/s/.git",
	}, private: true},
	{row: "info/sparse-checkout", ops: []string{"lock G/info/sparse-checkout = x"}},
	{row: "info/refs", ops: []string{"create G/info/refs_abc", "chmod G/info/refs_abc", "mv G/info/refs_abc G/info/refs"}},
	{row: "index: 50+ commands", ops: []string{"lock G/index = good 2", "touch G/index"}},
	{row: "index: stash", ops: []string{
		"create G/index.lock = good 3", "mv G/index.lock G/index.stash.77", "lock G/index.stash.77 = good 4", "rm G/index.stash.77",
	}},
	{row: "index: partial commit", ops: []string{
		"create G/index.lock = good 5", "create G/next-index-77.lock = good", "write G/next-index-77.lock", "rm G/next-index-77.lock", "mv G/index.lock G/index",
	}},
	{row: "index: lock and roll back", ops: []string{"create G/index.lock", "write G/index.lock", "rm G/index.lock"}},
	{row: "index: removed by hand, and reset", ops: []string{"rm G/index", "lock G/index = good"}},
	{row: "sharedindex, where the host splits its own", ops: []string{"create G/sharedindex_abc = good", "chmod G/sharedindex_abc", "mv G/sharedindex_abc G/sharedindex.1234", "touch G/sharedindex.1234", "rm G/sharedindex.1234"}},
	{row: "HEAD: switch, rebase, bisect", ops: []string{"lock G/HEAD = ref: refs/heads/topic\n", "lock G/HEAD = " + oid + "\n"}},
	{row: "HEAD: commit only locks it", ops: []string{"create G/HEAD.lock", "rm G/HEAD.lock"}},
	{row: "refs", ops: []string{"lock G/refs/heads/x = " + oid, "mkdir G/refs/remotes", "mkdir G/refs/remotes/o", "lock G/refs/remotes/o/HEAD = x", "rm G/refs/heads/x", "rmdir G/refs/remotes/o/x", "rmdir G/refs/tags"}},
	{row: "refs: stash, replace, notes", ops: []string{"lock G/refs/stash = x", "mkdir G/refs/replace", "lock G/refs/replace/" + oid + " = x", "mkdir G/refs/notes", "lock G/refs/notes/commits = x"}},
	{row: "refs: a branch takes the place of empty directories, and back", ops: []string{"mkdir G/refs/heads/a", "create G/refs/heads/a/b.lock", "rm G/refs/heads/a/b.lock", "rmdir G/refs/heads/a", "lock G/refs/heads/a = x"}},
	{row: "packed-refs", ops: []string{"create G/packed-refs.lock", "create G/packed-refs.new = x", "mv G/packed-refs.new G/packed-refs", "rm G/packed-refs.lock"}},
	{row: "logs", ops: []string{"write G/logs/HEAD = x", "write G/logs/refs/heads/main = x", "mkdir G/logs/refs/remotes", "create G/logs/refs/remotes/x", "create G/logs/refs/stash", "lock G/logs/HEAD = y"}},
	{row: "logs: branch -m", ops: []string{
		"mv G/logs/refs/heads/main G/logs/refs/.tmp-renamed-log", "create G/refs/heads/m2.lock", "mv G/refs/heads/m2.lock G/refs/heads/m2", "rm G/refs/heads/main", "mv G/logs/refs/.tmp-renamed-log G/logs/refs/heads/m2",
	}},
	{row: "objects: loose", ops: []string{"mkdir G/objects/cd", "create G/objects/cd/tmp_obj_x", "chmod G/objects/cd/tmp_obj_x", "ln G/objects/cd/tmp_obj_x G/objects/cd/ef", "rm G/objects/cd/tmp_obj_x", "touch G/objects/ab/cdef", "rm G/objects/ab/cdef", "rmdir G/objects/ab"}},
	{row: "objects: renamed where links do not work", ops: []string{"create G/objects/ab/tmp_obj_y", "mv G/objects/ab/tmp_obj_y G/objects/ab/01"}},
	{row: "objects: received in quarantine", ops: []string{
		"mkdir G/objects/tmp_objdir-incoming-1", "mkdir G/objects/tmp_objdir-incoming-1/pack", "create G/objects/tmp_objdir-incoming-1/pack/tmp_pack_1", "mv G/objects/tmp_objdir-incoming-1/pack/tmp_pack_1 G/objects/tmp_objdir-incoming-1/pack/pack-1.pack",
		"ln G/objects/tmp_objdir-incoming-1/pack/pack-1.pack G/objects/pack/pack-1.pack", "rm G/objects/tmp_objdir-incoming-1/pack/pack-1.pack", "rmdir G/objects/tmp_objdir-incoming-1/pack", "rmdir G/objects/tmp_objdir-incoming-1",
		"mkdir G/objects/tmp_objdir-x", "mkdir G/objects/tmp_objdir-x/a", "mv G/objects/tmp_objdir-x/a G/objects/tmp_objdir-x/b",
	}},
	{row: "objects: gc, repack", ops: []string{
		"create G/objects/pack/.tmp-77-pack-1.pack", "mv G/objects/pack/.tmp-77-pack-1.pack G/objects/pack/pack-1.pack", "create G/objects/pack/tmp_idx_1", "mv G/objects/pack/tmp_idx_1 G/objects/pack/pack-1.idx", "create G/objects/pack/pack-1.rev",
		"create G/objects/pack/pack-1.mtimes", "create G/objects/pack/pack-1.keep", "rm G/objects/pack/pack-aa.pack", "create G/objects/info/packs_x", "mv G/objects/info/packs_x G/objects/info/packs",
	}},
	{row: "objects: commit-graph", ops: []string{"lock G/objects/info/commit-graph = x", "mkdir G/objects/info/commit-graphs", "lock G/objects/info/commit-graphs/commit-graph-chain = x", "create G/objects/info/commit-graphs/tmp_graph_1", "mv G/objects/info/commit-graphs/tmp_graph_1 G/objects/info/commit-graphs/graph-1.graph"}},
	{row: "objects: multi-pack-index", ops: []string{"lock G/objects/pack/multi-pack-index = " + midx("pack-01.idx", "tmp-0f.pack"), "rm G/objects/pack/multi-pack-index"}},
	{row: "objects: multi-pack-index in layers", ops: []string{
		"lock G/objects/pack/multi-pack-index = " + midx("pack-01.idx"), "mkdir G/objects/pack/multi-pack-index.d", "ln G/objects/pack/multi-pack-index G/objects/pack/multi-pack-index.d/multi-pack-index-1.midx",
		"create G/objects/pack/multi-pack-index.d/tmp_midx_1 = " + midx("pack-02.idx"), "mv G/objects/pack/multi-pack-index.d/tmp_midx_1 G/objects/pack/multi-pack-index.d/multi-pack-index-2.midx",
		"lock G/objects/pack/multi-pack-index.d/multi-pack-index-chain = x", "rm G/objects/pack/multi-pack-index",
	}},
	{row: "rebase-merge", ops: []string{
		"mkdir G/rebase-merge", "lock G/rebase-merge/git-rebase-todo = x", "create G/rebase-merge/git-rebase-todo.backup", "lock G/rebase-merge/done = x", "lock G/rebase-merge/author-script = x", "create G/rebase-merge/msgnum",
		"create G/rebase-merge/end", "create G/rebase-merge/.git-rebase-todo.swp", "mkdir G/rebase-merge/rewritten", "rm G/rebase-merge/end", "rmdir G/rebase-merge",
	}, private: true},
	{row: "rebase-apply, rebased-patches", ops: []string{"mkdir G/rebase-apply", "create G/rebase-apply/next", "create G/rebase-apply/patch", "create G/rebased-patches", "rm G/rebased-patches"}, private: true},
	{row: "sequencer", ops: []string{"mkdir G/sequencer", "lock G/sequencer/todo = x", "lock G/sequencer/head = x", "create G/sequencer/opts", "rm G/sequencer/todo", "rmdir G/sequencer"}},
	{row: "pseudo-refs and messages", ops: []string{
		"create G/MERGE_HEAD", "create G/MERGE_MSG", "create G/MERGE_MODE", "lock G/CHERRY_PICK_HEAD = x", "lock G/REVERT_HEAD = x", "lock G/ORIG_HEAD = x", "lock G/AUTO_MERGE = x", "lock G/MERGE_AUTOSTASH = x", "create G/FETCH_HEAD",
		"write G/FETCH_HEAD", "create G/SQUASH_MSG", "write G/COMMIT_EDITMSG", "create G/TAG_EDITMSG", "create G/NOTES_EDITMSG", "lock G/REBASE_HEAD = x", "rm G/MERGE_HEAD", "create G/BISECT_START", "create G/BISECT_LOG", "create G/BISECT_TERMS",
		"create G/BISECT_NAMES", "create G/BISECT_ANCESTORS_OK", "lock G/BISECT_EXPECTED_REV = x", "lock G/BISECT_HEAD = x", "rm G/BISECT_START",
	}},
	{row: "notes merge", ops: []string{"lock G/NOTES_MERGE_REF = x", "lock G/NOTES_MERGE_PARTIAL = x", "mkdir G/NOTES_MERGE_WORKTREE", "create G/NOTES_MERGE_WORKTREE/" + oid, "rm G/NOTES_MERGE_WORKTREE/" + oid, "rmdir G/NOTES_MERGE_WORKTREE"}},
	{row: "shallow", ops: []string{"lock G/shallow = x", "create G/shallow_x", "rm G/shallow_x", "rm G/shallow"}},
	{row: "reftable", ops: []string{"mkdir G/reftable", "lock G/reftable/tables.list = x", "create G/reftable/0x1.ref.lock", "mv G/reftable/0x1.ref.lock G/reftable/0x1.ref", "rm G/reftable/0x1.ref"}},
	{row: "lfs", ops: []string{"mkdir G/lfs", "mkdir G/lfs/tmp", "create G/lfs/tmp/1", "mkdir G/lfs/objects", "mv G/lfs/tmp/1 G/lfs/objects/1", "chmod G/lfs/objects/1", "create G/lfs/locks"}},
	{row: "MERGE_RR, rr-cache", ops: []string{"lock G/MERGE_RR = x", "mkdir G/rr-cache", "mkdir G/rr-cache/1", "lock G/rr-cache/1/preimage = x", "create G/rr-cache/1/postimage"}, private: true},
	{row: "gc.pid, gc.log, EDIT_DESCRIPTION, ADD_EDIT.patch, subtree-cache, hooks", ops: []string{
		"lock G/gc.pid = x", "rm G/gc.pid", "lock G/gc.log = x", "create G/EDIT_DESCRIPTION", "create G/ADD_EDIT.patch", "mkdir G/subtree-cache", "create G/subtree-cache/1", "create G/hooks/pre-push", "chmod G/hooks/pre-push",
		"write G/description = x", "create G/.COMMIT_EDITMSG.swp", "mkdir G/svn", "mkdir G/filter-repo", "create G/filter-repo/x",
	}, private: true},
}

// TestGitWrites: Git does in a gitdir of the host what it does anywhere. The
// rows run in the main gitdir, a module's, a linked worktree's, in a bare
// repository that is the workspace, and in a common directory.
func TestGitWrites(t *testing.T) {
	t.Parallel()
	for _, g := range []string{".git", ".git/modules/sub", "store/x.git", "", "."} {
		t.Run("in "+g, func(t *testing.T) {
			t.Parallel()
			for _, row := range gitWrites {
				host, o := hostTree(), sentry.Options{ConfigGate: row.gate, Gitdir: g == "."}
				at := g + "/"
				switch g {
				case "store/x.git":
					host.Add("decl/.git = gitdir: ../store/x.git\n")
					addGitdir(host.Add, at)
				case "", ".":
					at = ""
					host.Remove(".git")
					addGitdir(host.Add, at)
				}
				bare := g == ""
				if bare && (row.gate || strings.Contains(row.row, "gc.pid") || row.row == "rebase-apply, rebased-patches") {
					continue // names of no gitdir are the tree's own there, and its hooks the host's
				}
				m := newSim(t, host, o)
				before := host.Text()
				for _, op := range row.ops {
					op = strings.ReplaceAll(op, "G/", at)
					if err := m.do(op); err != nil {
						t.Errorf("%s: %q: %v", row.row, op, err)
					}
				}
				if changed := host.Text() != before; changed == row.private && (!bare || !row.private) && !netNothing[row.row] {
					t.Errorf("%s: the host changed: %v", row.row, changed)
				}
			}
		})
	}
}

// netNothing are rows that leave the host as it was.
var netNothing = map[string]bool{
	"index: lock and roll back": true, "HEAD: commit only locks it": true, "shallow": true, "sequencer": true, "objects: multi-pack-index": true, "config: branch -D": true, "index: stash": true,
}

func addGitdir(add func(string), at string) {
	for _, e := range []string{
		"HEAD = ref: refs/heads/main\n", "config = " + hostConfig, "index = " + goodIndex, "info/exclude", "objects/info/", "objects/pack/pack-aa.pack", "objects/ab/cdef", "refs/heads/main", "refs/tags/",
		"logs/HEAD", "logs/refs/heads/main", "COMMIT_EDITMSG", "modules/", "worktrees/", "hooks/", "description",
	} {
		add(at + e)
	}
}

// TestErrnos: what programs inside see.
func TestErrnos(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		op    string
		errno syscall.Errno
	}{
		{"write .git/config", syscall.EROFS},
		{"create .git/config.lock", 0},
		{"write .git/index", syscall.EROFS},
		{"symlink .git/FOO x", syscall.EPERM},
		{"mkfifo .git/refs/x", syscall.EPERM},
		{"mkdir .git/MERGE_HEAD", syscall.EPERM},
		{"symlink .git/config.lock x", syscall.EPERM},
		{"create .git/logs2", 0},
		{"ln a.txt .git/FOO", syscall.EPERM},
		{"ln .git/ORIG_HEAD a", syscall.EPERM},
		{"ln .git/objects/ab/cdef .git/modules/sub/objects/ab/x", syscall.EPERM},
		{"ln a.txt .git/hooks/x", syscall.EXDEV},
		{"mv dir .git/refs/heads/d", syscall.EXDEV},
		{"mv dir .git/hooks/d", syscall.EXDEV},
		{"mv dir sub3/.git", syscall.EXDEV},
		{"mv .git/refs/heads x", syscall.EXDEV},
		{"mv .git/objects/ab .git/objects/ac", syscall.EROFS},
		{"mv a.txt .git/FOO", 0},
		{"mv .git/ORIG_HEAD x", 0},
		{"mv .git/HEAD x", syscall.EROFS},
		{"mv .git x", syscall.EROFS},
		{"mv .git/index .git/FOO", syscall.EROFS},
		{"mv .git/index x", syscall.EROFS},
		{"mv .git/config.lock .git/commondir", syscall.EROFS},
		{"mv .git/info/exclude.lock .git/config", syscall.EROFS},
		{"mv dir .git/refs", syscall.EROFS},
		{"mv .git/worktrees/wt/logs/HEAD .git/worktrees/wt/logs/x", syscall.EROFS},
		{"ln .git/config x", syscall.EROFS},
		{"ln .git/ORIG_HEAD .git/FOO", syscall.EPERM},
		{"ln .git/objects/ab/cdef .git/FOO", syscall.EPERM},
		{"ln .git/index .git/objects/pack/multi-pack-index", syscall.EROFS},
		{"mv deep d2", syscall.EROFS},
		{"xchg a.txt .git/ORIG_HEAD", syscall.EROFS},
		{"xchg a.txt dir", 0},
		{"rmdir .git/logs", syscall.EROFS},
		{"rm .git/HEAD", syscall.EROFS},
		{"mv a.txt dir/b.txt", 0},
		{"mkdir .git/info", 0},
		{"write .git/objects/ab/cdef", syscall.EROFS},
		{"chmod .git/objects/pack/pack-aa.pack", syscall.EROFS},
		{"touch .git/objects/ab/cdef", 0},
		{"write .git/lfs/objects/ab", syscall.EROFS},
		{"create .git/lfs/x", 0},
		{"create .git/sequencer", syscall.EROFS},
		{"mv a.txt .git/sequencer", syscall.EROFS},
		{"mkdir .git/sequencer", 0},
	} {
		m := newSim(t, hostTree(), sentry.Options{})
		wantErrno(t, tc.op, m.do(tc.op), tc.errno)
	}
	// A gitdir of the host without HEAD does not get one from inside.
	host := hostTree()
	host.Remove(".git/HEAD")
	m := newSim(t, host, sentry.Options{})
	wantErrno(t, "a birth through the gate", m.do("lock .git/HEAD = ref: refs/heads/main\n"), syscall.EROFS)
	// A lock is for its own name.
	for from, to := range map[string]string{".git/config.lock": ".git/commondir", ".git/info/exclude.lock": ".git/config", ".git/config.worktree.lock": ".git/modules/sub/config.worktree"} {
		_, err := m.s.Check(sentry.Op{Kind: sentry.Rename, Path: from, To: to, Links: 1, Made: true})
		wantErrno(t, from+" to "+to, err, syscall.EROFS)
	}
	// Git may have left its own log aside in an earlier session.
	m.host.Add(".git/logs/refs/.tmp-renamed-log")
	wantErrno(t, "a log left aside", m.do("mv .git/logs/refs/.tmp-renamed-log .git/logs/refs/heads/x"), 0)
	// Another spelling of a target that is not there is the target, where names fold.
	m = newSim(t, hostTree(), sentry.Options{}).targets(hooksPath, target("conf/absent"), target("a.txt"))
	for op, errno := range map[string]syscall.Errno{"create CONF/Absent": syscall.EROFS, "create .HUSKY/pre-commit": syscall.EROFS, "mkdir .Husky": syscall.EROFS, "create A.TXT": 0, "create conf/ABSENT/x": 0, "mkdir CONF": 0} {
		wantErrno(t, op, m.do(op), errno)
	}
	// A file with other names takes them along into a gitdir.
	s := newSim(t, hostTree(), sentry.Options{}).s
	for _, links := range []uint64{0, 2} {
		_, err := s.Check(sentry.Op{Kind: sentry.Rename, Path: "a.txt", To: ".git/FOO", Links: links})
		wantErrno(t, "rename of a file with other names", err, syscall.EXDEV)
	}
	_, err := s.Check(sentry.Op{Kind: sentry.Rename, Path: ".git/index.lock", To: ".git/index", Links: 1})
	wantErrno(t, "rename of a lock that is not there", err, syscall.EROFS)
}

// TestTargets: R8 looks at the way to a target as well.
func TestTargets(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		host []string
		ops  map[string]syscall.Errno
	}{
		{nil, map[string]syscall.Errno{
			"symlink conf evil": syscall.EROFS, "symlink conf/d x": syscall.EROFS, "ln l conf": syscall.EROFS, "mv l conf": syscall.EROFS, "mkdir conf": 0, "create conf": 0, "mv evil conf": syscall.EROFS, "mv evil/d conf": 0, "mv evil2 conf": syscall.EROFS,
			"mv evil/d conf/d": syscall.EROFS, "create conf/d/local": syscall.EROFS, "mkdir conf/d/local": 0, "mv dir conf/d/local": 0, "mv a.txt conf/d/local": syscall.EROFS, "mkfifo conf/d/local": syscall.EROFS,
		}},
		{[]string{"conf -> dir"}, map[string]syscall.Errno{
			"rm conf": syscall.EROFS, "mv conf x": syscall.EROFS, "mv a.txt conf": syscall.EROFS, "xchg l conf": syscall.EROFS, "xchg conf l": syscall.EROFS, "xchg a.txt conf": syscall.EROFS, "write a.txt": 0,
		}},
		{[]string{"conf/x"}, map[string]syscall.Errno{
			"xchg conf l": syscall.EROFS, "xchg l conf": syscall.EROFS, "xchg conf evil": syscall.EROFS, "xchg evil conf": syscall.EROFS, "xchg conf dir": 0, "mv conf x": 0, "rm conf/x": 0, "rmdir conf": 0,
		}},
		{[]string{"conf/d/local"}, map[string]syscall.Errno{
			"mv conf x": syscall.EROFS, "mv conf/d x": syscall.EROFS, "rm conf/d/local": syscall.EROFS, "write conf/d/local": syscall.EROFS, "xchg dir conf": syscall.EROFS, "ln conf/d/local x": syscall.EROFS, "chmod conf/d/local": syscall.EROFS, "create conf/d/other": 0,
		}},
	} {
		for op, errno := range tc.ops {
			host := hostTree()
			for _, e := range append(tc.host, "evil/d/local", "evil2/d -> ../evil/d", "l -> evil") {
				host.Add(e)
			}
			m := newSim(t, host, sentry.Options{}).targets(target("conf/d/local"))
			wantErrno(t, op, m.do(op), errno)
		}
	}
}

// TestLockOfTheHost: R7 is about the name: what is renamed to it through the
// mount is the sandbox's, and the gate wants the sandbox's alone.
func TestLockOfTheHost(t *testing.T) {
	t.Parallel()
	host := hostTree()
	host.Add(".git/index.lock = good")
	m := newSim(t, host, sentry.Options{})
	wantErrno(t, "publish", m.do("mv .git/index.lock .git/index"), syscall.EROFS)
	host.Remove(".git/index.lock")
	m.s.Changed(".git/index.lock")
	wantErrno(t, "own lock", m.do("lock .git/index = good"), 0)
	op := sentry.Op{Kind: sentry.Rename, Path: ".git/index.lock", To: ".git/index", Links: 1, Made: true}
	for _, tc := range []struct {
		lock   string
		change func(*sentry.Op)
		errno  syscall.Errno
	}{
		{".git/index.lock", func(*sentry.Op) {}, 0},
		{".git/index.lock", func(op *sentry.Op) { op.Links = 2 }, syscall.EROFS},
		{".git/index.lock", func(op *sentry.Op) { op.Links = 0 }, syscall.EROFS},
		{".git/index.lock", func(op *sentry.Op) { op.Made = false }, syscall.EROFS},
		{".git/index.lock -> x", func(*sentry.Op) {}, syscall.EROFS},
		{".git/index.lock/", func(*sentry.Op) {}, syscall.EROFS},
		{"index.lock", func(op *sentry.Op) { op.Path = "index.lock" }, syscall.EROFS},
		{".git/logs/index.lock", func(op *sentry.Op) { op.Path = ".git/logs/index.lock" }, syscall.EROFS},
		{".git/objects/info/tmp_x", func(op *sentry.Op) {
			op.Path, op.To = ".git/objects/info/tmp_x", ".git/objects/pack/multi-pack-index"
		}, syscall.EROFS},
	} {
		host := hostTree()
		host.Add(tc.lock)
		op := op
		tc.change(&op)
		act, err := newSim(t, host, sentry.Options{}).s.Check(op)
		wantErrno(t, tc.lock, err, tc.errno)
		if err == nil && act != sentry.Publish {
			t.Errorf("%s: action %v", tc.lock, act)
		}
	}
}

// TestBareRoot: a bare repository with worktrees beside its parts is a place to
// work in.
func TestBareRoot(t *testing.T) {
	t.Parallel()
	host := hostTree()
	host.Remove(".git")
	addGitdir(host.Add, "")
	host.Add("main/.git = gitdir: ../worktrees/main\n")
	host.Add("worktrees/main/HEAD")
	host.Add("worktrees/main/commondir = ../..\n")
	host.Add("main/a")
	m := newSim(t, host, sentry.Options{})
	if err := m.run("write main/a = x", "mkdir main/d", "symlink main/d/l ../a", "mv main/d main/e", "create README", "symlink LICENSE main/a", "mkdir feature", "create feature/.git", "lock worktrees/main/HEAD = ref: refs/heads/x\n"); err != nil {
		t.Error(err)
	}
	for _, op := range []string{"write config = x", "create hooks/pre-commit", "write main/.git = x", "create info/attributes", "mv objects o", "rm HEAD", "create COMMONDIR", "mv main m2"} {
		wantErrno(t, op, m.do(op), syscall.EROFS)
	}
	if c := m.s.Classify("feature/.git").Class; c != sentry.Born {
		t.Errorf("a new worktree's pointer is %v", c)
	}
}

// TestClassify: where the bytes of a name are.
func TestClassify(t *testing.T) {
	t.Parallel()
	host := hostTree()
	host.Add(".git/rebase-apply/next")
	host.Add(".git/gc.log")
	host.Add("fixture/HEAD")
	host.Add("fixture/objects/")
	host.Add("fixture/refs/")
	m := newSim(t, host, sentry.Options{}).targets(hooksPath, targets.Target{Path: "tools/f"}, targets.Target{Path: ".git/refs/run"})
	for _, tc := range []struct {
		path string
		want sentry.Verdict
	}{
		{"a.txt", sentry.Verdict{}},
		{".git", sentry.Verdict{Class: sentry.Shared, Rule: sentry.R6, Gitdir: ".git"}},
		{".git/config", sentry.Verdict{Class: sentry.ReadOnly, Rule: sentry.R2, Gitdir: ".git"}},
		{".git/CONFIG", sentry.Verdict{Class: sentry.Private, Rule: sentry.R3, Gitdir: ".git"}},
		{".git/CONFIG.lock", sentry.Verdict{Class: sentry.Private, Rule: sentry.R3, Gitdir: ".git"}},
		{".git/commondir", sentry.Verdict{Class: sentry.ReadOnly, Rule: sentry.R2, Gitdir: ".git"}},
		{".git/remotes/x", sentry.Verdict{Class: sentry.ReadOnly, Rule: sentry.R2, Gitdir: ".git"}},
		{".git/info/sparse-checkout", sentry.Verdict{Class: sentry.Shared, Rule: sentry.R5, Gitdir: ".git"}},
		{".git/info/fast-import/x", sentry.Verdict{Class: sentry.Shared, Rule: sentry.R5, Gitdir: ".git"}},
		{".git/info/x/y", sentry.Verdict{Class: sentry.ReadOnly, Rule: sentry.R2, Gitdir: ".git"}},
		{".git/config.lock", sentry.Verdict{Class: sentry.Scratch, Rule: sentry.R2, Gitdir: ".git"}},
		{".git/info/exclude.lock", sentry.Verdict{Class: sentry.Scratch, Rule: sentry.R2, Gitdir: ".git"}},
		{".git/index", sentry.Verdict{Class: sentry.Gated, Rule: sentry.R4, Gitdir: ".git"}},
		{".git/hooks/x", sentry.Verdict{Class: sentry.Private, Rule: sentry.R3, Gitdir: ".git"}},
		{".git/gc.log", sentry.Verdict{Class: sentry.Private, Rule: sentry.R3, Gitdir: ".git", Below: true}},
		{".git/gc.pid", sentry.Verdict{Class: sentry.Private, Rule: sentry.R3, Gitdir: ".git"}},
		{".git/svn/x", sentry.Verdict{Class: sentry.Private, Rule: sentry.R3, Gitdir: ".git"}},
		{".git/rebase-merge/end", sentry.Verdict{Class: sentry.Private, Rule: sentry.R3, Gitdir: ".git"}},
		{".git/rebase-apply/next", sentry.Verdict{Class: sentry.ReadOnly, Rule: sentry.R3, Gitdir: ".git"}},
		{".git/refs/run", sentry.Verdict{Class: sentry.ReadOnly, Rule: sentry.R8, Gitdir: ".git"}},
		{".git/modules", sentry.Verdict{Class: sentry.ReadOnly, Rule: sentry.R6, Gitdir: ".git"}},
		{"x/.git/config", sentry.Verdict{Class: sentry.Born, Rule: sentry.R1, Gitdir: "x/.git"}},
		{"sub/.git", sentry.Verdict{Class: sentry.ReadOnly, Rule: sentry.R2, Gitdir: "sub/.git"}},
		{".husky/pre-commit", sentry.Verdict{Class: sentry.Private, Rule: sentry.R8}},
		{"tools/f", sentry.Verdict{Class: sentry.ReadOnly, Rule: sentry.R8}},
		{"fixture/config", sentry.Verdict{Class: sentry.ReadOnly, Rule: sentry.R2, Gitdir: "fixture"}},
		{"fixture/hooKs", sentry.Verdict{Class: sentry.ReadOnly, Rule: sentry.R2, Gitdir: "fixture"}},
		{"fixture/x", sentry.Verdict{Gitdir: "fixture"}},
	} {
		if got := m.s.Classify(tc.path); got != tc.want {
			t.Errorf("Classify(%q) = %+v, want %+v", tc.path, got, tc.want)
		}
	}
}

// TestFailsClosed: what cannot be looked up is read-only.
func TestFailsClosed(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ fail, path string }{
		{"dir/HEAD", "dir/x"}, {"dir/.git", "dir/.git"}, {".git/rebase-merge", ".git/rebase-merge/x"}, {"tools/f", "tools/f"}, {".git/gc.log", ".git/gc.log"},
	} {
		host := hostTree()
		m := newSim(t, host, sentry.Options{}).targets(targets.Target{Path: "tools/f"})
		host.Fail(tc.fail, syscall.EIO)
		m.s.Forget("")
		if c := m.s.Classify(tc.path).Class; c != sentry.ReadOnly {
			t.Errorf("Classify(%q) with a failing %q is %v", tc.path, tc.fail, c)
		}
		wantErrno(t, tc.path, m.do("create "+tc.path), syscall.EROFS)
	}
	for _, fail := range []string{"dir/objects", "dir/refs", "dir", "dir/sub"} {
		host := hostTree()
		host.Add("dir/HEAD")
		host.Add("dir/sub/x")
		m := newSim(t, host, sentry.Options{})
		host.Fail(fail, syscall.EIO)
		op := "mkdir dir/objects"
		if fail == "dir" || fail == "dir/sub" {
			op = "mv dir d2"
		}
		wantErrno(t, op+" with a failing "+fail, m.do(op), syscall.EROFS)
	}
}

// TestNothingCompletes: every order in which the parts of a gitdir can be made,
// by every means, ends before the last one.
func TestNothingCompletes(t *testing.T) {
	t.Parallel()
	means := []string{"create d/%", "mkdir d/%", "symlink d/% x", "mkfifo d/%", "mv src d/%", "mv srcdir d/%", "ln src d/%"}
	for _, parts := range [][]string{{"HEAD", "commondir"}, {"HEAD", "objects", "refs"}} {
		permute(parts, func(order []string) {
			for _, way := range means {
				host := hostTree()
				host.Add("d/")
				m := newSim(t, host, sentry.Options{})
				for i, name := range order {
					host.Add("src")
					host.Add("srcdir/x")
					m.s.Forget("")
					errno := syscall.Errno(0)
					if i == len(order)-1 {
						errno = syscall.EROFS
					}
					wantErrno(t, way+" "+strings.Join(order, ","), m.do(strings.ReplaceAll(way, "%", name)), errno)
				}
			}
		})
	}
}

func permute(a []string, f func([]string)) {
	if len(a) <= 1 {
		f(a)
		return
	}
	for i := range a {
		rest := append(append([]string{}, a[:i]...), a[i+1:]...)
		permute(rest, func(p []string) { f(append([]string{a[i]}, p...)) })
	}
}
