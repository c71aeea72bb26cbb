// Package lint holds the project's tests of itself: package documentation,
// import layers, the requirement table, words that do not belong in the tree.
// It owns no code and must not be imported. It runs in test processes.
package lint

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "lazaret.dev/lazaret"

// root is the project's directory as seen from this package.
const root = "../.."

// pkg is what `go list` tells about one package.
type pkg struct {
	ImportPath   string
	Dir          string
	Standard     bool
	GoFiles      []string
	TestGoFiles  []string
	XTestGoFiles []string
	Imports      []string
	Deps         []string
}

// own is the package's path inside the project; ok is false for others.
func own(importPath string) (rel string, ok bool) {
	if importPath == module {
		return ".", true
	}
	return strings.CutPrefix(importPath, module+"/")
}

// below tells whether path is dir or lies below it.
func below(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

func goList(t *testing.T, args ...string) []pkg {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-json"}, args...)...)
	cmd.Dir = root
	// The packages as they are on Linux, whatever machine asks.
	cmd.Env = append(os.Environ(), "GOOS=linux", "CGO_ENABLED=0", "GOFLAGS=-mod=readonly")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list %v: %v\n%s", args, err, stderr.String())
	}
	var pkgs []pkg
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			return pkgs
		}
		if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
}

// TestPackageDocs wants exactly one doc comment per package, so that there is
// one place that says what it owns and what it must not do.
func TestPackageDocs(t *testing.T) {
	t.Parallel()
	for _, p := range goList(t, "./...") {
		files := p.GoFiles
		if len(files) == 0 {
			files = append(slices.Clone(p.TestGoFiles), p.XTestGoFiles...)
		}
		var documented []string
		for _, name := range files {
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.PackageClauseOnly|parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			if f.Doc != nil {
				documented = append(documented, name)
				if !strings.HasPrefix(f.Doc.Text(), "Package "+f.Name.Name+" ") && !strings.HasPrefix(f.Doc.Text(), "Command ") {
					t.Errorf("%s/%s: the doc comment does not begin with %q", p.ImportPath, name, "Package "+f.Name.Name)
				}
			}
		}
		if len(documented) != 1 {
			t.Errorf("%s: doc comments in %q, want exactly one", p.ImportPath, documented)
		}
	}
}

// layers are the project's own import rules: who may not import what. The
// compiler keeps the internal directories; this keeps the rest.
var layers = []struct {
	from   string
	forbid []string
	why    string
}{
	{"host", []string{"supervisor", "escalate", "cmd"}, "each process must be replaceable and auditable alone"},
	{"supervisor", []string{"host", "escalate", "cmd", "schema", "desktop"}, "it holds the namespaces' privileges"},
	{"escalate", []string{"host", "supervisor", "cmd", "schema", "desktop"}, "it runs beside hostile code"},
	{"protocol", []string{"host", "supervisor", "escalate", "cmd", "schema", "desktop", "packaging"}, "contracts point at nobody"},
	{"schema", []string{"host", "supervisor", "escalate", "cmd", "desktop", "protocol", "packaging"}, "it is a contract"},
	{"desktop", []string{"host", "supervisor", "escalate", "cmd", "schema", "protocol", "packaging"}, "it is a contract"},
	{"cmd", []string{"packaging"}, "tools are no part of the product"},
	{"host", []string{"packaging"}, "tools are no part of the product"},
	{"supervisor", []string{"packaging"}, "tools are no part of the product"},
}

// importers are the only packages that may import a module, besides tests and
// the tools below packaging.
var importers = map[string][]string{
	"github.com/spf13/cobra":                 {"cmd/lazaret"},
	"github.com/spf13/viper":                 {"host/internal/config"},
	"modernc.org/sqlite":                     {"host/internal/store"},
	"github.com/google/go-containerregistry": {"host/internal/image"},
	"github.com/opencontainers/umoci":        {"host/internal/unpack"},
	"github.com/vishvananda/netlink":         {"supervisor/internal/netns"},
	"github.com/hanwen/go-fuse":              {"supervisor/internal/view"},
	"github.com/creack/pty":                  {"host/internal/session"},
}

func TestLayers(t *testing.T) {
	t.Parallel()
	for _, p := range goList(t, "./...") {
		from, ok := own(p.ImportPath)
		if !ok {
			continue
		}
		for _, imported := range p.Imports {
			to, ours := own(imported)
			if ours {
				for _, l := range layers {
					if below(from, l.from) && slices.ContainsFunc(l.forbid, func(dir string) bool { return below(to, dir) }) {
						t.Errorf("%s imports %s: %s", from, to, l.why)
					}
				}
				if to == "protocol/testgate" && !testHelper(from) {
					t.Errorf("%s imports protocol/testgate outside tests", from)
				}
				continue
			}
			if !strings.Contains(strings.SplitN(imported, "/", 2)[0], ".") {
				continue // the standard library
			}
			switch {
			case below(from, "protocol") && !below(imported, "golang.org/x/sys"):
				t.Errorf("%s imports %s: protocol is linked into the sandbox and stays with the standard library and x/sys", from, imported)
			case below(from, "escalate") || below(from, "cmd/lazaret-escalate"):
				t.Errorf("%s imports %s: escalate runs beside hostile code and stays with the standard library", from, imported)
			}
			for mod, allowed := range importers {
				if below(imported, mod) && !below(from, "packaging") && !testHelper(from) &&
					!slices.ContainsFunc(allowed, func(dir string) bool { return below(from, dir) }) {
					t.Errorf("%s imports %s: only %q may", from, imported, allowed)
				}
			}
		}
	}
}

// testHelper tells whether a package is made for tests alone, as its name says.
func testHelper(path string) bool { return strings.HasSuffix(path, "test") }

// TestBinaries keeps the dependencies of the privileged and of the exposed
// binary small, whichever way they would come in.
func TestBinaries(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		binary string
		forbid []string
	}{
		{"cmd/lazaret-supervisor", []string{
			"modernc.org/sqlite", "github.com/godbus/dbus", "github.com/google/go-containerregistry",
			"github.com/spf13/cobra", "github.com/spf13/viper", "net/http", module + "/host", module + "/escalate",
		}},
		{"cmd/lazaret-escalate", []string{"net/http", module + "/host", module + "/supervisor"}},
		{"cmd/lazaret", []string{module + "/supervisor", module + "/escalate", "github.com/vishvananda/netlink"}},
	} {
		for _, p := range goList(t, "./"+tc.binary) {
			for _, dep := range p.Deps {
				for _, mod := range tc.forbid {
					if below(dep, mod) {
						t.Errorf("%s links %s", tc.binary, dep)
					}
				}
			}
		}
	}
	for _, p := range goList(t, "-deps", "./cmd/lazaret-escalate") {
		rel, ours := own(p.ImportPath)
		switch {
		case p.Standard, below(p.ImportPath, "golang.org/x/sys"):
		case ours && (below(rel, "escalate") || below(rel, "protocol") || rel == "cmd/lazaret-escalate"):
		default:
			t.Errorf("cmd/lazaret-escalate links %s: it stays with the standard library and protocol", p.ImportPath)
		}
	}
}

// requirement is a row of ARCHITECTURE.md's table: | id | code | tests |.
var requirement = regexp.MustCompile(`^\|\s*((?:SR|FR|DX|OR)-\d+)\s*\|([^|]*)\|([^|]*)\|`)

// TestRequirements holds the requirement table to the truth: the tests that it
// names exist, and so do the paths.
func TestRequirements(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	tests := testNames(t)
	name := regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark)\w+`)
	path := regexp.MustCompile("`([\\w.-]+(?:/[\\w.-]+)+)`")
	rows := map[string]bool{}
	for line := range strings.Lines(string(b)) {
		m := requirement.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		id, code, proof := m[1], m[2], strings.TrimSpace(m[3])
		if rows[id] {
			t.Errorf("%s has two rows", id)
		}
		rows[id] = true
		for _, p := range path.FindAllStringSubmatch(code, -1) {
			if _, err := os.Stat(filepath.Join(root, p[1])); err != nil {
				t.Errorf("%s names code that is not there: %v", id, err)
			}
		}
		named := name.FindAllString(proof, -1)
		if len(named) == 0 && !strings.HasPrefix(proof, "not yet") {
			t.Errorf("%s names no test and does not say %q", id, "not yet")
		}
		for _, n := range named {
			if !tests[n] {
				t.Errorf("%s names %s, which does not exist", id, n)
			}
		}
	}
	if len(rows) == 0 {
		t.Error("ARCHITECTURE.md has no requirement table")
	}
}

// testNames are all top-level test functions of the project.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	walk(t, func(name string) {
		if !strings.HasSuffix(name, "_test.go") {
			return
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil {
				names[fn.Name.Name] = true
			}
		}
	})
	return names
}

// walk calls f with every file of the project that is not built.
func walk(t *testing.T, f func(name string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if base := d.Name(); name == filepath.Join(root, "build") || base == ".git" {
				return filepath.SkipDir
			}
			return nil
		}
		if d.Type().IsRegular() {
			f(name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestWords finds what has no place in the tree: unfinished work, package
// registries and mirrors, skips that would hide a required test in CI.
func TestWords(t *testing.T) {
	t.Parallel()
	// Written in parts, so that this file does not find itself.
	everywhere := regexp.MustCompile(`\b(?:TO` + `DO|FIX` + `ME|X` + `XX)\b|proxy\.` + `golang\.org|registry\.` + `npmjs\.org|/work/` + `(?:main|shared)`)
	skips := regexp.MustCompile(`\bt\.Skip` + `(?:f|Now)?\(`)
	walk(t, func(name string) {
		if filepath.Base(name) == "go.sum" {
			return
		}
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.IndexByte(b, 0) >= 0 {
			return // not text
		}
		for i, line := range bytes.Split(b, []byte("\n")) {
			if m := everywhere.Find(line); m != nil {
				t.Errorf("%s:%d: %q does not belong here", name, i+1, m)
			}
			if strings.HasSuffix(name, "_test.go") && skips.Match(line) {
				t.Errorf("%s:%d: tests skip through protocol/testgate alone", name, i+1)
			}
		}
	})
}

// TestFileSizes keeps files and packages small enough to review. A file is
// measured whole, a package by its lines of code.
func TestFileSizes(t *testing.T) {
	t.Parallel()
	for _, p := range goList(t, "./...") {
		code := 0
		for _, name := range p.GoFiles {
			b, err := os.ReadFile(filepath.Join(p.Dir, name))
			if err != nil {
				t.Fatal(err)
			}
			lines := 0
			for line := range bytes.Lines(b) {
				lines++
				if line = bytes.TrimSpace(line); len(line) > 0 && !bytes.HasPrefix(line, []byte("//")) {
					code++
				}
			}
			if lines > 500 {
				t.Errorf("%s/%s has %d lines, more than 500", p.ImportPath, name, lines)
			}
		}
		limit := 1000
		if p.ImportPath == module+"/protocol" {
			limit = 1300 // one state machine: a border through it would be between events of one state
		}
		if code > limit {
			t.Errorf("%s has %d lines of code, more than %d", p.ImportPath, code, limit)
		}
	}
}
