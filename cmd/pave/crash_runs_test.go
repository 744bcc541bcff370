package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/api/gen"
)

// TestKilledServeGoesOnWithItsRuns kills serve while a step of a run is being called. The next serve goes on with the run
// by itself: steps that were done are not called again, the one at work is, under the same idempotency key.
func TestKilledServeGoesOnWithItsRuns(t *testing.T) {
	const steps = 3
	var calls [steps]atomic.Int64
	var keys [steps]atomic.Value
	hold := make(chan struct{})
	entered := make(chan struct{}, 1)
	tools := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var n int
		_, err := fmt.Sscanf(r.URL.Path, "/step%d", &n)
		if err != nil || n >= steps {
			http.NotFound(w, r)
			return
		}
		key := r.Header.Get("Idempotency-Key")
		if before, _ := keys[n].Swap(key).(string); before != "" && before != key {
			t.Errorf("step %d was called with the keys %s and %s", n, before, key)
		}
		if calls[n].Add(1) == 1 && n == 1 {
			entered <- struct{}{}
			<-hold
			return
		}
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body)
	}))
	defer tools.Close()
	defer close(hold)

	dir := t.TempDir()
	s := &killable{t: t, program: buildPave(t), data: filepath.Join(dir, "data"), flags: []string{"--egress-allow", strings.TrimPrefix(tools.URL, "http://")}}
	var toolFile, flow strings.Builder
	flow.WriteString("format_version: \"1.1\"\ntype: Flow\nname: slow\nversion: 1.0.0\ndescription: Slow.\non_context_collision: overwrite\n" +
		"input_schema: {type: object, properties: {n: {type: integer}}, required: [n]}\nsteps:\n")
	for i := range steps {
		fmt.Fprintf(&toolFile, "---\nkind: Tool\nname: step%d\ninput_schema: &n {type: object, properties: {n: {type: integer}}, required: [n]}\noutput_schema: *n\n"+
			"safety: {side_effects: read, idempotent: true, safe_to_retry: true}\nbinding: {kind: http, method: POST, url: %q, body: json}\n", i, fmt.Sprintf("%s/step%d", tools.URL, i))
		fmt.Fprintf(&flow, "  - {tool_name: step%d, input_mapping: {n: n}}\n", i)
	}
	pave := func(args ...string) []byte {
		cmd := exec.Command(s.program, append([]string{"--data-dir", s.data}, append(args, s.flags...)...)...)
		var problems strings.Builder
		cmd.Stderr = &problems
		out, err := cmd.Output()
		require.NoError(t, err, "%v: %s", args, problems.String())
		return out
	}
	toolPath, flowPath := filepath.Join(dir, "tools.yaml"), filepath.Join(dir, "flow.yaml")
	require.NoError(t, os.WriteFile(toolPath, []byte(toolFile.String()), 0o600))
	require.NoError(t, os.WriteFile(flowPath, []byte(flow.String()), 0o600))
	pave("tools", "apply", toolPath)
	pave("flows", "apply", flowPath)
	pave("--as", "person:bob", "proposals", "approve", "slow")
	pave("--as", "person:bob", "promote", "slow")

	s.start()
	var run gen.Run
	require.NoError(t, json.Unmarshal(pave("run", "slow", "--input", `{"n": 9007199254740993}`, "--wait", "0s", "-o", "json"), &run))
	require.Equal(t, gen.RunStatusRunning, run.Status)
	<-entered
	s.kill()
	s.start()
	require.Eventually(t, func() bool {
		require.NoError(t, json.Unmarshal(pave("runs", "show", run.ID, "-o", "json"), &run))
		return run.Status == gen.RunStatusSucceeded
	}, time.Minute, 50*time.Millisecond)
	require.Contains(t, string(run.Output), "9007199254740993")
	require.Equal(t, []int64{1, 2, 1}, []int64{calls[0].Load(), calls[1].Load(), calls[2].Load()})
	s.kill()
}
