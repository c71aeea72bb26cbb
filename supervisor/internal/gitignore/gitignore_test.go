package gitignore_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"lazaret.dev/lazaret/supervisor/internal/gitignore"
)

// decide asks about a path under one ignore file at the root and one in a/.
func decide(root, inA, path string, isDir bool, o gitignore.Options) bool {
	var s *gitignore.Stack
	s = s.Push(0, gitignore.Parse([]byte(root), o))
	for i := 0; ; {
		if path[:i] == "a/" {
			s = s.Push(2, gitignore.Parse([]byte(inA), o))
		}
		next := strings.IndexByte(path[i:], '/')
		if next < 0 {
			return s.Ignores(path, isDir)
		}
		if s.Ignores(path[:i+next], true) {
			return true
		}
		i += next + 1
	}
}

// TestKnownAnswers holds what was asked of a real Git once. [git] case 42.
func TestKnownAnswers(t *testing.T) {
	for _, tc := range []struct {
		rules, inA string
		fold       bool
		ignored    string // paths, one per word; a slash at the end: a directory
		kept       string
	}{
		{rules: "d/\n!d/sub/*\n", ignored: "d/sub/f d/"},
		{rules: "**/vendor/\n", inA: "!vendor\n", ignored: "b/vendor/", kept: "a/vendor/ a/vendor/f"},
		{rules: "build/*\n!build/keep\n", ignored: "build/x", kept: "build/ build/keep build/keep/f"},
		{rules: "node_modules/   \n", ignored: "node_modules/"},
		{rules: "foo\\ \n", ignored: "foo\u00a0", kept: "foo"},
		{rules: "bar\t\n", ignored: "bar\t", kept: "bar"},
		{rules: "/out/\n", ignored: "out/", kept: "out"},
		{rules: "dist/\n", ignored: "dist/untracked"},
		{rules: "Build/\n", kept: "build/"},
		{rules: "Build/\n", fold: true, ignored: "build/ BUILD/"},
		{rules: "\xef\xbb\xbfnode_modules/\r\nx\r\n", ignored: "node_modules/ x"},
		{rules: "\\#x\n\\!y\n", ignored: "#x !y"},
		{rules: "/foo/**/x\n", ignored: "foo/x foo/q/x", kept: "x b/foo/x"},
		{rules: "a/**\n", ignored: "a/b a/b/c", kept: "a/ a"},
		{rules: "[A]\n\\B\n[A-Z]x\n", fold: true, ignored: "ax Ax", kept: "a A b B"},
		{rules: "x", ignored: "x"},
		{rules: "*.log\n", ignored: "a.log b/c.log .log", kept: "a.logs"},
		{rules: "*\n!*/\n!*.go\n", ignored: "x b/x", kept: "x.go b/ b/x.go"},
	} {
		o := gitignore.Options{Fold: tc.fold}
		for want, list := range map[bool]string{true: tc.ignored, false: tc.kept} {
			for word := range strings.SplitSeq(list, " ") {
				// A no-break space stands for the blank that would end a word.
				path, isDir := strings.CutSuffix(strings.ReplaceAll(word, "\u00a0", " "), "/")
				if path == "" {
					continue
				}
				if got := decide(tc.rules, tc.inA, path, isDir, o); got != want {
					t.Errorf("%q, in a/ %q, fold %v: %q is ignored: %v, want %v", tc.rules, tc.inA, tc.fold, word, got, want)
				}
			}
		}
	}
}

// TestDialects: where two versions of Git differ, Strict ignores what either
// does.
func TestDialects(t *testing.T) {
	for _, tc := range []struct {
		rules   string
		path    string
		ignored [3]bool // Strict, Before252, Since252
	}{
		{"lib**/x\n", "lib/a/x", [3]bool{true, true, false}},
		{"lib**/x\n", "libx", [3]bool{true, true, false}},
		{"lib**/x\n", "libs/x", [3]bool{true, true, true}},
		{"x\n!lib**/x\n", "lib/a/x", [3]bool{true, false, true}},
		{"x\n!lib**/x\n", "libs/x", [3]bool{false, false, false}},
		{"lib/**/x\n", "lib/a/x", [3]bool{true, true, true}},
	} {
		for i, d := range []gitignore.Dialect{gitignore.Strict, gitignore.Before252, gitignore.Since252} {
			if got := decide(tc.rules, "", tc.path, false, gitignore.Options{Dialect: d}); got != tc.ignored[i] {
				t.Errorf("%q, dialect %d: %q is ignored: %v", tc.rules, d, tc.path, got)
			}
		}
	}
}

// TestAnyChoice: with several texts for a file, a path is ignored exactly if
// one choice of texts ignores it.
func TestAnyChoice(t *testing.T) {
	line := rapid.StringMatching(`!?(\*\*/)?[ab*](/[ab*])?/?`)
	text := rapid.Custom(func(t *rapid.T) *gitignore.Patterns {
		return gitignore.Parse([]byte(strings.Join(rapid.SliceOfN(line, 0, 3).Draw(t, "lines"), "\n")), gitignore.Options{})
	})
	rapid.Check(t, func(t *rapid.T) {
		files := rapid.SliceOfN(rapid.SliceOfN(text, 1, 3), 1, 3).Draw(t, "files")
		path := rapid.StringMatching(`[ab]/[ab]`).Draw(t, "path")
		isDir := rapid.Bool().Draw(t, "directory")
		var all *gitignore.Stack
		for _, texts := range files {
			all = all.Push(0, texts...)
		}
		some := false
		var choose func(i int, s *gitignore.Stack)
		choose = func(i int, s *gitignore.Stack) {
			if i == len(files) {
				some = some || s.Ignores(path, isDir)
				return
			}
			for _, p := range files[i] {
				choose(i+1, s.Push(0, p))
			}
		}
		choose(0, nil)
		if got := all.Ignores(path, isDir); got != some {
			t.Fatalf("ignored: %v; by some choice: %v", got, some)
		}
	})
}

// TestHostilePatterns: what takes a recursive matcher longer than a life is
// answered.
func TestHostilePatterns(t *testing.T) {
	for _, rules := range []string{
		strings.Repeat("**/", 3000) + "b",
		strings.Repeat("**/a/", 500) + "b",
		strings.Repeat("*a", 120) + "*b",
		strings.Repeat("a*/", 400) + "**/" + strings.Repeat("*a", 100) + "b",
		strings.Repeat(`**\/a*`, 300) + "b",
		strings.Repeat("[a-z]*", 100) + "B",
	} {
		if decide(rules, "", strings.TrimSuffix(strings.Repeat(strings.Repeat("a", 120)+"/", 33), "/"), false, gitignore.Options{}) {
			t.Errorf("%.40q… ignores what it cannot match", rules)
		}
	}
}

// FuzzParse: no text makes the matcher fail, and a text ignores the same with
// Unix and with DOS line ends.
func FuzzParse(f *testing.F) {
	f.Add([]byte("*.log\n!keep/**/x\n\\#y\n[[:alpha:]-]/\n"), "a/b/c", true, false)
	f.Add([]byte("\xef\xbb\xbf[]-a]\\ \n[!a"), "]", false, true)
	f.Fuzz(func(t *testing.T, text []byte, path string, isDir, fold bool) {
		if path == "" || len(path) > 4096 || len(text) > 1<<14 || strings.HasSuffix(path, "/") {
			return
		}
		o := gitignore.Options{Fold: fold}
		got := gitignore.Parse(text, o).Match(path, isDir)
		if strings.Contains(string(text), "\r") {
			return
		}
		dos := strings.ReplaceAll(string(text), "\n", "\r\n")
		if again := gitignore.Parse([]byte(dos), o).Match(path, isDir); again != got {
			t.Fatalf("verdict %d, with DOS line ends %d", got, again)
		}
	})
}

func BenchmarkIgnores(b *testing.B) {
	var rules strings.Builder
	for range 10 {
		rules.WriteString("node_modules/\n*.log\n/dist/\n**/target/**\nbuild-*\n.env\n!.env.example\n*.py[cod]\ndocs/_build/\n.DS_Store\n")
	}
	var s *gitignore.Stack
	s = s.Push(0, gitignore.Parse([]byte(rules.String()), gitignore.Options{}))
	b.ReportAllocs()
	for b.Loop() {
		if s.Ignores("src/internal/package/file_test.go", false) {
			b.Fatal("ignored")
		}
	}
}
