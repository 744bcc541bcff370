//go:build clients

package snippets

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pave/api/gen"
	"pave/api/snippets"
)

// codexCLI names the program codex; it is not installed by make test-clients, as it is several hundred megabytes.
const codexCLI = "PAVE_CLIENTS_CODEX"

// Codex with the snippet's settings lists the flows, lets its model call one, hands on what it answered, and its telemetry
// of that is known for a call of a flow.
func TestCodexCallsFlows(t *testing.T) {
	codex := os.Getenv(codexCLI)
	if codex == "" {
		t.Skipf("%s does not name the program codex", codexCLI)
	}
	s, _ := mcpService(t, nil, "order_state")
	key := s.key("service:agent", gen.ScopeRun, gen.ScopeIngest)
	model := httptest.NewServer(http.HandlerFunc(codexModel))
	t.Cleanup(model.Close)
	home := t.TempDir()
	settings := fmt.Sprintf("model = \"stand-in\"\nmodel_provider = \"standin\"\n[model_providers.standin]\nname = \"stand-in\"\nbase_url = %q\nwire_api = \"responses\"\n", model.URL+"/v1") +
		"[features]\nplugins = false\n[analytics]\nenabled = false\n" + codexSettings(t, s.address, key)
	require.NoError(t, os.WriteFile(filepath.Join(home, "config.toml"), []byte(settings), 0o600))
	cmd := exec.CommandContext(t.Context(), codex, "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "What is the state of order W1?")
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "CODEX_HOME="+home, "PAVE_KEY="+key, "NO_PROXY=127.0.0.1")
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Regexp(t, `the flow says (?s:.*)"state":"delivered"`, string(out))

	runs, err := s.client.ListRunsWithResponse(t.Context(), &gen.ListRunsParams{})
	require.NoError(t, err)
	require.Len(t, runs.JSON200.Items, 1)
	assert.Equal(t, gen.RunStatusSucceeded, runs.JSON200.Items[0].Status)
	assert.Equal(t, "service:agent", runs.JSON200.Items[0].Caller)

	_, err = s.client.StartMiningRunWithResponse(t.Context(), &gen.StartMiningRunParams{Wait: true}, gen.MiningRequest{})
	require.NoError(t, err)
	id := regexp.MustCompile(`session id: (\S+)`).FindSubmatch(out)
	require.NotNil(t, id, string(out))
	session, err := s.client.GetSessionWithResponse(t.Context(), string(id[1]))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, session.StatusCode(), string(session.Body))
	kinds := map[string]string{}
	for _, run := range session.JSON200.Runs {
		for _, c := range run.Calls {
			kinds[c.Tool] = string(c.OriginKind)
		}
	}
	assert.Equal(t, map[string]string{"order_state": "flow_call"}, kinds)
}

// codexSettings are the snippet's, for a server and a key.
func codexSettings(t *testing.T, address, key string) string {
	t.Helper()
	raw, err := snippets.Files.ReadFile("agents/codex_cli.md")
	require.NoError(t, err)
	var settings strings.Builder
	for line := range strings.Lines(string(raw)) {
		if text, ok := strings.CutPrefix(line, "    "); ok {
			settings.WriteString(text)
		}
	}
	return strings.NewReplacer("http://127.0.0.1:8318", address, "pave_...", key).Replace(settings.String())
}

// codexModel answers as a model does: first with a call of the flow, then with what that answered.
func codexModel(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Input []struct {
			Type   string
			Output any
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil && r.Method == http.MethodPost {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	item := map[string]any{"type": "function_call", "id": "fc_1", "call_id": "call_1", "namespace": "mcp__pave", "name": "order_state", "arguments": `{"order_id":"W1"}`, "status": "completed"}
	for _, in := range asked.Input {
		if in.Type == "function_call_output" {
			item = map[string]any{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
				"content": []any{map[string]any{"type": "output_text", "text": fmt.Sprintf("the flow says %v", in.Output), "annotations": []any{}}}}
		}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, event := range []map[string]any{
		{"type": "response.created", "response": map[string]any{"id": "resp_1"}},
		{"type": "response.output_item.done", "output_index": 0, "item": item},
		{"type": "response.completed", "response": map[string]any{"id": "resp_1", "usage": map[string]any{"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}}},
	} {
		raw, _ := json.Marshal(event) // of maps and texts
		_, _ = fmt.Fprintf(w, "event: %s\ndata: %s\n\n", event["type"], raw)
	}
}
