package mutants

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mutantEnv names the environment variable that says which guard is dropped.
const mutantEnv = "LAZARET_MUTANT"

// hook is what the mutated package decides by: a dropped guard never holds.
const hook = `package protocol

import "os"

var dropped = os.Getenv("` + mutantEnv + `")

func guard(id string, holds bool) bool { return holds && id != dropped }
`

// mutation collects the guards of the state machine's files and puts a call of
// the hook around each.
type mutation struct {
	set    *token.FileSet
	guards []string // file:line:column of each, which is its id
}

// wrap replaces a condition. Each alternative of a disjunction is a guard of
// its own.
func (m *mutation) wrap(e ast.Expr) ast.Expr {
	if b, ok := e.(*ast.BinaryExpr); ok && b.Op == token.LOR {
		b.X, b.Y = m.wrap(b.X), m.wrap(b.Y)
		return b
	}
	at := m.set.Position(e.Pos())
	id := fmt.Sprintf("%s:%d:%d", filepath.Base(at.Filename), at.Line, at.Column)
	m.guards = append(m.guards, id)
	return &ast.CallExpr{Fun: ast.NewIdent("guard"), Args: []ast.Expr{
		&ast.BasicLit{Kind: token.STRING, Value: fmt.Sprintf("%q", id)}, e,
	}}
}

// file mutates every condition of one file: those of its if statements, and
// those of its switches without a tag.
func (m *mutation) file(path string) ([]byte, error) {
	f, err := parser.ParseFile(m.set, path, nil, 0)
	if err != nil {
		return nil, err
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt:
			n.Cond = m.wrap(n.Cond)
		case *ast.SwitchStmt:
			if n.Tag != nil {
				break
			}
			for _, c := range n.Body.List {
				clause := c.(*ast.CaseClause)
				for i := range clause.List {
					clause.List[i] = m.wrap(clause.List[i])
				}
			}
		}
		return true
	})
	var out bytes.Buffer
	err = format.Node(&out, m.set, f)
	return out.Bytes(), err
}

// TestEveryGuardIsNeeded drops each guard of protocol.Next in turn. The list is
// made from the code, so that a new guard is in it at once.
func TestEveryGuardIsNeeded(t *testing.T) {
	source, err := filepath.Abs("../../protocol")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(source, "next*.go"))
	if err != nil {
		t.Fatal(err)
	}
	files = slices.DeleteFunc(files, func(p string) bool { return strings.HasSuffix(p, "_test.go") })
	dir := t.TempDir()
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	put := func(name string, b []byte) {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, b, 0o600); err != nil {
			t.Fatal(err)
		}
		overlay.Replace[filepath.Join(source, name)] = p
	}
	m := &mutation{set: token.NewFileSet()}
	for _, p := range files {
		b, err := m.file(p)
		if err != nil {
			t.Fatal(err)
		}
		put(filepath.Base(p), b)
	}
	put("mutant_hook.go", []byte(hook))
	if len(files) < 6 || len(m.guards) < 100 {
		t.Fatalf("only %d guards found in %d files", len(m.guards), len(files))
	}
	b, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	overlayFile, binary := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "mutants.test")
	if err := os.WriteFile(overlayFile, b, 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-overlay", overlayFile, "-o", binary, source)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}

	// Of the explorer only what it proves counts: not the number of states, nor
	// which actions happen.
	const events, explorer = "^Test([^E]|E[^x])", "^TestExploreSmall$/^(invariants|liveness)$"
	fails := func(mutant, tests string) bool {
		cmd := exec.CommandContext(t.Context(), binary, "-test.run", tests, "-rapid.nofailfile")
		cmd.Env = append(os.Environ(), mutantEnv+"="+mutant)
		cmd.Dir = source
		out, err := cmd.CombinedOutput()
		if err == nil && !bytes.Contains(out, []byte("PASS")) {
			t.Fatalf("%s: no test has run\n%s", mutant, out)
		}
		return err != nil
	}
	if fails("", events) || fails("", explorer) {
		t.Fatal("the tests fail without a mutant")
	}
	killed := map[string]int{}
	for _, id := range m.guards {
		switch {
		case fails(id, events):
			killed["a test of single events"]++
		case fails(id, explorer):
			killed["the explorer"]++
		default:
			t.Errorf("nothing misses the guard at protocol/%s", id)
		}
	}
	t.Logf("%d guards; killed first by: %v", len(m.guards), killed)
}
