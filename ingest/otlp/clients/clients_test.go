//go:build clients

// Package clients drives the receiver with real clients: telemetry SDKs and agent frameworks of Node and Python, which play one
// known scenario over real connections. Run it with make test-clients, which installs them.
package clients

import (
	"cmp"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/flows"
	"pave/ingest"
	"pave/ingest/assembly"
	"pave/ingest/otlp"
	"pave/ingest/store"
	"pave/ingest/store/sqlite"
)

// Where the lane has installed the clients.
const (
	nodeDir   = "PAVE_CLIENTS_NODE"   // folder of the Node scripts beside their node_modules
	pythonDir = "PAVE_CLIENTS_PYTHON" // folder of the Python environment
)

// call is what the scenario does, as a client tells it.
type call struct {
	tool, id, args string
	status         ingest.Status
}

// The scenario of node/scenario.mjs and python/scenario.py.
func scenario(ids bool) []call {
	calls := []call{
		{"search_orders", "call_1", `{"customer":"Zoë \"Z\" 李"}`, ingest.StatusOK},
		{"get_weather", "call_2", `{"city":"Paris"}`, ingest.StatusOK},
		{"refund", "call_3", `{"order":"o-1","amount":12.5}`, ingest.StatusError},
		{"refund", "call_4", `{"order":"o-1","amount":12.5}`, ingest.StatusError},
	}
	if !ids {
		for i := range calls {
			calls[i].id = ""
		}
	}
	return calls
}

// unnamed is the scenario of a client that loses the name of an only argument.
func unnamed() []call {
	calls := scenario(false)
	calls[0].args, calls[1].args = `{"input":"Zoë \"Z\" 李"}`, `{"input":"Paris"}`
	return calls
}

var clients = []struct {
	name, dir, script, arg string
	source                 string
	want                   []call
	models                 int  // model calls of a session
	refuse                 bool // the receiver answers 429 and 503 first: the client must send again
	traces                 bool // the session is the trace
	threads                bool // tools of one turn start in any order, and nothing tells which was asked for first
}{
	{name: "otel over protobuf", dir: nodeDir, script: "otel.mjs", arg: "proto", source: "otlp/genai", want: scenario(true), models: 3, refuse: true},
	{name: "otel over JSON", dir: nodeDir, script: "otel.mjs", arg: "json", source: "otlp/genai", want: scenario(true), models: 3, refuse: true},
	{name: "otel over gRPC", dir: nodeDir, script: "otel.mjs", arg: "grpc", source: "otlp/genai", want: scenario(true), models: 3}, // this exporter never sends again; Python's does
	{name: "ai 6", dir: nodeDir, script: "vercel6.mjs", source: "otlp/vercel", want: scenario(true), models: 4},
	{name: "ai 7", dir: nodeDir, script: "vercel7.mjs", source: "otlp/genai", want: scenario(true), models: 4},
	{name: "langchain", dir: nodeDir, script: "langchain.mjs", source: "otlp/openinference", want: unnamed()},
	{name: "openai agents", dir: nodeDir, script: "openai-agents.mjs", source: "otlp/openinference", want: scenario(false)},
	{name: "mcp", dir: nodeDir, script: "mcp.mjs", source: "otlp/traceloop", want: scenario(false), traces: true},
	{name: "strands", dir: nodeDir, script: "strands.mjs", source: "otlp/strands", want: scenario(true), models: 4},
	{name: "langfuse", dir: nodeDir, script: "langfuse.mjs", source: "otlp/langfuse", want: scenario(false)},
	{name: "langsmith", dir: nodeDir, script: "langsmith.mjs", source: "otlp/langsmith", want: scenario(false)},
	{name: "pydantic-ai, http", dir: pythonDir, script: "pydantic_agents.py", source: "otlp/pydantic-ai", want: scenario(true), models: 4, refuse: true},
	{name: "langgraph, grpc", dir: pythonDir, script: "langgraph_agents.py", source: "otlp/openinference", want: unnamed(), models: 4, refuse: true, threads: true},
}

// refusal refuses the first two requests: too many, then no room.
func refusal() func() error {
	var n atomic.Int64
	return func() error {
		again := &ingest.RetryError{After: 200 * time.Millisecond}
		switch n.Add(1) {
		case 1:
			return &flows.Error{Code: flows.CodeRateLimited, Message: "slower", Err: again}
		case 2:
			return &flows.Error{Code: flows.CodeFull, Message: "no room now", Err: again}
		}
		return nil
	}
}

func TestClients(t *testing.T) {
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			dir := os.Getenv(c.dir)
			if dir == "" {
				t.Skipf("%s is not set: its clients are not installed", c.dir)
			}
			t.Parallel()
			events, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "events.db"), sqlite.Options{})
			require.NoError(t, err)
			defer func() { require.NoError(t, events.Close()) }()
			admit := func() error { return nil }
			if c.refuse {
				admit = refusal()
			}
			recorder := ingest.NewRecorder(events, ingest.RecorderOptions{Admit: admit})
			play(t, otlp.New(recorder, otlp.Options{}), command(t, c.dir, dir, c.script, c.arg))
			require.NoError(t, recorder.Close())
			if c.refuse {
				require.Positive(t, recorder.Stats().Refused, "the first requests were refused")
			}
			_, err = assembly.New(events, assembly.Options{}).Run(t.Context(), ingest.DefaultTenant, time.Now().Add(time.Hour))
			require.NoError(t, err)
			sessions := stored(t, events)
			if c.threads {
				for _, s := range sessions {
					for i := range s.Runs {
						slices.SortStableFunc(s.Runs[i].Calls, func(a, b ingest.Call) int {
							return cmp.Or(cmp.Compare(a.Turn, b.Turn), strings.Compare(b.Tool, a.Tool))
						})
					}
				}
			}
			check(t, sessions, c.want, c.source, c.models, c.traces)
		})
	}
}

// command runs a script with what the lane installed.
func command(t *testing.T, kind, dir, script, arg string) *exec.Cmd {
	if kind == nodeDir {
		return exec.CommandContext(t.Context(), "node", filepath.Join(dir, script), arg)
	}
	return exec.CommandContext(t.Context(), filepath.Join(dir, "bin", "python"), filepath.Join("python", script), arg)
}

// play serves the receiver on free ports until the client has ended.
func play(t *testing.T, h *otlp.Handler, cmd *exec.Cmd) {
	t.Helper()
	mux := http.NewServeMux()
	h.Register(mux)
	web := httptest.NewServer(mux)
	defer web.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	rpc := h.GRPC(otlp.GRPCOptions{})
	served := make(chan error, 1)
	go func() { served <- rpc.Serve(l) }()
	defer func() { rpc.Stop(); require.NoError(t, <-served) }()
	cmd.Env = append(os.Environ(), "PAVE_OTLP_HTTP="+web.URL, "PAVE_OTLP_GRPC="+l.Addr().String(), "OTEL_NODE_RESOURCE_DETECTORS=none")
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

func stored(t *testing.T, events *sqlite.Store) (sessions []*ingest.Session) {
	t.Helper()
	var ids []string
	page, err := events.Sessions(t.Context(), ingest.DefaultTenant, store.SessionFilter{Limit: 10})
	require.NoError(t, err)
	for _, s := range page.Items {
		ids = append(ids, s.ID)
	}
	require.NoError(t, assembly.Loader{Store: events}.Sessions(t.Context(), ingest.DefaultTenant, ids, func(s *ingest.Session) error {
		sessions = append(sessions, s)
		return nil
	}))
	slices.SortFunc(sessions, func(a, b *ingest.Session) int { return strings.Compare(a.ID, b.ID) })
	return sessions
}

// check compares the two stored sessions with the scenario.
func check(t *testing.T, sessions []*ingest.Session, want []call, source string, models int, traces bool) {
	t.Helper()
	var names []string
	for _, s := range sessions {
		names = append(names, s.ID)
		var got []call
		answers := 0
		for i := range s.Runs {
			answers += len(s.Runs[i].LLM)
			for _, c := range s.Runs[i].Calls {
				require.Equal(t, source, c.Source)
				got = append(got, call{c.Tool, c.CallID, string(c.Args), c.Status})
			}
		}
		require.Len(t, got, len(want), "%s: %v", s.ID, got)
		for i := range want {
			require.JSONEq(t, want[i].args, got[i].args, "%s: %s", s.ID, want[i].tool)
			got[i].args = want[i].args
		}
		require.Equal(t, want, got, s.ID)
		require.Zero(t, s.Conflicts)
		if models > 0 {
			require.Equal(t, models, answers, "%s: model calls", s.ID)
		}
	}
	if traces {
		require.Len(t, names, 2)
		require.True(t, strings.HasPrefix(names[0], "trace:"), fmt.Sprint(names))
		return
	}
	require.Equal(t, []string{"sess-A", "sess-B"}, names)
}
