package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// repoRoot is the directory with go.mod.
func repoRoot(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	require.NoError(t, err)
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		require.NotEqual(t, parent, dir, "no go.mod above the test")
		dir = parent
	}
}

type listedPackage struct {
	ImportPath string
	Imports    []string
}

func listPackages(t *testing.T) []listedPackage {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports", "./...")
	cmd.Dir = repoRoot(t)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err)
	var packages []listedPackage
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listedPackage
		err := d.Decode(&p)
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		packages = append(packages, p)
	}
	require.Greater(t, len(packages), 10)
	return packages
}

// mayImport says which rooms each room may import, besides itself.
var mayImport = map[string][]string{
	"flows":      {},
	"executor":   {"flows"},
	"ingest":     {"flows"},
	"observer":   {"flows", "ingest"},
	"analyzer":   {"flows", "ingest", "observer"},
	"governance": {"flows", "ingest", "observer", "analyzer"},
	"api":        {"flows", "ingest", "observer", "analyzer", "governance", "executor"},
	"cmd":        {"flows", "ingest", "observer", "analyzer", "governance", "executor", "api"},
}

// alsoMay are the packages that reach further than their room.
var alsoMay = map[string][]string{
	"pave/governance/runs":           {"executor"},
	"pave/governance/runs/telemetry": {"executor"}, // it reads the records of runs
	"pave/governance/replays":        {"executor"}, // a proposal is checked by running its flow against recorded tools
	"pave/governance/loop":           {"executor"}, // its price table
}

// adapters are groups of packages that fulfil one contract; none imports another of its group.
var adapters = [][]string{
	{"pave/ingest/store/sqlite", "pave/ingest/store/clickhouse"},
	{"pave/executor/bind/http", "pave/executor/bind/local", "pave/executor/bind/mcp", "pave/executor/bind/worker"},
}

func room(path string) string {
	rest, ok := strings.CutPrefix(path, "pave/")
	if !ok {
		return ""
	}
	first, _, _ := strings.Cut(rest, "/")
	return first
}

func within(path string, parents ...string) bool {
	return slices.ContainsFunc(parents, func(p string) bool { return path == p || strings.HasPrefix(path, p+"/") })
}

func TestImportsFollowThePipeline(t *testing.T) {
	for _, p := range listPackages(t) {
		allowed, known := mayImport[room(p.ImportPath)]
		require.True(t, known, "package %s belongs to no room", p.ImportPath)
		for _, imp := range p.Imports {
			if r := room(imp); r != "" && r != room(p.ImportPath) && !slices.Contains(allowed, r) && !slices.Contains(alsoMay[p.ImportPath], r) {
				t.Errorf("%s imports %s: %s may import only %v", p.ImportPath, imp, room(p.ImportPath), allowed)
			}
			for _, group := range adapters {
				for _, one := range group {
					for _, other := range group {
						if one != other && within(p.ImportPath, one) && within(imp, other) {
							t.Errorf("%s imports its neighbour %s", p.ImportPath, imp)
						}
					}
				}
			}
		}
	}
}

// reserved are imports that only some packages may have.
var reserved = []struct {
	prefix string
	only   []string
	why    string
}{
	{"github.com/labstack/echo", []string{"pave/api"}, "only api speaks echo"},
	{"modernc.org/sqlite", []string{"pave/ingest/store/sqlite", "pave/ingest/store/clickhouse", "pave/governance/store"}, "only engines import database drivers"},
	{"github.com/ClickHouse", []string{"pave/ingest/store/clickhouse"}, "only engines import database drivers"},
	{"github.com/ebitengine/purego", []string{"pave/ingest/store/clickhouse/chtest"}, "the product binary never loads a library"},
	{"github.com/alecthomas/kong", []string{"pave/cmd"}, "only the command line parses flags"},
}

// pure packages compute: what they may not import keeps them without I/O, clock and chance.
var impure = []string{"net", "net/http", "os", "os/exec", "math/rand", "math/rand/v2", "crypto/rand"}

// vendors are model clients; nothing here calls a model.
var vendors = []string{"github.com/openai", "github.com/sashabaranov", "github.com/anthropics", "github.com/tmc/langchaingo", "google.golang.org/genai"}

func pure(path string) bool {
	return within(path, "pave/flows", "pave/executor") && !within(path, "pave/executor/bind", "pave/executor/flowtest", "pave/executor/vectortest")
}

func TestReservedImports(t *testing.T) {
	for _, p := range listPackages(t) {
		for _, imp := range p.Imports {
			for _, rule := range reserved {
				if within(imp, rule.prefix) && !within(p.ImportPath, rule.only...) {
					t.Errorf("%s imports %s: %s", p.ImportPath, imp, rule.why)
				}
			}
			if pure(p.ImportPath) && slices.Contains(impure, imp) {
				t.Errorf("%s imports %s, but computes only", p.ImportPath, imp)
			}
			if within(imp, vendors...) {
				t.Errorf("%s imports %s: pave calls no model", p.ImportPath, imp)
			}
		}
	}
}

// TestPureCodeHasNoClockAndNoGoroutines reads the syntax of flows and executor. Waiting, reading the clock and
// starting goroutines belong to one file, so that every run of a plan is the same.
func TestPureCodeHasNoClockAndNoGoroutines(t *testing.T) {
	root := repoRoot(t)
	scheduler := filepath.Join(root, "executor", "scheduler.go")
	checked := 0
	for _, top := range []string{"flows", "executor"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || path == scheduler {
				return err
			}
			rel, err := filepath.Rel(root, filepath.Dir(path))
			if err != nil {
				return err
			}
			if !pure("pave/" + filepath.ToSlash(rel)) {
				return nil
			}
			checked++
			for _, fault := range clockAndGoroutines(t, path) {
				t.Error(fault)
			}
			return nil
		})
		require.NoError(t, err)
	}
	require.Greater(t, checked, 10)
}

func clockAndGoroutines(t *testing.T, path string) (faults []string) {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	banned := []string{"Now", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker", "Since", "Until"}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			faults = append(faults, fmt.Sprintf("%s starts a goroutine", files.Position(n.Pos())))
		case *ast.SelectorExpr:
			if pkg, ok := n.X.(*ast.Ident); ok && pkg.Name == "time" && slices.Contains(banned, n.Sel.Name) {
				faults = append(faults, fmt.Sprintf("%s uses time.%s", files.Position(n.Pos()), n.Sel.Name))
			}
		}
		return true
	})
	return faults
}
