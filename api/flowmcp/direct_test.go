package flowmcp

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pave/executor"
	"pave/flows"
	"pave/governance"
	"pave/governance/runs"
)

// held are runs that wait until they are let go or cancelled, and say so.
type held struct {
	*ready
	began, ended chan struct{}
	let          chan struct{}
}

func (h *held) Run(ctx context.Context, actor governance.Actor, req runs.Request) (*runs.Run, error) {
	h.began <- struct{}{}
	defer func() { h.ended <- struct{}{} }()
	select {
	case <-h.let:
		return h.ready.Run(ctx, actor, req)
	case <-ctx.Done():
		return &runs.Run{ID: "r", Flow: "echo", State: executor.StatusCancelled, Result: &executor.RunResult{}}, nil
	}
}

// endpoint is a server whose callers are named by a header.
type endpoint struct {
	t      *testing.T
	url    string
	server *Server
}

func listen(t *testing.T, r Runs, atOnce int) *endpoint {
	t.Helper()
	s := New(Options{Rate: 1e9, AtOnce: atOnce, Runs: r})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		actor := governance.Actor{Tenant: "default", Principal: r.Header.Get("Who")}
		if actor.Principal != "service:reader" {
			actor.Scopes = []governance.Scope{governance.ScopeRun}
		}
		s.ServeHTTP(w, r, actor)
	}))
	t.Cleanup(func() { _ = s.Close(); web.Close() })
	return &endpoint{t, web.URL, s}
}

// send is one request; the answer's body is read.
func (e *endpoint) send(ctx context.Context, who, session, body string) (*http.Response, string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, strings.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	for k, v := range map[string]string{"Who": who, "Content-Type": "application/json", "Accept": "application/json, text/event-stream", headerSession: session} {
		if v != "" {
			r.Header.Set(k, v)
		}
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	return resp, string(raw), err
}

func (e *endpoint) post(who, session, body string) (*http.Response, string) {
	e.t.Helper()
	resp, answer, err := e.send(e.t.Context(), who, session, body)
	require.NoError(e.t, err)
	return resp, answer
}

func (e *endpoint) open(who string) (session string) {
	e.t.Helper()
	resp, answer := e.post(who, "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`)
	require.Equal(e.t, http.StatusOK, resp.StatusCode, answer)
	session = resp.Header.Get(headerSession)
	resp, answer = e.post(who, session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	require.Equal(e.t, http.StatusAccepted, resp.StatusCode, answer)
	return session
}

// What the library and the direct way answer to the same call is the same message.
func TestBothWaysAnswerAlike(t *testing.T) {
	e := listen(t, instant(), 0)
	session := e.open("service:a")
	resp, direct := e.post("service:a", session, `{"jsonrpc":"2.0","id":"x1","method":"tools/call","params":{"name":"echo","arguments":{"a":7}}}`)
	require.Equal(t, "application/json", resp.Header.Get("Content-Type"), "one that wants its answer alone is answered directly")
	resp, streamed := e.post("service:a", session, `{"jsonrpc":"2.0","id":"x1","method":"tools/call","params":{"name":"echo","arguments":{"a":7},"_meta":{"progressToken":1}}}`)
	require.Equal(t, "text/event-stream", resp.Header.Get("Content-Type"), "progress comes before the answer")
	_, streamed, found := strings.Cut(streamed, "data: ")
	require.True(t, found)
	assert.JSONEq(t, streamed, direct)
	assert.JSONEq(t, `{"jsonrpc":"2.0","id":"x1","result":{"_meta":{"pave/run_id":"r","pave/status":"succeeded","pave/flow":"echo@1.0.0"},"content":[{"type":"text","text":"{\"a\":7}"}],"structuredContent":{"a":7}}}`, direct)

	// What is not a call of an offered flow is the library's to answer.
	for body, want := range map[string]string{
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"nothing"}}`:                  "unknown tool",
		`{"jsonrpc":"2.0","id":3,"method":"tools/list"}`:                                              `"name":"echo"`,
		`{"jsonrpc":"2.0","method":"tools/call","params":{"name":"echo"}}`:                            "missing id",
		`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"echo","arguments":[1]}}`:     "arguments must be an object",
		`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"echo","arguments":{"a":7}}`:  "malformed",
		`[{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"echo"}}]`:                   `"structuredContent":{"a":7}`,
		`{"jsonrpc":"1.0","id":8,"method":"tools/call","params":{"name":"echo","arguments":{"a":7}}}`: "invalid message version tag",
		`{"id":9,"method":"tools/call","params":{"name":"echo","arguments":{"a":7}}}`:                 "invalid message version tag",
		`{"jsonrpc":"2.0","id":7.5,"method":"tools/call","params":{"name":"echo"}}`:                   "",
		`{"jsonrpc":"2.0","id":null,"method":"tools/call","params":{"name":"echo","arguments":null}}`: "",
	} {
		resp, answer := e.post("service:a", session, body)
		assert.NotEqual(t, "application/json", resp.Header.Get("Content-Type"), body)
		assert.Contains(t, answer, want, body)
	}
}

// Results are written as the library would write them.
func TestResultsAreWrittenAsTheLibraryDoes(t *testing.T) {
	flow := &flows.Flow{Name: "f"}
	for name, r := range map[string]*mcp.CallToolResult{
		"succeeded": answer(&runs.Run{ID: "r", Flow: "f", Version: "1.0.0", State: executor.StatusSucceeded,
			Result: &executor.RunResult{FinalOutput: map[string]any{"big": int64(9007199254740993), "text": "a\"b\u2028</script>\n\x00é"}}}),
		"empty":       answer(&runs.Run{State: executor.StatusSucceeded, Result: &executor.RunResult{}}),
		"handed back": answer(&runs.Run{State: executor.StatusHandedBack, Continuation: &runs.Continuation{Reason: "no", Known: map[string]any{"a": 1.5}}}),
		"failed":      answer(&runs.Run{State: executor.StatusFailed}),
		"refused":     refusal(flow, flows.NewError(flows.CodeFull, "too \"many\"")),
	} {
		want, err := json.Marshal(r)
		require.NoError(t, err)
		assert.JSONEq(t, string(want), string(appendResult(nil, r)), name)
	}
}

// A step that may have happened is told apart from one that only comes next.
func TestStoppedSaysWhatMayHaveHappened(t *testing.T) {
	for _, doubt := range []bool{false, true} {
		c := &runs.Continuation{Next: &runs.NextStep{Step: "1", Tool: "pay", MayHaveHappened: doubt}}
		next, ok := Stopped("failed", "r", c)["next"].(map[string]any)
		require.True(t, ok)
		_, said := next["may_have_happened"]
		assert.Equal(t, doubt, said)
	}
}

// A session is its owner's, also on the direct way, and ends when the client says so.
func TestSessionsOfTheDirectWay(t *testing.T) {
	e := listen(t, instant(), 0)
	session := e.open("service:a")
	resp, answer := e.post("service:a", session, call(2))
	require.Contains(t, answer, echoed)
	require.Equal(t, "application/json", resp.Header.Get("Content-Type"))
	resp, answer = e.post("service:b", session, call(3))
	require.Equal(t, http.StatusForbidden, resp.StatusCode, answer)
	resp, answer = e.post("service:a", "made-up", call(4))
	require.Equal(t, http.StatusNotFound, resp.StatusCode, answer)
	_, answer = e.post("service:reader", e.open("service:reader"), call(5))
	var refused struct {
		Error struct {
			Code    int
			Message string
		}
	}
	require.NoError(t, json.Unmarshal([]byte(answer), &refused), answer)
	require.Equal(t, codeForbidden, refused.Error.Code)
	require.Contains(t, refused.Error.Message, "CW-E047")

	// Where the library's word is old, it is asked again, and the session goes on.
	e.server.direct.mu.Lock()
	old := e.server.direct.sessions[session]
	old.seen = old.seen.Add(-2 * lately)
	e.server.direct.sessions[session] = old
	e.server.direct.mu.Unlock()
	for i, want := range []string{"text/event-stream", "application/json"} {
		resp, answer = e.post("service:a", session, call(10+i))
		require.Equal(t, want, resp.Header.Get("Content-Type"))
		require.Contains(t, answer, echoed)
	}

	r, err := http.NewRequest(http.MethodDelete, e.url, nil)
	require.NoError(t, err)
	r.Header.Set(headerSession, session)
	r.Header.Set("Who", "service:a")
	gone, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	_ = gone.Body.Close()
	resp, answer = e.post("service:a", session, call(6))
	require.Equal(t, http.StatusNotFound, resp.StatusCode, answer)
}

// A call on the direct way ends when the client cancels it and when the server closes, and not when the connection breaks.
func TestCallsOfTheDirectWayEnd(t *testing.T) {
	h := &held{instant(), make(chan struct{}, 4), make(chan struct{}, 4), make(chan struct{})}
	e := listen(t, h, 0)
	session := e.open("service:a")
	answers := make(chan string, 4)
	begin := func(ctx context.Context, id int) {
		go func() {
			_, answer, err := e.send(ctx, "service:a", session, call(id))
			if err != nil {
				answer = err.Error()
			}
			answers <- answer
		}()
		<-h.began
	}
	begin(t.Context(), 2)
	resp, _ := e.post("service:b", session, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
	require.Equal(t, http.StatusForbidden, resp.StatusCode)
	require.Empty(t, h.ended, "others do not cancel it")
	e.post("service:a", session, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
	require.Contains(t, <-answers, `"status":"cancelled"`)
	<-h.ended

	ctx, leave := context.WithCancel(t.Context())
	begin(ctx, 3)
	leave()
	require.Contains(t, <-answers, "context canceled")
	select {
	case <-h.ended:
		t.Fatal("the run ended with its connection")
	case <-time.After(50 * time.Millisecond):
	}
	h.let <- struct{}{}
	<-h.ended

	begin(t.Context(), 4)
	require.NoError(t, e.server.Close())
	<-h.ended // Close waited for it
	require.Contains(t, <-answers, `"status":"cancelled"`)
}

// Calls of one principal past the number that may run wait in line, and hold nobody else up.
func TestCallsWaitInLine(t *testing.T) {
	h := &held{instant(), make(chan struct{}, 8), make(chan struct{}, 8), make(chan struct{})}
	e := listen(t, h, 2)
	sessions := map[string]string{"service:a": e.open("service:a"), "service:b": e.open("service:b")}
	answers := make(chan string, 8)
	begin := func(who string, id int) {
		go func() {
			_, answer, err := e.send(t.Context(), who, sessions[who], call(id))
			if err != nil {
				answer = err.Error()
			}
			answers <- answer
		}()
	}
	begin("service:a", 2)
	<-h.began
	begin("service:a", 3)
	<-h.began
	begin("service:a", 4) // in line
	begin("service:b", 2)
	<-h.began // of the other: three run
	select {
	case <-h.began:
		t.Fatal("three calls of one principal run at a time")
	case <-time.After(50 * time.Millisecond):
	}
	h.let <- struct{}{}
	h.let <- struct{}{}
	<-h.began // the one in line, whose place came free with one of its principal's
	h.let <- struct{}{}
	h.let <- struct{}{}
	for range 4 {
		require.Contains(t, <-answers, echoed)
	}
}

// slow takes its time to say what is offered.
type slow struct{ *ready }

func (s slow) Offers(ctx context.Context, actor governance.Actor) ([]runs.Offer, error) {
	time.Sleep(50 * time.Millisecond)
	return s.ready.Offers(ctx, actor)
}

// Calls that come while the list of flows is read wait for it.
func TestCallsWaitForTheList(t *testing.T) {
	e := listen(t, slow{instant()}, 0)
	session := e.open("service:a")
	answers := make(chan string, 20)
	for i := range cap(answers) {
		go func() {
			_, answer, err := e.send(t.Context(), "service:a", session, call(i+2))
			if err != nil {
				answer = err.Error()
			}
			answers <- answer
		}()
	}
	for range cap(answers) {
		require.Contains(t, <-answers, echoed)
	}
}
