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
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pave/api/gen"
)

// Where make test-clients has installed the frameworks.
const (
	nodeClients   = "PAVE_CLIENTS_NODE"
	pythonClients = "PAVE_CLIENTS_PYTHON"
)

// The snippets of agent frameworks, with a stand-in for the model that calls the flow and repeats what it answered: each
// lists the flows over MCP, hands them to its model, runs the call and gets the flow's output.
func TestAgentFrameworksCallFlows(t *testing.T) {
	for name, command := range map[string]func(t *testing.T) *exec.Cmd{
		"langgraph.py":      python,
		"llamaindex.py":     python,
		"openai_agents.py":  python,
		"openai_agents.mjs": nodePackages,
		"vercel_ai_sdk.mjs": nodePackages,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := command(t)
			snippet := filepath.Join(cmd.Dir, "snippet"+filepath.Ext(name)) // no name of a package
			copyFile(t, folder(t, "agents", name), snippet)
			cmd.Args = append(cmd.Args, snippet)
			s, _ := mcpService(t, nil, "order_state")
			model := httptest.NewServer(http.HandlerFunc(standIn))
			defer model.Close()
			cmd.Env = append(os.Environ(), "PAVE_URL="+s.address, "PAVE_KEY="+s.key("service:agent", gen.ScopeRun), "OPENAI_API_KEY=none",
				"OPENAI_BASE_URL="+model.URL+"/v1", "OPENAI_API_BASE="+model.URL+"/v1", "OPENAI_AGENTS_DISABLE_TRACING=1", "NO_PROXY=127.0.0.1")
			cmd.WaitDelay = time.Second
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, string(out))
			assert.Regexp(t, `the flow says .*"?state\\?"?: ?\\?"delivered`, string(out))
			runs, err := s.client.ListRunsWithResponse(t.Context(), &gen.ListRunsParams{})
			require.NoError(t, err)
			require.Len(t, runs.JSON200.Items, 1)
			assert.Equal(t, gen.RunStatusSucceeded, runs.JSON200.Items[0].Status)
			assert.Equal(t, "service:agent", runs.JSON200.Items[0].Caller)
		})
	}
}

// Tools of LangChain itself, served by the worker snippet that wraps them.
func TestLangChainToolsAreServed(t *testing.T) {
	s := serve(t, nil)
	s.tools(leadTools)
	s.activate(leadFlow)
	program := filepath.Join(installed(t, pythonClients), "bin", "python")
	start(t, folder(t, "worker", "python"), program, "-u", "-B", "-c", `
import sys
from langchain_core.tools import tool
from langchain_worker import serve_langchain
@tool
def score_lead(email: str) -> dict:
    """Scores a lead."""
    return {"score": len(email), "big": 9007199254740993}
@tool
def check_lead(score: int) -> str:
    """Checks a score."""
    if score > 20: raise ValueError("no such lead")
    return "good"
serve_langchain(sys.argv[1], "crm", [score_lead, check_lead], sys.argv[2])`, s.address, s.key("service:worker", gen.ScopeWork))
	good := s.run("judge_lead", `{"email":"ann@example.com"}`)
	require.Equal(t, gen.RunStatusSucceeded, good.Status, string(good.Record))
	assert.Equal(t, canonical(t, `{"score":15,"big":9007199254740993,"verdict":"good"}`), canonical(t, string(good.Output)))
	bad := s.run("judge_lead", `{"email":"a-very-long-address@example.com"}`)
	require.Equal(t, gen.RunStatusFailed, bad.Status)
	assert.Contains(t, bad.ErrorMessage, "no such lead")
}

func installed(t *testing.T, at string) string {
	t.Helper()
	dir := os.Getenv(at)
	if dir == "" {
		t.Skipf("%s is not set: the frameworks are not installed", at)
	}
	return dir
}

func python(t *testing.T) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), filepath.Join(installed(t, pythonClients), "bin", "python"))
	cmd.Dir = t.TempDir()
	return cmd
}

// nodePackages is a folder with the lane's packages, where that of the AI SDK has its own name.
func nodePackages(t *testing.T) *exec.Cmd {
	from := filepath.Join(installed(t, nodeClients), "node_modules")
	cmd := exec.CommandContext(t.Context(), program(t, "node"))
	cmd.Dir = t.TempDir()
	packages := filepath.Join(cmd.Dir, "node_modules")
	require.NoError(t, os.Mkdir(packages, 0o755))
	found, err := os.ReadDir(from)
	require.NoError(t, err)
	for _, p := range found {
		require.NoError(t, os.Symlink(filepath.Join(from, p.Name()), filepath.Join(packages, p.Name())))
	}
	if err := os.Symlink(filepath.Join(from, "ai7"), filepath.Join(packages, "ai")); !os.IsExist(err) {
		require.NoError(t, err)
	}
	return cmd
}

// standIn answers as a model of OpenAI's two interfaces: first with a call of the flow, then with what it answered.
func standIn(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Stream   bool
		Messages []struct {
			Role    string
			Content any
		}
		Input []struct {
			Type   string
			Output any
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	said, done := any(nil), false
	for _, m := range asked.Messages {
		if m.Role == "tool" {
			said, done = m.Content, true
		}
	}
	for _, item := range asked.Input {
		if item.Type == "function_call_output" {
			said, done = item.Output, true
		}
	}
	text := fmt.Sprintf("the flow says %v", said)
	const args = `{"order_id":"W1"}`
	if strings.HasSuffix(r.URL.Path, "/responses") {
		item := map[string]any{"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "order_state", "arguments": args, "status": "completed"}
		if done {
			item = map[string]any{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": []any{map[string]any{"type": "output_text", "text": text, "annotations": []any{}}}}
		}
		reply(w, map[string]any{"id": "resp_1", "object": "response", "created_at": 1790000000, "status": "completed", "model": "gpt-4o", "output": []any{item}, "parallel_tool_calls": true,
			"tool_choice": "auto", "tools": []any{}, "error": nil, "incomplete_details": nil, "instructions": nil, "metadata": map[string]any{}, "temperature": 1, "top_p": 1,
			"usage": map[string]any{"input_tokens": 10, "input_tokens_details": map[string]any{"cached_tokens": 0}, "output_tokens": 5, "output_tokens_details": map[string]any{"reasoning_tokens": 0}, "total_tokens": 15}})
		return
	}
	message := map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{map[string]any{"index": 0, "id": "call_1", "type": "function", "function": map[string]any{"name": "order_state", "arguments": args}}}}
	reason := "tool_calls"
	if done {
		message, reason = map[string]any{"role": "assistant", "content": text}, "stop"
	}
	answer := map[string]any{"id": "chatcmpl-1", "object": "chat.completion", "created": 1790000000, "model": "gpt-4o",
		"choices": []any{map[string]any{"index": 0, "message": message, "finish_reason": reason}}, "usage": map[string]any{"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}}
	if !asked.Stream {
		reply(w, answer)
		return
	}
	answer["object"], answer["choices"] = "chat.completion.chunk", []any{map[string]any{"index": 0, "delta": message, "finish_reason": reason}}
	raw, _ := json.Marshal(answer) // of maps and texts
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = fmt.Fprintf(w, "data: %s\n\ndata: [DONE]\n\n", raw)
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}
