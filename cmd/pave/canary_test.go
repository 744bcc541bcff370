package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/api/gen"
)

// canaries are secrets by where they are put.
var canaries = map[string]string{
	"argument":            "canary-arg-4f1b7c92d0e8",
	"result":              "canary-result-a83e5d61f7c2",
	"header":              "canary-header-0d94b2e7a165",
	"input of a run":      "canary-input-7e2c58f0b3d9",
	"dynamic param":       "canary-param-c61a9e74d2f5",
	"answer of a tool":    "canary-answer-52d8f3b07ae1",
	"span attribute":      "canary-span-9b07e4c1a6d3",
	"key that is refused": "canarykey3e9d71f6b8c4a205d",
}

// heard is what a server was sent, in full.
type heard struct {
	*httptest.Server
	mu  sync.Mutex
	all bytes.Buffer
}

func listening(t *testing.T, answer func(body string, w http.ResponseWriter)) *heard {
	h := &heard{}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			if plain, err := gzip.NewReader(bytes.NewReader(body)); err == nil {
				body, _ = io.ReadAll(plain)
			}
		}
		h.mu.Lock()
		fmt.Fprintln(&h.all, r.URL, r.Header)
		h.all.Write(body)
		h.mu.Unlock()
		answer(string(body), w)
	}))
	t.Cleanup(h.Close)
	return h
}

func (h *heard) text() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.all.String()
}

func (h *heard) addr() string { return strings.TrimPrefix(h.URL, "http://") }

const doorTools = `kind: Tool
name: open_door
description: Opens.
input_schema: {type: object, properties: {api_key: {type: string}, token: {type: string}, door: {type: string}}, required: [door]}
output_schema: {type: object, properties: {opened: {type: boolean}, password: {type: string}}}
safety: {side_effects: read, idempotent: true, source: declared}
binding: {kind: http, method: POST, url: "URL/open", headers: {Authorization: "Bearer {{secret:DOOR_SECRET}}"}}
`

const doorFlow = `{"format_version":"1.1","type":"Flow","name":"open_it","version":"0.1.0","description":"Opens a door.",
	"input_schema":{"type":"object","properties":{"door":{"type":"string"},"api_key":{"type":"string"}},"required":["door","api_key"]},
	"dynamic_params":["token"],
	"steps":[{"tool_name":"open_door","input_mapping":{"door":"door","api_key":"api_key","token":{"$optional":"token"}},"output_as":"opened"}]}`

// S3: secrets that come in by arguments, results, headers, inputs of runs, dynamic params, answers of tools, spans and
// refused keys are afterwards in no file of the data directory, in no line of the log, and in nothing that the service
// tells anyone: answers, lists, events, metrics, webhooks, its own telemetry, errors and the command line.
func TestScenarioS3SecretsAreFoundNowhere(t *testing.T) {
	door := listening(t, func(body string, w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/json")
		if strings.Contains(body, "broken") {
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprintf(w, `{"error":"no such door","api_key":%q}`, canaries["answer of a tool"])
			return
		}
		fmt.Fprintf(w, `{"opened":true,"password":%q}`, canaries["answer of a tool"])
	})
	hook := listening(t, func(string, http.ResponseWriter) {})
	spans := listening(t, func(_ string, w http.ResponseWriter) { w.Header().Set("Content-Type", "application/x-protobuf") })
	dir := t.TempDir()
	s := &killable{t: t, program: buildPave(t), data: filepath.Join(dir, "data")}
	log, err := os.Create(filepath.Join(dir, "log"))
	require.NoError(t, err)
	defer func() { require.NoError(t, log.Close()) }()
	t.Setenv("DOOR_SECRET", canaries["header"])
	t.Setenv("PAVE_TELEMETRY_OTLP_ENDPOINT", spans.URL+"/v1/traces")
	t.Setenv("PAVE_TELEMETRY_OTLP_VALUES", "true")
	s.log = log
	s.flags = []string{"--solo", "--log-level", "debug", "--egress-allow", door.addr(), "--egress-allow", hook.addr(), "--egress-allow", spans.addr()}
	s.start()
	key := readAdminKey(t, s.data)

	var told strings.Builder // all that the service answered, but for what is the caller's own
	ask := func(method, path, body string) []byte {
		status, answer, err := s.as(key, method, path, strings.NewReader(body))
		require.NoError(t, err)
		require.Less(t, status, 300, "%s %s: %s", method, path, answer)
		return answer
	}
	var created struct{ Webhook gen.Webhook }
	require.NoError(t, json.Unmarshal(ask("POST", "/api/v1/webhooks", fmt.Sprintf(`{"url":%q}`, hook.URL)), &created))
	told.Write(ask("POST", "/api/v1/tool-calls", fmt.Sprintf(`{"session_id":"s1","event":"user_message","text":"my key is Bearer %[3]s"}
{"session_id":"s1","tool":"open_door","call_id":"c1","args":{"door":"d","api_key":%[1]q},"result":{"password":%[2]q},"status":"ok","headers":{"Authorization":"Bearer %[3]s"}}
{"session_id":"s1","tool":"open_door","call_id":"c2","args":{"door":"d"},"status":"error","error":"refused: Authorization: Bearer %[3]s"}`,
		canaries["argument"], canaries["result"], canaries["header"])))
	told.Write(ask("POST", "/v1/traces", fmt.Sprintf(`{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"0af7651916cd43dd8448eb211c80319c","spanId":"b7ad6b7169203331",
		"name":"execute_tool open_door","startTimeUnixNano":"1700000000000000000","endTimeUnixNano":"1700000001000000000","attributes":[
		{"key":"gen_ai.operation.name","value":{"stringValue":"execute_tool"}},{"key":"gen_ai.tool.name","value":{"stringValue":"open_door"}},
		{"key":"http.request.header.authorization","value":{"stringValue":"Bearer %[1]s"}},
		{"key":"gen_ai.tool.call.arguments","value":{"stringValue":"{\"api_key\":\"%[1]s\",\"door\":\"d\"}"}}]}]}]}]}`, canaries["span attribute"])))
	ids := s.doorRuns(key, door.URL, ask)
	for _, name := range []string{"input of a run", "dynamic param", "header"} {
		require.Contains(t, door.text(), canaries[name], "the tool itself gets what it needs")
	}

	for _, path := range []string{"/metrics", "/readyz", "/api/v1/sessions", "/api/v1/sessions/s1", "/api/v1/tool-calls", "/api/v1/runs", "/api/v1/audit-events",
		"/api/v1/audit-events/export", "/api/v1/flows", "/api/v1/tools/open_door", "/api/v1/proposals", "/api/v1/dead-letters", "/api/v1/service",
		"/api/v1/webhooks", "/api/v1/webhooks/" + created.Webhook.ID + "/deliveries"} {
		told.Write(ask("GET", path, ""))
	}
	for _, id := range ids {
		for _, of := range []string{"", "/events", "/lesson", "/diagram"} {
			told.Write(ask("GET", "/api/v1/runs/"+id+of, ""))
		}
		out, err := exec.Command(s.program, "--server", s.addr.Load().(string), "--key", key, "runs", "show", id).CombinedOutput()
		require.NoError(t, err, "%s", out)
		told.Write(out)
	}
	_, refused, err := s.as("pave_aaaaaaaa_"+canaries["key that is refused"], "GET", "/api/v1/flows?cursor="+canaries["header"], nil)
	require.NoError(t, err)
	told.Write(refused)
	require.Eventually(t, func() bool { return strings.Contains(hook.text(), "run.failed") }, 30*time.Second, 20*time.Millisecond, "webhooks come")
	require.Eventually(t, func() bool { return strings.Contains(spans.text(), "open_door") }, 30*time.Second, 20*time.Millisecond, "telemetry comes")
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, s.cmd.Wait())
	http.DefaultClient.CloseIdleConnections()

	logged, err := os.ReadFile(log.Name())
	require.NoError(t, err)
	require.NotEmpty(t, logged)
	noCanary(t, "the log", string(logged))
	noCanary(t, "answers", told.String())
	noCanary(t, "webhooks", hook.text())
	noCanary(t, "telemetry", spans.text())
	files := 0
	require.NoError(t, filepath.WalkDir(s.data, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		raw, err := os.ReadFile(path)
		noCanary(t, filepath.Base(path), string(raw))
		return err
	}))
	require.Greater(t, files, 3)
}

// doorRuns brings the flow into service and runs it well, badly and with input that does not fit.
func (s *killable) doorRuns(key, url string, ask func(method, path, body string) []byte) (ids []string) {
	tools := filepath.Join(s.t.TempDir(), "tools.yaml")
	require.NoError(s.t, os.WriteFile(tools, []byte(strings.ReplaceAll(doorTools, "URL", url)), 0o600))
	flow := filepath.Join(s.t.TempDir(), "flow.json")
	require.NoError(s.t, os.WriteFile(flow, []byte(doorFlow), 0o600))
	for _, args := range [][]string{{"tools", "apply", tools}, {"flows", "apply", flow}, {"proposals", "approve", "open_it"}, {"promote", "open_it"}} {
		out, err := exec.Command(s.program, append([]string{"--server", s.addr.Load().(string), "--key", key}, args...)...).CombinedOutput()
		require.NoError(s.t, err, "%v: %s", args, out)
	}
	for _, input := range []string{`{"door":"front","api_key":"%s"}`, `{"door":"broken","api_key":"%s"}`, `{"door":{"api_key":"%s"},"api_key":"x"}`} {
		var run gen.Run // its output is its caller's own
		require.NoError(s.t, json.Unmarshal(ask("POST", "/api/v1/flows/open_it/runs?wait=20s", fmt.Sprintf(`{"input":%s,"dynamic_params":{"token":%q}}`,
			fmt.Sprintf(input, canaries["input of a run"]), canaries["dynamic param"])), &run))
		ids = append(ids, run.ID)
	}
	return ids
}

// noCanary fails with what stands around a canary.
func noCanary(t *testing.T, where, text string) {
	t.Helper()
	for name, canary := range canaries {
		if at := strings.Index(text, canary); at >= 0 {
			t.Errorf("the %s is in %s: %q", name, where, text[max(0, at-200):min(len(text), at+80)])
		}
	}
}
