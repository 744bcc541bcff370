package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"pave/api/gen"
	"pave/flows/value"
)

// recordedCall is a line of the recorded sessions.
type recordedCall struct {
	SessionID string          `json:"session_id"`
	Seq       int             `json:"seq"`
	Turn      int             `json:"turn"`
	Tool      string          `json:"tool"`
	Args      json.RawMessage `json:"args"`
	Result    json.RawMessage `json:"result"`
	Error     any             `json:"error"`
	Context   string          `json:"context"`
	TaskID    string          `json:"task_id"`
}

// recordedFile finds a file of the third-party recordings, which are no part of the project.
func recordedFile(t *testing.T, name string) string {
	path := filepath.Join("..", "..", "..", "shared", "data", "calls", name)
	if _, err := os.Stat(path); err != nil {
		t.Skip("recorded data not present: " + name)
	}
	return path
}

func readRecorded(t *testing.T, path string) map[string][]recordedCall {
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	out := map[string][]recordedCall{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var c recordedCall
		require.NoError(t, json.Unmarshal(lines.Bytes(), &c))
		out[c.SessionID] = append(out[c.SessionID], c)
	}
	require.NoError(t, lines.Err())
	for _, calls := range out {
		slices.SortStableFunc(calls, func(a, b recordedCall) int { return a.Seq - b.Seq })
	}
	return out
}

// training is the split by task: a task never sits on both sides.
func training(task string) bool {
	sum := sha256.Sum256([]byte("dev:" + task))
	n, _ := strconv.ParseUint(hex.EncodeToString(sum[:4]), 16, 64)
	return n%100 < 70
}

// pave runs one command line on a data directory and returns its standard output.
func pave(t *testing.T, data string, args ...string) []byte {
	t.Helper()
	var out, errText bytes.Buffer
	status := execute(append(args, "--data-dir", data), strings.NewReader(""), &out, &errText)
	require.Zero(t, status, "pave %s\n%s%s", strings.Join(args, " "), out.String(), errText.String())
	return out.Bytes()
}

// TestRecordedSessionsBecomeFlows goes the whole way on recorded sessions of real agents: import, mine, the queue,
// review, promotion, and runs of promoted flows whose tools answer from the recording.
func TestRecordedSessionsBecomeFlows(t *testing.T) {
	retail, airline := recordedFile(t, "tau-retail.jsonl"), recordedFile(t, "tau-airline.jsonl")
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	sessions := map[string][]recordedCall{}
	for _, f := range []string{retail, airline} {
		for id, calls := range readRecorded(t, f) {
			sessions[id] = calls
		}
	}
	train := filepath.Join(dir, "train.jsonl")
	writeTraining(t, train, retail, airline)
	desk := serveRecording(t)
	tools := filepath.Join(dir, "tools.yaml")
	require.NoError(t, os.WriteFile(tools, toolFileFor(sessions, desk.url), 0o600))
	egress := "--egress-allow=" + strings.TrimPrefix(desk.url, "http://")

	pave(t, data, "import", train)
	pave(t, data, "tools", "apply", tools)
	pave(t, data, "mine")

	var queue gen.ProposalPage
	require.NoError(t, json.Unmarshal(pave(t, data, "proposals", "list", "-o", "json"), &queue))
	var top []string
	for _, p := range queue.Items[:min(10, len(queue.Items))] {
		top = append(top, strings.Join(p.Tools, " > "))
	}
	require.Contains(t, top, "find_user_id_by_name_zip > get_user_details")
	require.Contains(t, top, "find_user_id_by_email > get_user_details")

	promoted := 0
	for _, p := range queue.Items {
		path := strings.Join(p.Tools, " > ")
		if path != "find_user_id_by_name_zip > get_user_details" && path != "find_user_id_by_email > get_user_details" {
			continue
		}
		for i := range p.Needs {
			pave(t, data, "proposals", "approve", p.ID, "--as", fmt.Sprintf("person:reviewer%d", i))
		}
		pave(t, data, "promote", p.ID, "--as", "person:reviewer0")
		promoted++
		checkAgainstRecording(t, data, egress, p, desk, sessions)
	}
	require.Equal(t, 2, promoted)
}

// writeTraining copies the lines of the training tasks.
func writeTraining(t *testing.T, to string, from ...string) {
	out, err := os.Create(to)
	require.NoError(t, err)
	for _, path := range from {
		f, err := os.Open(path)
		require.NoError(t, err)
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 16<<20)
		for lines.Scan() {
			var c recordedCall
			require.NoError(t, json.Unmarshal(lines.Bytes(), &c))
			if training(c.TaskID) {
				_, err := fmt.Fprintf(out, "%s\n", lines.Bytes())
				require.NoError(t, err)
			}
		}
		require.NoError(t, lines.Err())
		require.NoError(t, f.Close())
	}
	require.NoError(t, out.Close())
}

func callKey(tool string, args json.RawMessage) string {
	v, err := value.Decode(args)
	if err != nil {
		return tool + " " + string(args)
	}
	return tool + " " + string(value.Canonical(v))
}

// recording answers POST /<tool> with what the session that is being replayed recorded for these arguments.
type recording struct {
	url     string
	mu      sync.Mutex
	results map[string]json.RawMessage // of the session, by callKey
}

func serveRecording(t *testing.T) *recording {
	rec := &recording{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body bytes.Buffer
		body.ReadFrom(r.Body)
		rec.mu.Lock()
		res := rec.results[callKey(strings.TrimPrefix(r.URL.Path, "/"), body.Bytes())]
		rec.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		if res == nil {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"error":"not in the recording"}`)
			return
		}
		w.Write(res)
	}))
	t.Cleanup(srv.Close)
	rec.url = srv.URL
	return rec
}

// replay makes the recording answer from these calls.
func (rec *recording) replay(calls []recordedCall) {
	results := map[string]json.RawMessage{}
	for _, c := range calls {
		if k := callKey(c.Tool, c.Args); c.Error == nil && results[k] == nil {
			results[k] = c.Result // the first: later calls see what the session changed
		}
	}
	rec.mu.Lock()
	rec.results = results
	rec.mu.Unlock()
}

// toolFileFor declares every recorded tool with an HTTP binding and schemas as loose as a recording can tell: the
// names of the arguments that were seen.
func toolFileFor(sessions map[string][]recordedCall, base string) []byte {
	seen := map[string]map[string]any{}
	for _, calls := range sessions {
		for _, c := range calls {
			if seen[c.Tool] == nil {
				seen[c.Tool] = map[string]any{}
			}
			var args map[string]any
			if json.Unmarshal(c.Args, &args) == nil {
				for k := range args {
					seen[c.Tool][k] = struct{}{} // any type
				}
			}
		}
	}
	var b bytes.Buffer
	for name, properties := range seen {
		props, _ := json.Marshal(properties)
		effect := "read"
		if !strings.HasPrefix(name, "get_") && !strings.HasPrefix(name, "find_") && !strings.HasPrefix(name, "search_") && !strings.HasPrefix(name, "list_") {
			effect = "write"
		}
		fmt.Fprintf(&b, "---\nkind: Tool\nname: %s\ninput_schema: {type: object, properties: %s}\noutput_schema: {type: object, additionalProperties: true}\nsafety: {side_effects: %s, source: declared}\nbinding: {kind: http, method: POST, url: %q, body: json}\n", name, props, effect, base+"/"+name)
	}
	return b.Bytes()
}

// checkAgainstRecording runs the flow for windows of sessions that were not mined and compares with what was
// recorded there.
func checkAgainstRecording(t *testing.T, data, egress string, p gen.ProposalSummary, desk *recording, sessions map[string][]recordedCall) {
	ids := make([]string, 0, len(sessions))
	for id := range sessions {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	windows := 0
	for _, id := range ids {
		calls := sessions[id]
		for i := 0; i+1 < len(calls) && windows < 25; i++ {
			a, b := calls[i], calls[i+1]
			if training(a.TaskID) || a.Tool != p.Tools[0] || b.Tool != p.Tools[1] || a.Error != nil || b.Error != nil || b.Context != "" || b.Turn-a.Turn > 1 {
				continue
			}
			windows++
			desk.replay(calls[i:])
			var run gen.Run
			require.NoError(t, json.Unmarshal(pave(t, data, "run", p.FlowName, "--input", string(a.Args), "-o", "json", egress), &run))
			require.Equal(t, gen.RunStatusSucceeded, run.Status)
			var rec struct {
				Log []struct {
					Outputs json.RawMessage `json:"outputs"`
				} `json:"execution_log"`
			}
			require.NoError(t, json.Unmarshal(run.Record, &rec))
			require.Len(t, rec.Log, 2)
			for k, c := range []recordedCall{a, b} {
				require.JSONEq(t, string(asObject(c.Result)), string(rec.Log[k].Outputs), "session %s call %d", id, c.Seq)
			}
		}
	}
	require.GreaterOrEqual(t, windows, 5, "windows of %s in sessions that were not mined", p.FlowName)
	t.Logf("%s: %d runs equal the recording", p.FlowName, windows)
}

// asObject is how a flow sees a result that is not an object.
func asObject(raw json.RawMessage) json.RawMessage {
	if bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) {
		return raw
	}
	return fmt.Appendf(nil, `{"result":%s}`, raw)
}

// TestAnalyzeNamesWhatBlocks: the model chooses an order or a reservation among several, and analyze says so.
func TestAnalyzeNamesWhatBlocks(t *testing.T) {
	for file, want := range map[string][]string{
		"tau-retail.jsonl":  {"get_user_details", "get_order_details", "order_id"},
		"tau-airline.jsonl": {"get_user_details", "get_reservation_details", "reservation_id"},
	} {
		path := recordedFile(t, file)
		var out, errText bytes.Buffer
		require.Zero(t, execute([]string{"analyze", path}, strings.NewReader(""), &out, &errText), errText.String())
		found := slices.ContainsFunc(strings.Split(out.String(), "\n"), func(line string) bool {
			for _, w := range want {
				if !strings.Contains(line, w) {
					return false
				}
			}
			return true
		})
		require.True(t, found, "no line names %v in\n%s", want, out.String())
	}
}
