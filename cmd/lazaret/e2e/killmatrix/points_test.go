package killmatrix_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"lazaret.dev/lazaret/protocol/testgate"
)

// root is the project's directory as seen from this package.
const root = "../../../.."

// pointName is how a point must be called: the scenario in which it is reached,
// the process that reaches it, and the step.
var pointName = regexp.MustCompile(`^(start|join|session|end|stop|lost|recover|image)\.(cli|hc|rs)\.[a-z-]+$`)

// points are the names of all fault points, found in the sources, so that none
// can be forgotten.
func points(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, top := range []string{"cmd", "host", "supervisor", "protocol", "escalate", "schema"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			set := token.NewFileSet()
			f, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if name, ok := point(n); ok {
					if !pointName.MatchString(name) {
						t.Errorf("%s: the fault point %q is not named as one", set.Position(n.Pos()), name)
					}
					out = append(out, name)
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(out)
	return out
}

// point returns the name in a call of faults.Point; one that is no literal is
// its source, which no name looks like.
func point(n ast.Node) (string, bool) {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return "", false
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != "Point" || len(call.Args) != 1 {
		return "", false
	}
	if x, ok := sel.X.(*ast.Ident); !ok || x.Name != "faults" {
		return "", false
	}
	lit, ok := call.Args[0].(*ast.BasicLit)
	if !ok {
		return "(no literal)", true
	}
	name, err := strconv.Unquote(lit.Value)
	return name, err == nil
}

// TestPoints holds the points to their names, and an ordinary build to having
// none.
func TestPoints(t *testing.T) {
	testgate.Need(t, testgate.Runsc, testgate.Faults)
	all := points(t)
	if len(all) < 40 {
		t.Errorf("only %d fault points: %q", len(all), all)
	}
	for i, name := range all {
		if i > 0 && name == all[i-1] {
			t.Errorf("two fault points are called %s", name)
		}
	}
	in := func(path string) (found []string) {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range all {
			if bytes.Contains(b, []byte(name)) {
				found = append(found, name)
			}
		}
		return found
	}
	for _, name := range []string{"bin/lazaret", "libexec/lazaret/lazaret-supervisor", "libexec/lazaret/lazaret-escalate"} {
		if found := in(filepath.Join(testgate.Tree(), name)); len(found) > 0 {
			t.Errorf("the ordinary %s has the fault points %q", name, found)
		}
	}
	faulty := os.Getenv("LAZARET_TEST_FAULTY")
	have := slices.Concat(in(filepath.Join(faulty, "lazaret")), in(filepath.Join(faulty, "lazaret-supervisor")))
	slices.Sort(have)
	if have = slices.Compact(have); !slices.Equal(have, all) {
		t.Errorf("the build with fault points has %d of %d", len(have), len(all))
	}
}
