package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/api/gen"
)

// as asks the service with a key; a body of nil is none.
func (s *killable) as(key, method, path string, body io.Reader) (status int, answer []byte, err error) {
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.addr.Load().(string)+path, body)
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Content-Type", "application/json")
	if strings.HasSuffix(path, "/tool-calls") {
		r.Header.Set("Content-Type", "application/x-ndjson")
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
}

// twoSteps brings a flow into service whose second step, at the tool server, ends when it is let go or its caller has gone.
func (s *killable) twoSteps(dir, url string) {
	var tools, flow strings.Builder
	flow.WriteString("format_version: \"1.1\"\ntype: Flow\nname: two_steps\nversion: 1.0.0\ndescription: Two.\non_context_collision: overwrite\n" +
		"input_schema: {type: object, properties: {n: {type: integer}}, required: [n]}\nsteps:\n")
	for _, name := range []string{"quick", "slow"} {
		fmt.Fprintf(&tools, "---\nkind: Tool\nname: %s\ninput_schema: &n {type: object, properties: {n: {type: integer}}, required: [n]}\noutput_schema: *n\n"+
			"safety: {side_effects: read, idempotent: true, safe_to_retry: true}\nbinding: {kind: http, method: POST, url: %q, body: json}\n", name, url+"/"+name)
		fmt.Fprintf(&flow, "  - {tool_name: %s, input_mapping: {n: n}}\n", name)
	}
	toolPath, flowPath := filepath.Join(dir, "tools.yaml"), filepath.Join(dir, "flow.yaml")
	require.NoError(s.t, os.WriteFile(toolPath, []byte(tools.String()), 0o600))
	require.NoError(s.t, os.WriteFile(flowPath, []byte(flow.String()), 0o600))
	for _, args := range [][]string{{"tools", "apply", toolPath}, {"flows", "apply", flowPath}, {"--as", "person:bob", "proposals", "approve", "two_steps"},
		{"--as", "person:bob", "promote", "two_steps"}} {
		out, err := exec.Command(s.program, append([]string{"--data-dir", s.data}, append(args, s.flags...)...)...).CombinedOutput()
		require.NoError(s.t, err, "%v: %s", args, out)
	}
}

// openRequest is a request that records two calls and whose second one has not been sent yet.
type openRequest struct {
	feed io.WriteCloser
	done chan int // its status, 0 when it was cut
}

func (s *killable) openRequest(key, session string) openRequest {
	body, feed := io.Pipe()
	r := openRequest{feed: feed, done: make(chan int, 1)}
	go func() {
		status, _, err := s.as(key, "POST", "/api/v1/tool-calls", body)
		if err != nil {
			status = 0
		}
		_ = body.Close()
		r.done <- status
	}()
	_, err := fmt.Fprintf(feed, `{"tool":"a","session_id":%q,"call_id":"1"}`+"\n", session)
	require.NoError(s.t, err)
	return r
}

// O1: on SIGTERM readiness says no first, requests that record end or are refused, streams end, runs stop at a step with a
// checkpoint, and the process ends by itself with status 0 within ten seconds. The next one has all that was acknowledged
// and goes on with the runs. A second signal ends a process that still waits at once.
func TestScenarioO1GracefulStop(t *testing.T) {
	const ingests, flowRuns, streams = 100, 10, 5
	var quick, slow atomic.Int64
	release := make(chan struct{})
	tools := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // to the end, so that the server sees when the caller goes
		if strings.HasSuffix(r.URL.Path, "quick") {
			quick.Add(1)
		} else {
			slow.Add(1)
			select {
			case <-release:
			case <-r.Context().Done():
			}
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body)
	}))
	defer tools.Close()
	dir := t.TempDir()
	s := &killable{t: t, program: buildPave(t), data: filepath.Join(dir, "data"), flags: []string{"--egress-allow", strings.TrimPrefix(tools.URL, "http://")}}
	s.twoSteps(dir, tools.URL)
	s.start()
	key := readAdminKey(t, s.data)

	var ids []string
	for i := range flowRuns {
		status, answer, err := s.as(key, "POST", "/api/v1/flows/two_steps/runs?wait=0s", strings.NewReader(fmt.Sprintf(`{"input":{"n":%d}}`, i)))
		require.NoError(t, err)
		require.Equal(t, http.StatusAccepted, status, "%s", answer)
		var run gen.Run
		require.NoError(t, json.Unmarshal(answer, &run))
		ids = append(ids, run.ID)
	}
	require.Eventually(t, func() bool { return slow.Load() == flowRuns }, 30*time.Second, time.Millisecond)
	var following sync.WaitGroup
	opened := make(chan struct{}, streams)
	for i := range streams {
		following.Go(func() {
			r, err := http.NewRequestWithContext(t.Context(), "GET", s.addr.Load().(string)+"/api/v1/runs/"+ids[i]+"/events", nil)
			if err != nil {
				t.Error(err)
				return
			}
			r.Header.Set("Authorization", "Bearer "+key)
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Error(err)
				return
			}
			opened <- struct{}{}
			_, _ = io.Copy(io.Discard, bufio.NewReader(resp.Body))
			_ = resp.Body.Close()
		})
	}
	for range streams {
		<-opened
	}
	var open []openRequest
	for i := range ingests {
		open = append(open, s.openRequest(key, fmt.Sprint("s", i)))
	}

	began := time.Now()
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
	require.Eventually(t, func() bool {
		status, _, err := s.as(key, "GET", "/readyz", nil)
		return err == nil && status == http.StatusServiceUnavailable
	}, 5*time.Second, time.Millisecond, "readiness says no while requests are still answered")
	acknowledged := 0
	for i, r := range open {
		_, err := fmt.Fprintf(r.feed, `{"tool":"b","session_id":"s%d","call_id":"2"}`+"\n", i)
		require.NoError(t, err, "request %d was cut", i)
		require.NoError(t, r.feed.Close())
		status := <-r.done
		require.Contains(t, []int{http.StatusOK, http.StatusServiceUnavailable}, status, "request %d", i)
		if status == http.StatusOK {
			acknowledged++
		}
	}
	following.Wait()
	require.NoError(t, s.cmd.Wait(), "exit status 0")
	require.Less(t, time.Since(began), 10*time.Second)
	t.Logf("%d of %d requests acknowledged, stopped after %s", acknowledged, ingests, time.Since(began).Round(time.Millisecond))

	close(release)
	s.start()
	for i := range acknowledged { // they were sent and answered in this order
		session := s.session(key, fmt.Sprint("s", i))
		n := 0
		for _, run := range session.Runs {
			n += len(run.Calls)
		}
		require.Equal(t, 2, n, "session s%d", i)
	}
	for _, id := range ids {
		require.Eventually(t, func() bool {
			var run gen.Run
			_, answer, err := s.as(key, "GET", "/api/v1/runs/"+id, nil)
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(answer, &run))
			return run.Status == gen.RunStatusSucceeded
		}, 30*time.Second, 10*time.Millisecond, "run %s goes on", id)
	}
	require.EqualValues(t, flowRuns, quick.Load(), "no finished step was run again")

	stalled := s.openRequest(key, "stalled")
	time.Sleep(50 * time.Millisecond) // it is being read
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
	require.Eventually(t, func() bool {
		status, _, err := s.as(key, "GET", "/readyz", nil)
		return err != nil || status == http.StatusServiceUnavailable
	}, 5*time.Second, time.Millisecond)
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
	err := s.cmd.Wait()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit, "it did not wait for the request")
	_ = stalled.feed.Close() // the client lets go of a request only then
	require.Zero(t, <-stalled.done)
	http.DefaultClient.CloseIdleConnections()
}
