package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"pave/api"
	"pave/api/gen"
)

// withoutCommand are the operations that no command calls, each with what stands for it.
var withoutCommand = map[string]string{
	"signIn":    "browser sessions; the command line sends its key",
	"signOut":   "as signIn",
	"callMCP":   "pave mcp is a client of it, by the protocol's own library",
	"streamMCP": "as callMCP",
	"endMCP":    "as callMCP",
}

// TestEveryOperationHasACommand walks the contract: what the API can do, the command line can do, with --server and
// without.
func TestEveryOperationHasACommand(t *testing.T) {
	called := map[string]bool{}
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok {
				name := strings.TrimSuffix(sel.Sel.Name, "WithResponse")
				called[strings.ToLower(strings.TrimSuffix(name, "WithBody"))] = true
			}
			return true
		})
	}
	methods := map[string]bool{}
	client := reflect.TypeFor[gen.ClientInterface]()
	for i := range client.NumMethod() {
		methods[strings.ToLower(client.Method(i).Name)] = true
	}
	var doc struct {
		Paths map[string]map[string]struct {
			OperationID string `yaml:"operationId"`
		} `yaml:"paths"`
	}
	require.NoError(t, yaml.Unmarshal(api.SpecYAML(), &doc))
	known := map[string]bool{}
	for _, operations := range doc.Paths {
		for _, op := range operations {
			known[op.OperationID] = true
			name := strings.ToLower(op.OperationID)
			if methods[name+"withbody"] {
				methods[name] = true
			}
			require.True(t, methods[name], "the client has no method for %s", op.OperationID)
			reason, exempt := withoutCommand[op.OperationID]
			if exempt {
				require.NotEmpty(t, reason)
				require.False(t, called[name], "%s has a command now; take it off the list", op.OperationID)
				continue
			}
			if !called[name] {
				t.Errorf("no command calls %s", op.OperationID)
			}
		}
	}
	for id := range withoutCommand {
		require.True(t, known[id], "%s is no operation any more", id)
	}
	require.Greater(t, len(known), 60)
}
