package sentry_test

import (
	"slices"
	"strings"
	"testing"

	"lazaret.dev/lazaret/supervisor/internal/sentry"
	"lazaret.dev/lazaret/supervisor/internal/sentry/gitdir"
	"lazaret.dev/lazaret/supervisor/internal/sentry/gitdirtest"
	"lazaret.dev/lazaret/supervisor/internal/sentry/targets"
)

// gitdirAt are the operations that plant a complete hostile gitdir.
func gitdirAt(dir string) []string {
	ops := []string{"mkdir objects", "mkdir refs", "mkdir refs/heads", "put HEAD = ref: refs/heads/main", "put config = evil", "mkdir hooks", "put hooks/pre-commit = evil"}
	if dir == "" {
		return ops
	}
	for i, op := range ops {
		verb, rest, _ := strings.Cut(op, " ")
		ops[i] = verb + " " + dir + "/" + rest
	}
	return append([]string{"mkdir " + dir}, ops...)
}

func target(path string) targets.Target { return targets.Target{Path: path} }

func hooksAt(dir string) []string {
	return []string{"mkdir " + dir, "put " + dir + "/pre-commit = evil", "put " + dir + "/post-index-change = evil", "chmod " + dir + "/pre-commit"}
}

var hooksPath = targets.Target{Path: ".husky", Dir: true, Key: "core.hookspath"}

// vector is one way to attack, or several that come to the same operations.
type vector struct {
	ids  string
	host []string         // what the host has beside the fixture
	r8   []targets.Target // what its configuration leads to
	ops  []string
	free []string // what may change on the host: paths, with all below
}

// vectors stand for the planted ones, by their ids; those are not
// operations on paths that need other tests are named in elsewhere.
var vectors = []vector{
	// A and B: the configuration, by whatever way.
	{ids: `c_fsmonitor c_hooksPath c_sshCommand c_insteadOf_ssh c_pager c_pagercmd c_editor c_seqeditor c_diffexternal c_diffcommand
c_textconv c_clean c_smudge c_process c_mergedriver c_mergedefault c_credhelper c_askpass c_cookie c_gpgprogram c_gpgssh c_gpgx509
c_sshdefaultkey c_showSignature c_alias_shadow c_include c_includeif c_subupdate c_uploadpack c_receivepack c_vcs_ext c_insteadOf_ext
c_insteadOf_ext_noallow c_remotehelper_alias c_mergestrategy_alias c_gitproxy c_difffilter c_difftool c_mergetool
c_browser c_man c_trailer c_tar c_templatedir c_packobjhook c_worktree c_imap c_instaweb c_recenthook c_hookcfg c_lazyfetch
c_commit_template c_signaturefile c_pushredirect c_trace2 c_attributesFile c_quiet w_gitconfig w_trunc w_fdalias w_mmap L_lfs_cfg L_tig`, ops: []string{
		"write .git/config = evil", "lock .git/config = " + hostConfig + "evil", "create .git/config = evil",
	}},
	{ids: "c_altrefscmd o_alternates o_alternates_cfg", ops: []string{
		"put .git/objects/info/alternates = x", "lock .git/objects/info/alternates = x", "put .git/objects/info/ALTERNATES = x",
		"put .git/objects/info/http-alternates = x", "create x", "mv x .git/objects/info/alternates", "ln x .git/objects/info/alternates",
	}, free: []string{"x"}},
	{ids: "w_rename", ops: []string{"create c = evil", "mv c .git/config"}, free: []string{"c"}},
	{ids: "w_lock w_race", ops: []string{"create .git/config.lock = evil", "mv .git/config.lock .git/config", "write .git/config.lock = evil"}},
	{ids: "w_unlink", ops: []string{"rm .git/config", "create .git/config = evil"}},
	{ids: "w_hardlink_in w_tmpfile", ops: []string{"create c = evil", "rm .git/config", "ln c .git/config"}, free: []string{"c"}},
	{ids: "w_hardlink_out", ops: []string{"ln .git/config alias"}},
	{ids: "w_symlink", ops: []string{"symlink .git/config.lock c", "mv .git/config.lock .git/config", "rm .git/config", "symlink .git/config c"}},
	{ids: "w_via_symlink", ops: []string{"symlink l .git/config", "write .git/config = evil"}, free: []string{"l"}},
	{ids: "w_xchg", ops: []string{"create c = evil", "xchg c .git/config"}, free: []string{"c"}},
	{ids: "w_xchg_dir", ops: []string{"mkdir g", "put g/config = evil", "xchg g .git", "xchg .git g"}, free: []string{"g"}},
	{ids: "w_mvgit g_gitfile_root g_symlink_root", ops: []string{"mkdir g", "mv .git old", "mv g .git", "put .git = gitdir: g", "symlink .git g", "mv .git .GIT"}, free: []string{"g"}},
	{ids: "w_rmgit", ops: []string{"rm .git/config", "rm .git/HEAD", "rmdir .git/refs", "rmdir .git/objects", "rmdir .git", "put .git/config = evil"}},
	{ids: "w_copyrename", ops: []string{
		"mkdir sub3/g", "mkdir sub3/g/objects", "mkdir sub3/g/refs", "put sub3/g/config = evil", "mv sub3/g sub3/.git", "put sub3/.git/HEAD = x", "put sub3/g/HEAD = x",
	}, free: []string{"sub3/g/objects", "sub3/g/refs", "sub3/g/config"}},
	{ids: "w_casefold w_casefold2", ops: slices.Concat(gitdirAt(".GIT"), gitdirAt("n2/.Git"), gitdirAt("n3/git~1"), gitdirAt("n4/.git. "), gitdirAt("n5/.g\u200cit"))},
	{ids: "h_cfgchmod", ops: []string{"chmod .git/config", "touch .git/config"}},

	// C: hooks and what the host's configuration leads to.
	{ids: "h_all h_absent", ops: slices.Concat(hooksAt(".git/hooks"), hooksAt(".git/modules/sub/hooks"))},
	{ids: "h_one_rename", ops: []string{"create hk = evil", "ln hk .git/hooks/pre-commit", "mv hk .git/hooks/pre-commit", "mv .git/hooks/pre-commit.sample .git/hooks/pre-commit"}, free: []string{"hk"}},
	{ids: "h_symlink", ops: []string{"symlink .git/hooks/pre-commit ../../x"}},
	{ids: "h_dirsymlink h_dirrename", ops: slices.Concat(
		hooksAt("h"), hooksAt(".git/hh"), []string{"mv .git/hooks .git/hooks.old", "symlink .git/hooks ../h", "mv h .git/hooks", "mv .git/hh .git/hooks"},
	), free: []string{"h"}},
	{ids: "h_existing h_chmod", host: []string{".git/hooks/pre-commit"}, ops: []string{"write .git/hooks/pre-commit = evil", "chmod .git/hooks/pre-commit", "rm .git/hooks/pre-commit"}},
	{ids: "h_husky", host: []string{".husky/pre-commit"}, r8: []targets.Target{hooksPath}, ops: slices.Concat(
		hooksAt(".husky"), []string{"write .husky/pre-commit = evil", "create h = evil", "mv h .husky/pre-commit", "mv .husky g", "rm .husky/pre-commit", "mv h .husky", "create .husky/commit-msg"},
	), free: []string{"h"}},
	{ids: "h_husky_absent", r8: []targets.Target{hooksPath}, ops: slices.Concat(
		hooksAt(".husky"), hooksAt("h"), []string{"mv h .husky", "symlink .husky h", "ln h/pre-commit .husky"},
	), free: []string{"h"}},
	{ids: "h_husky_global", r8: []targets.Target{{Path: "sub/.githooks", Dir: true}}, ops: hooksAt("sub/.githooks")},
	{ids: "h_incfile", host: []string{".gitconfig"}, r8: []targets.Target{{Path: ".gitconfig"}}, ops: []string{
		"write .gitconfig = evil", "lock .gitconfig = evil", "rm .gitconfig", "create x", "mv x .gitconfig", "xchg x .gitconfig", "ln .gitconfig y", "chmod .gitconfig",
	}, free: []string{"x", ".gitconfig.lock"}},
	{ids: "h_incabsent", r8: []targets.Target{{Path: "conf/d/local"}}, ops: []string{
		"mkdir evil/d", "create evil/d/local", "mv evil conf", "symlink conf evil", "mkdir conf", "symlink conf/d ../evil/d", "mkdir conf/d", "create conf/d/local", "symlink conf/d/local x",
		"create x", "mv x conf/d/local", "ln x conf/d/local", "mkfifo conf/d/local", "mv evil/d e", "mv e conf/d", "symlink l evil", "rmdir conf/d", "mv l conf/d", "xchg conf evil",
	}, free: []string{"evil", "conf", "x", "e", "l"}},
	{ids: "h_cfgcmd a_attr_global", host: []string{"tools/f"}, r8: []targets.Target{{Path: "tools/f"}}, ops: []string{
		"write tools/f = evil", "mv tools t", "mkdir evil", "create evil/f", "mv evil tools", "xchg evil tools", "rm tools/f",
	}, free: []string{"evil"}},
	{ids: "h_hookslink", host: []string{"githooks/pre-commit", ".git/modules/sub2/hooks/commit-msg -> ../../../../scripts/msg", "scripts/msg", ".git/modules/sub/info -> ../../../inf", "inf/exclude"}, ops: []string{
		"write scripts/msg = evil", "write inf/exclude = evil", "create inf/attributes",
	}},
	{ids: "h_cfglink", host: []string{".git/config -> ../gitcfg", "gitcfg = " + hostConfig}, ops: []string{"write gitcfg = evil", "lock gitcfg = evil", "rm gitcfg", "rm .git/config"}, free: []string{"gitcfg.lock"}},

	// D: structure and pointers.
	{ids: "g_commondir", ops: []string{"put .git/commondir = x", "lock .git/commondir = x", "create x", "mv x .git/commondir"}, free: []string{"x"}},
	{ids: "g_cfgworktree g_cfgworktree_off", ops: []string{"put .git/config.worktree = evil", "lock .git/config.worktree = evil"}},
	{ids: "g_cfgworktree_wt", ops: []string{"put .git/worktrees/wt/config.worktree = evil", "lock .git/worktrees/wt/config.worktree = evil"}},
	{ids: "g_wt_commondir", ops: []string{"write .git/worktrees/wt/commondir = x", "lock .git/worktrees/wt/commondir = x"}},
	{ids: "g_wt_rmcommondir", ops: slices.Concat([]string{"rm .git/worktrees/wt/commondir"}, gitdirAt(".git/worktrees/wt")), free: []string{".git/worktrees/wt/objects", ".git/worktrees/wt/refs"}},
	{ids: "g_wt_new g_wt_repair", ops: []string{
		"mkdir .git/worktrees/evil", "put .git/worktrees/evil/HEAD = x", "put .git/worktrees/evil/commondir = ../..", "put .git/worktrees/evil/gitdir = x", "mkdir x", "put x/.git = gitdir: y",
	}, free: []string{"x"}},
	{ids: "g_wt_gitdir", ops: []string{
		"write .git/worktrees/wt/gitdir = x", "lock .git/worktrees/wt/gitdir = x", "touch .git/worktrees/wt/gitdir", "rm .git/worktrees/wt/gitdir", "rm .git/worktrees/wt/index", "rm .git/worktrees/wt/HEAD",
		"rm .git/worktrees/wt/logs/HEAD", "rm .git/worktrees/wt/ORIG_HEAD", "mv .git/worktrees/wt/index .git/worktrees/wt/FOO", "rmdir .git/worktrees/wt/logs", "rmdir .git/worktrees/wt", "mv .git/worktrees/wt x",
	}},
	{ids: "g_nogit g_nested g_nested_add g_nested_gitlink g_gitdirname", ops: slices.Concat(gitdirAt("nest/.git"), gitdirAt("dir/.git")), free: []string{"nest"}},
	{ids: "g_nested_swap", ops: slices.Concat(gitdirAt("nest/.git"), gitdirAt("data"), []string{"mv nest/.git data2", "put nest/.git = gitdir: ../data"}), free: []string{
		"data/objects", "data/refs", "data/config", "data/hooks", "nest",
	}},
	{ids: "g_bare", ops: gitdirAt("docs"), free: []string{"docs/objects", "docs/refs", "docs/config", "docs/hooks"}},
	{ids: "g_bare_existdir", ops: gitdirAt("dir"), free: []string{"dir/objects", "dir/refs", "dir/config", "dir/hooks"}},
	{ids: "g_bare_min", ops: []string{"mkdir docs", "put docs/HEAD = x", "put docs/commondir = y", "mkdir d2", "put d2/commondir = y", "put d2/HEAD = x"}, free: []string{"docs/HEAD", "d2/commondir"}},
	{ids: "g_bare_odd", ops: []string{
		"symlink docs/HEAD refs/heads/main", "symlink docs/refs ../.git/refs", "symlink docs/objects ../.git/objects", "mkdir d2", "put d2/HEAD = x", "create d2/objects", "mkfifo d2/refs",
		"mkdir d3", "create d3/HEAD", "mkdir d3/objects", "mkdir d3/r", "mv d3/r d3/refs", "ln d3/HEAD d3/refs", "create d3/c", "mv d3/c d3/commondir",
	}, free: []string{"docs/HEAD", "docs/refs", "d2/HEAD", "d2/objects", "d3/HEAD", "d3/objects", "d3/r", "d3/c"}},
	{ids: "g_rootbare g_upward o_headpath", ops: slices.Concat([]string{
		"write .git/HEAD = junk", "rm .git/HEAD", "lock .git/HEAD = junk", "lock .git/HEAD = ref: refs/heads/../../../x", "lock .git/HEAD = ref: HEAD", "create x = junk", "mv x .git/HEAD",
		"symlink .git/HEAD x", "mv .git/HEAD .git/FOO", "xchg x .git/HEAD",
	}, gitdirAt("")), free: []string{"x", ".git/HEAD.lock", "config", "hooks", "objects", "refs"}},
	{ids: "g_inside", ops: slices.Concat(gitdirAt(".git/refs/.git"), gitdirAt(".git/logs/.git"), gitdirAt(".git/refs/x"), []string{"mkdir .git/logs/objects", "create .git/logs/config"}), free: []string{
		".git/refs/x", ".git/logs/config",
	}},
	{ids: "g_chmod", ops: []string{"chmod .git/objects", "chmod .git/refs", "chmod .git/HEAD", "chmod .git", "chmod .git/modules", "chmod .git/worktrees/wt"}},
	{ids: "g_modules_cfg g_modules_worktree", ops: []string{"write .git/modules/sub/config = evil", "lock .git/modules/sub/config = evil"}},
	{ids: "g_modules_hooks", ops: hooksAt(".git/modules/sub/hooks")},
	{ids: "g_modules_commondir", ops: []string{"put .git/modules/sub/commondir = evil"}},
	{ids: "g_modules_plant g_modules_name", ops: slices.Concat(gitdirAt(".git/modules/x"), gitdirAt(".git/modules/sub/modules/y"), []string{"mv .git/modules/sub .git/modules/z", "xchg .git/modules/sub .git/modules/sub2"})},
	{ids: "g_sub_gitfile", ops: []string{"write sub/.git = gitdir: x", "lock sub/.git = gitdir: x", "create x", "mv x sub/.git", "xchg x sub/.git", "touch sub/.git"}, free: []string{"x", "sub/.git.lock"}},
	{ids: "g_sub_gitdir", ops: slices.Concat([]string{"rm sub/.git"}, gitdirAt("sub/.git"))},
	{ids: "g_sub_move", ops: slices.Concat(gitdirAt(".v/q/.git/modules/sub2"), []string{"mv deep .v/q/deep", "mv deep/sub2 sub3", "xchg deep dir"})},
	{ids: "g_gitfile_outside", ops: []string{"mkdir nest", "put nest/.git = gitdir: /outside/.git"}, free: []string{"nest"}},

	// E: the index.
	{ids: "i_hook i_config i_outside i_leak i_rm i_gitlink_hooks i_gitlink_out", ops: []string{
		"lock .git/index = forged", "write .git/index = forged", "create .git/index = forged", "create x = forged", "mv x .git/index", "ln x .git/index", "mv .git/COMMIT_EDITMSG .git/index",
		"create .git/index.stash.1.lock = forged", "mv .git/index.stash.1.lock .git/index.stash.1", "create .git/next-index-1.lock = good", "mv .git/next-index-1.lock .git/index",
	}, free: []string{"x", ".git/index.lock", ".git/index.stash.1.lock", ".git/next-index-1.lock"}},
	{ids: "i_split", ops: []string{
		"lock .git/sharedindex." + oid + " = forged", "create .git/sharedindex_x = forged", "mv .git/sharedindex_x .git/sharedindex." + oid, "create .git/sharedindex." + oid,
	}, free: []string{".git/sharedindex_x", ".git/sharedindex." + oid + ".lock"}},
	{ids: "i_lockrace", host: []string{".git/index.lock", ".git/refs/heads/main.lock", ".git/objects/ab/tmp_obj_1", ".git/packed-refs.new", ".git/shallow_x"}, ops: []string{
		"write .git/index.lock = forged", "mv .git/index.lock .git/index", "rm .git/index.lock", "create .git/index.lock", "create x", "mv x .git/index.lock", "chmod .git/index.lock", "touch .git/index.lock",
		"rm .git/refs/heads/main.lock", "ln .git/objects/ab/tmp_obj_1 .git/objects/ab/ff", "write .git/objects/ab/tmp_obj_1", "rm .git/packed-refs.new", "rm .git/shallow_x", "mv .git/index.lock .git/FOO",
	}, free: []string{"x"}},
	{ids: "i_worktree", ops: []string{"lock .git/worktrees/wt/index = forged"}, free: []string{".git/worktrees/wt/index.lock"}},
	{ids: "i_module", ops: []string{"lock .git/modules/sub/index = forged"}, free: []string{".git/modules/sub/index.lock"}},

	// F: objects and refs.
	{ids: "o_midx_del o_midx_read", ops: []string{
		"lock .git/objects/pack/multi-pack-index = ../x", "create .git/objects/pack/multi-pack-index", "create .git/objects/pack/MULTI-PACK-INDEX", "create .git/objects/pack/tmp_x = y",
		"mkdir .git/objects/pack/multi-pack-index.d", "create .git/objects/pack/multi-pack-index.d/x.midx", "mv .git/objects/pack/tmp_x .git/objects/pack/a.midx", "ln .git/objects/pack/tmp_x .git/objects/pack/b.midx",
	}, free: []string{".git/objects/pack/multi-pack-index.lock", ".git/objects/pack/tmp_x", ".git/objects/pack/multi-pack-index.d"}},
	{ids: "o_grafts a_info_attr a_hide a_exclude", ops: []string{"put .git/info/grafts = x", "put .git/info/attributes = x", "write .git/info/exclude = x", "lock .git/info/exclude = x", "mkdir .git/info/x"}},
	{ids: "a_info_swap", ops: []string{"mkdir i", "mv .git/info i2", "xchg i .git/info", "rmdir .git/info", "symlink .git/info i"}, free: []string{"i"}},
	{ids: "o_remotesfile o_remotesfile_ext", ops: []string{"mkdir .git/remotes", "put .git/remotes/origin = x", "mkdir .git/branches", "put .git/branches/x = y"}},

	// G: links and special files.
	{ids: "s_logs s_editmsg s_fetchhead s_mergemsg_w s_mergemsg_l s_config_w s_refsdir s_pack s_index", ops: []string{
		"rm .git/logs/HEAD", "symlink .git/logs/HEAD /x", "rm .git/COMMIT_EDITMSG", "symlink .git/COMMIT_EDITMSG /x", "symlink .git/FETCH_HEAD /x", "symlink .git/MERGE_MSG /x", "symlink .git/SQUASH_MSG /x",
		"rm .git/packed-refs", "symlink .git/packed-refs /x", "symlink .git/refs/heads/d /x", "symlink .git/logs/refs/heads/d /x", "rm .git/objects/pack/pack-aa.pack", "rmdir .git/objects/pack", "symlink .git/objects/pack /x",
		"rm .git/index", "symlink .git/index /x", "symlink l /x", "mv l .git/FETCH_HEAD", "ln l .git/FETCH_HEAD", "xchg l .git/ORIG_HEAD", "symlink .git/index.lock /x",
	}, free: []string{"l", ".git/logs/HEAD", ".git/COMMIT_EDITMSG", ".git/packed-refs", ".git/objects/pack", ".git/index"}},
	{ids: "s_info", ops: []string{"mkdir m", "mv .git/modules m2", "symlink .git/modules m", "xchg m .git/modules", "mv .git/worktrees x", "rmdir .git/modules"}, free: []string{"m"}},
	{ids: "s_fifo r_fsmsock", ops: []string{
		"mkfifo .git/MERGE_HEAD", "mkfifo .git/info/grafts", "mkfifo .git/fsmonitor--daemon.ipc", "mkfifo .git/refs/heads/x", "mkfifo f", "mv f .git/MERGE_MSG", "mkdir .git/MERGE_HEAD",
	}, free: []string{"f"}},

	// H: operation state.
	{ids: "r_todo_exec", host: []string{".git/rebase-merge/git-rebase-todo"}, ops: []string{
		"write .git/rebase-merge/git-rebase-todo = exec", "lock .git/rebase-merge/git-rebase-todo = x", "rm .git/rebase-merge/git-rebase-todo", "mv .git/rebase-merge x",
	}},
	{ids: "r_todo_forged r_todo_strategy r_am r_prompt r_prompt2 r_rerere_leak r_rerere_write r_rrcache r_gclog r_instaweb", ops: []string{
		"mkdir .git/rebase-merge", "put .git/rebase-merge/end = x", "mkdir .git/rebase-apply", "put .git/rebase-apply/last = x", "mkdir .git/rr-cache", "mkdir .git/rr-cache/1", "put .git/rr-cache/1/preimage = x",
		"put .git/MERGE_RR = x", "lock .git/MERGE_RR = x", "put .git/gc.log = x", "put .git/gc.pid = x", "mkdir .git/gitweb", "put .git/gitweb/gitweb_config.perl = x", "put .git/lazygit.yml = x",
		"mkdir x", "put x/end = x", "mv x .git/rebase-merge", "mv x .git/rebase-apply",
	}, free: []string{"x"}},
	{ids: "r_prompt_zero", ops: []string{"mkdir .git/worktrees/wt/rebase-merge", "put .git/worktrees/wt/rebase-merge/end = x"}},
}

// elsewhere are the vectors that no operation on a path can tell from Git's own
// work, and what answers them.
var elsewhere = map[string]string{
	"h_home":    "the start is refused: targets.HomeInside",
	"h_wrapper": "reported", "h_cfghard": "Protected", "i_fd": "the seal before Publish",
	"i_assume": "reported", "i_statmatch": "reported", "i_staged": "reported",
	"t_evil_checkout": "harmless", "t_evil_case": "harmless", "t_evil_dotdot": "harmless", "t_evil_slash": "harmless", "t_bare_commit": "reported", "t_inc_commit": "reported",
	"o_replace": "reported", "o_loose": "reported", "o_refmove": "reported", "o_refname": "harmless", "o_fetchhead": "reported",
	"s_lock": "locks left by the session are removed", "r_seq_todo": "harmless", "r_bisect": "harmless", "r_mergehead": "reported", "r_autostash": "reported",
	"a_sparse": "reported", "m_update": "harmless", "m_url": "harmless", "m_name": "harmless", "m_cr": "harmless", "m_symlink": "harmless", "m_ignore": "reported", "m_urlswap": "reported",
	"z_worktree_symlink": "harmless", "L_lfs_lfsconfig": "reported", "L_lfs_url": "reported", "L_lfs_store": "reported",
}

// TestVectors plants what the research script plants, as operations on paths:
// what is protected on the host stays as it was, whatever else succeeds.
// SR-4.
func TestVectors(t *testing.T) {
	t.Parallel()
	for _, v := range vectors {
		t.Run(strings.Fields(v.ids)[0], func(t *testing.T) {
			t.Parallel()
			host := hostTree()
			for _, e := range v.host {
				host.Add(e)
			}
			if strings.HasPrefix(v.ids, "h_hookslink") {
				host.Remove(".git/hooks")
				host.Add(".git/hooks -> ../githooks")
				v.ops = append(v.ops, "write githooks/pre-commit = evil", "create githooks/commit-msg = evil", "mv githooks g")
			}
			m := newSim(t, host, sentry.Options{}).targets(v.r8...)
			before := guarded(host, v.free)
			_ = m.run(v.ops...)
			if after := guarded(host, v.free); after != before {
				t.Errorf("the host changed: %s\n%s", v.ids, difference(before, after))
			}
			if m.refused == 0 && len(m.domain) == 0 {
				t.Error("nothing was refused or kept in the Domain")
			}
			if err := m.look(); err != "" {
				t.Error(err)
			}
		})
	}
}

// TestVectorsAll: every vector of the research has a test or a reason.
func TestVectorsAll(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, v := range vectors {
		for id := range strings.FieldsSeq(v.ids) {
			if seen[id] {
				t.Errorf("%s twice", id)
			}
			seen[id] = true
		}
	}
	for id := range elsewhere {
		if seen[id] {
			t.Errorf("%s is tested and elsewhere", id)
		}
		seen[id] = true
	}
	if len(seen) != 215 {
		t.Errorf("%d vectors, the research has 215", len(seen))
	}
}

// guarded is the host's tree without what may change.
func guarded(host *gitdirtest.Tree, free []string) string {
	var b strings.Builder
	for line := range strings.Lines(host.Text()) {
		path := line[:strings.LastIndex(line[:strings.Index(line, " \"")], " ")]
		switch {
		case slices.ContainsFunc(free, func(f string) bool {
			return gitdir.Below(path, f) || host.Get(path).Kind == gitdir.Dir && gitdir.Below(f, path)
		}):
		case host.Get(path).Kind == gitdir.Dir && !strings.Contains(path, ".git"):
		default:
			b.WriteString(line)
		}
	}
	return b.String()
}

func difference(before, after string) string {
	var b strings.Builder
	for line := range strings.Lines(before) {
		if !strings.Contains(after, line) {
			b.WriteString("- " + line)
		}
	}
	for line := range strings.Lines(after) {
		if !strings.Contains(before, line) {
			b.WriteString("+ " + line)
		}
	}
	return b.String()
}

// look finds a gitdir on the host that was not there at the start.
func (m *sim) look() string {
	for line := range strings.Lines(m.host.Text()) {
		dir, _ := gitdir.Split(line[:strings.LastIndex(line[:strings.Index(line, " \"")], " ")])
		has := func(name string) bool { return m.host.Get(gitdir.Join(dir, name)).Kind != gitdir.Absent }
		if has("HEAD") && (has("commondir") || has("objects") && has("refs")) &&
			!slices.Contains([]string{".git", ".git/modules/sub", ".git/modules/sub2", ".git/worktrees/wt"}, dir) {
			return "the host has a new gitdir: " + dir
		}
	}
	return ""
}
