package snippets

import (
	"encoding/json"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pave/api/gen"
	"pave/api/snippets"
	telemetry "pave/api/snippets/agents/telemetry_go"
)

// The official TypeScript client lists and calls flows; a flow that stops tells it how to go on.
func TestTheOfficialTypeScriptClient(t *testing.T) {
	s, _ := mcpService(t, nil, "order_state")
	dir, args := node(t)
	// The client's packages are looked up from where the program is.
	program := filepath.Join(dir, "mcp_typescript.mts")
	copyFile(t, folder(t, "agents", "mcp_typescript.ts"), program)
	key := s.key("service:agent", gen.ScopeRun)
	talk := func(input string) (out struct {
		Tools  []string
		Result struct {
			StructuredContent map[string]any
			Content           []struct{ Text string }
			IsError           bool
		}
	}) {
		cmd := exec.Command(args[0], append(args[1:], program, s.address, key, "order_state", input)...)
		cmd.Dir = dir
		raw, err := cmd.Output()
		if failed := new(exec.ExitError); err != nil {
			_ = assert.ErrorAs(t, err, &failed)
			t.Fatalf("%v\n%s", err, failed.Stderr)
		}
		require.NoError(t, json.Unmarshal(raw, &out), string(raw))
		return out
	}
	good := talk(`{"order_id":"W1"}`)
	assert.Equal(t, []string{"order_state"}, good.Tools)
	assert.Equal(t, "Ann", good.Result.StructuredContent["customer"])
	stopped := talk(`{"order_id":"W2"}`)
	assert.False(t, stopped.Result.IsError)
	assert.Contains(t, stopped.Result.StructuredContent, "flow_stopped")
	assert.Contains(t, stopped.Result.Content[0].Text, "What remains: get_customer.")
}

func TestSnippetsOfAgents(t *testing.T) {
	s, _ := mcpService(t, nil, "order_state")
	run := func(name string, args ...string) string {
		out, err := exec.Command(program(t, name), args...).CombinedOutput()
		require.NoError(t, err, string(out))
		return string(out)
	}
	key := s.key("service:agent", gen.ScopeRun)
	t.Run("flow over REST in Python", func(t *testing.T) {
		assert.Contains(t, run("python3", folder(t, "agents", "rest_python.py"), s.address, key, "order_state", `{"order_id":"W1"}`), `"total": 9007199254740993`)
		assert.Contains(t, run("python3", folder(t, "agents", "rest_python.py"), s.address, key, "order_state", `{"order_id":"W2"}`), "What remains: get_customer.")
	})
	ingest := s.key("service:telemetry", gen.ScopeIngest)
	for name, send := range map[string]func(){
		"python": func() { run("python3", folder(t, "agents", "telemetry_python.py"), s.address, ingest) },
		"node":   func() { run("node", folder(t, "agents", "telemetry_node.mjs"), s.address, ingest) },
		"go": func() {
			p, err := telemetry.Provider(t.Context(), s.address, ingest)
			require.NoError(t, err)
			telemetry.ToolCall(t.Context(), p, "snippet", "get_order", `{"order_id":"W1"}`, `{"status":"delivered"}`)
			require.NoError(t, p.Shutdown(t.Context()))
		},
	} {
		t.Run("telemetry in "+name, func(t *testing.T) {
			before := calls(t, s)
			send()
			assert.Equal(t, before+1, calls(t, s))
		})
	}
}

// calls counts the calls of get_order that agents made themselves.
func calls(t *testing.T, s *service) int {
	t.Helper()
	_, err := s.client.StartMiningRunWithResponse(t.Context(), &gen.StartMiningRunParams{Wait: true}, gen.MiningRequest{})
	require.NoError(t, err)
	session, err := s.client.GetSessionWithResponse(t.Context(), "snippet")
	require.NoError(t, err)
	n := 0
	if session.JSON200 != nil {
		for _, r := range session.JSON200.Runs {
			n += len(r.Calls)
		}
	}
	return n
}

// Each snippet is run by a test or says that it is not.
func TestEachSnippetSaysWhetherItIsRun(t *testing.T) {
	require.NoError(t, fs.WalkDir(snippets.Files, "agents", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := fs.ReadFile(snippets.Files, path)
		head := strings.Join(strings.Split(string(raw), "\n")[:4], " ")
		assert.Regexp(t, `(?i)run by a test`, head, path)
		return err
	}))
}
