package app

import (
	"bytes"
	"encoding/json"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"pave/api/gen"
	"pave/governance/outbox"
)

// The canaries: a secret in the arguments of a recorded call, one in its result, one in a header, one in the input of a
// run, one among its dynamic params.
const (
	canaryArg    = "canary-arg-7f3a91c2d4"
	canaryResult = "canary-result-5b8e20f6a1"
	canaryHeader = "canary-header-c4d19e7702"
	canaryInput  = "canary-input-1e6c93b8d5"
	canaryParam  = "canary-param-93a0d7f1c6"
)

var canaries = []string{canaryArg, canaryResult, canaryHeader, canaryInput, canaryParam}

// lines is a log that can be read while it is written.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// noCanary fails with what stands around a canary that is in a text.
func noCanary(t *testing.T, where, text string) {
	t.Helper()
	for _, canary := range canaries {
		if at := strings.Index(text, canary); at >= 0 {
			t.Errorf("%s is in the %s: %q", canary, where, text[max(0, at-150):min(len(text), at+60)])
		}
	}
}

const secretTools = `kind: Tool
name: open_door
description: Opens.
input_schema: {type: object, properties: {api_key: {type: string}, token: {type: string}, door: {type: string}}, required: [door]}
output_schema: {type: object, properties: {opened: {type: boolean}}}
safety: {side_effects: read, idempotent: true, source: declared}
binding: {kind: http, method: POST, url: "URL/open", headers: {Authorization: "Bearer {{secret:DOOR_SECRET}}"}}
`

const secretFlow = `{"format_version":"1.1","type":"Flow","name":"open_it","version":"0.1.0","description":"Opens a door.",
	"input_schema":{"type":"object","properties":{"door":{"type":"string"},"api_key":{"type":"string"}},"required":["door","api_key"]},
	"dynamic_params":["token"],
	"steps":[{"tool_name":"open_door","input_mapping":{"door":"door","api_key":"api_key","token":{"$optional":"token"}},"output_as":"opened"}]}`

// TestSecretsAreFoundNowhere puts canaries into everything that comes in and looks for them in everything that stays or
// goes out: files, log, metrics, answers, events, webhooks, spans and errors.
func TestSecretsAreFoundNowhere(t *testing.T) {
	var served, told lines
	door := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = served.Write(append(body, r.Header.Get("Authorization")...))
		w.Header().Set("Content-Type", "application/json")
		if strings.Contains(string(body), "broken") {
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = w.Write([]byte(`{"error":"no such door","api_key":"` + canaryInput + `"}`))
			return
		}
		_, _ = w.Write([]byte(`{"opened":true}`))
	}))
	defer door.Close()
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(&told, r.Body) }))
	defer receiver.Close()
	t.Setenv("DOOR_SECRET", canaryHeader)

	spans := newCollector(t)
	dir, log := t.TempDir(), &lines{}
	a := open(t, func(o *Options) {
		o.DataDir, o.Solo = dir, true
		o.Telemetry = TelemetryOptions{Endpoint: spans.url, Headers: []string{"Authorization={{secret:DOOR_SECRET}}"}, Values: true}
		o.Logger = slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		o.EgressAllow = []string{strings.TrimPrefix(door.URL, "http://"), strings.TrimPrefix(receiver.URL, "http://")}
	})
	ctx, c := t.Context(), clientOf(t, a, "")
	hook, err := c.CreateWebhookWithResponse(ctx, nil, gen.WebhookCreate{URL: receiver.URL})
	require.NoError(t, err)
	require.Equal(t, http.StatusCreated, hook.StatusCode(), string(hook.Body))

	record := `{"session_id":"s1","event":"user_message","text":"my key is Bearer ` + canaryHeader + `"}
{"session_id":"s1","tool":"open_door","call_id":"c1","args":{"door":"d","api_key":"` + canaryArg + `"},"result":{"password":"` + canaryResult + `"},"status":"ok","headers":{"Authorization":"Bearer ` + canaryHeader + `"}}
`
	in, err := c.RecordToolCallsWithBodyWithResponse(ctx, &gen.RecordToolCallsParams{Assemble: true}, "application/x-ndjson", strings.NewReader(record))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, in.StatusCode(), string(in.Body))
	answers := string(in.Body)

	tools, err := c.ApplyToolsWithBodyWithResponse(ctx, "application/yaml", strings.NewReader(strings.ReplaceAll(secretTools, "URL", door.URL)))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, tools.StatusCode(), string(tools.Body))
	made, err := c.SubmitProposalWithResponse(ctx, nil, gen.ProposalCreate{Flow: json.RawMessage(secretFlow)})
	require.NoError(t, err)
	require.Equal(t, http.StatusCreated, made.StatusCode(), string(made.Body))
	ok, err := c.ReviewProposalWithResponse(ctx, made.JSON201.ID, &gen.ReviewProposalParams{IfMatch: `"1"`},
		gen.ReviewCreate{Verdict: gen.VerdictApprove, Digest: made.JSON201.Digest})
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, ok.StatusCode(), string(ok.Body))
	done, err := c.PromoteProposalWithResponse(ctx, made.JSON201.ID, &gen.PromoteProposalParams{IfMatch: ok.HTTPResponse.Header.Get("ETag")}, gen.PromoteRequest{})
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, done.StatusCode(), string(done.Body))

	var ids []string
	for _, which := range []string{"front", "broken"} {
		run, err := c.RunFlowWithResponse(ctx, "open_it", &gen.RunFlowParams{}, gen.RunRequest{
			Input:         json.RawMessage(`{"door":"` + which + `","api_key":"` + canaryInput + `"}`),
			DynamicParams: json.RawMessage(`{"token":"` + canaryParam + `"}`)})
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, run.StatusCode(), string(run.Body)) // its output is the caller's own
		ids = append(ids, run.JSON200.ID)
	}
	for _, canary := range []string{canaryInput, canaryParam, canaryHeader} {
		require.Contains(t, served.text(), canary, "the tool itself gets what it needs")
	}
	_, err = a.gate.Watch(ctx, "default")
	require.NoError(t, err)
	_, err = outbox.New(outbox.Options{Queue: a.gate, Transport: http.DefaultTransport}).Send(ctx)
	require.NoError(t, err)
	defer http.DefaultClient.CloseIdleConnections()
	require.Contains(t, told.text(), "flow.promoted")

	get := func(path string, key string) string {
		r := httptest.NewRequest("GET", path, nil)
		r.Header.Set("Authorization", "Bearer "+key)
		w := httptest.NewRecorder()
		a.Handler().ServeHTTP(w, r)
		return w.Body.String()
	}
	admin, err := AdminKey(dir)
	require.NoError(t, err)
	for _, path := range []string{"/api/v1/sessions", "/api/v1/sessions/s1", "/api/v1/runs", "/api/v1/runs/" + ids[0], "/api/v1/runs/" + ids[1],
		"/api/v1/runs/" + ids[1] + "/lesson", "/api/v1/runs/" + ids[0] + "/events", "/api/v1/audit-events/export", "/metrics", "/api/v1/tools/open_door",
		"/api/v1/webhooks/" + hook.JSON201.Webhook.ID + "/deliveries", "/readyz"} {
		body := get(path, admin)
		require.NotEmpty(t, body, path)
		answers += body
	}
	answers += get("/api/v1/flows", "pave_aaaaaaaa_"+canaryHeader) // a key that is not valid
	wrong, err := c.RunFlowWithResponse(ctx, "open_it", &gen.RunFlowParams{}, gen.RunRequest{Input: json.RawMessage(`{"door":{"api_key":"` + canaryInput + `"}}`)})
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, wrong.StatusCode(), string(wrong.Body)) // it tells its caller what the caller gave
	answers += get("/api/v1/runs/"+wrong.JSON200.ID, admin)
	require.NoError(t, a.Close()) // everything is on disk

	noCanary(t, "answers", answers)
	noCanary(t, "log", log.text())
	noCanary(t, "webhooks", told.text())
	require.Contains(t, spans.text.String(), "front", "the spans of the runs have values")
	noCanary(t, "spans", spans.text.String())
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		noCanary(t, filepath.Base(path), string(raw))
		return err
	})
	require.NoError(t, err)
}
