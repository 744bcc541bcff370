package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
)

// TestOverloadIsRefusedWithinBoundedMemory has 80 senders, ten times those of the bench, send large requests without a pause, over
// the JSON API and as OTLP. Each is stored or refused with a time to come again, memory stays within what the limits say, and
// afterwards all goes on.
func TestOverloadIsRefusedWithinBoundedMemory(t *testing.T) {
	dir := t.TempDir()
	program := buildPave(t)
	for _, c := range []struct {
		name, limits string
		mostMiB      int
	}{
		// What is in flight and queued, what is decoded at once, and the program with its garbage.
		{"default limits", "", 1024},
		{"small limits", "limits: {body: 4MiB, inflated: 4MiB, record: 1MiB, in_flight: 16MiB, queue_size: 8MiB}", 400},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &killable{t: t, program: program, data: filepath.Join(dir, c.name)}
			require.NoError(t, os.Mkdir(s.data, 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(s.data, "ingest.yaml"), []byte(c.limits), 0o600))
			s.start()
			defer s.kill()
			overload(t, s, c.mostMiB)
		})
	}
}

func overload(t *testing.T, s *killable, mostMiB int) {
	const senders, calls, payload = 80, 400, 4 << 10 // 1.6 MiB a request
	key := readAdminKey(t, s.data)
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute) // a slow machine takes its time, and no less of the load
	defer stop()
	var stored [2]atomic.Int64
	var refused, cut, other atomic.Int64
	enough := func() bool {
		return stored[0].Load() >= 5 && stored[1].Load() >= 5 && stored[0].Load()+stored[1].Load()+refused.Load() >= 6*senders
	}
	text := strings.Repeat("word and number ", payload/16)
	var wg sync.WaitGroup
	for w := range senders {
		wg.Go(func() {
			for n := 0; ctx.Err() == nil && !enough(); n++ {
				kind, path, body := "application/x-ndjson", "/api/v1/tool-calls", overloadRecords(w, n, calls, text)
				if w%2 == 1 {
					kind, path, body = "application/x-protobuf", "/v1/traces", overloadSpans(w, n, calls, text)
				}
				status, after := overloadPost(ctx, s.addr.Load().(string)+path, key, kind, body)
				switch {
				case status == http.StatusOK:
					stored[w%2].Add(1)
				case (status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests) && after != "":
					refused.Add(1)
				case status == 0: // refused before all was read, and the connection was closed under the rest
					cut.Add(1)
				default:
					other.Add(1)
				}
			}
		})
	}
	wg.Wait()
	peak := peakMiB(t, s.cmd.Process.Pid)
	t.Logf("%d and %d requests stored, %d refused, %d cut off, peak of %d MiB", stored[0].Load(), stored[1].Load(), refused.Load(), cut.Load(), peak)
	require.Positive(t, stored[0].Load())
	require.Positive(t, stored[1].Load())
	require.Zero(t, other.Load(), "every answer is one that a sender can act on")
	require.LessOrEqual(t, cut.Load(), refused.Load(), "and most that are refused get one")
	require.Less(t, peak, mostMiB)
	require.Eventually(t, func() bool {
		status, _ := overloadPost(t.Context(), s.addr.Load().(string)+"/api/v1/tool-calls", key, "application/x-ndjson", []byte(`{"tool":"t","session_id":"after","call_id":"c"}`))
		return status == http.StatusOK
	}, 30*time.Second, 100*time.Millisecond, "when the load is gone, all goes on")
}

// overloadRecords is request n of sender w.
func overloadRecords(w, n, calls int, text string) []byte {
	var b bytes.Buffer
	for i := range calls {
		fmt.Fprintf(&b, `{"tool":"t","session_id":"s-%d-%d","call_id":"c%d","args":{"n":%d,"text":"%s"}}`+"\n", w, n, i, i, text)
	}
	return b.Bytes()
}

// overloadSpans is the same as OTLP.
func overloadSpans(w, n, calls int, text string) []byte {
	td := ptrace.NewTraces()
	spans := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans()
	for i := range calls {
		span := spans.AppendEmpty()
		span.SetTraceID([16]byte{1, byte(w), byte(n), byte(n >> 8)})
		span.SetSpanID([8]byte{1, byte(i), byte(i >> 8)})
		span.Attributes().PutStr("gen_ai.operation.name", "execute_tool")
		span.Attributes().PutStr("gen_ai.tool.name", "t")
		span.Attributes().PutStr("gen_ai.tool.call.arguments", fmt.Sprintf(`{"n":%d,"text":"%s"}`, i, text))
	}
	body, err := ptraceotlp.NewExportRequestFromTraces(td).MarshalProto()
	if err != nil {
		panic(err)
	}
	return body
}

// overloadPost sends a request; status 0 is no answer.
func overloadPost(ctx context.Context, url, key, kind string, body []byte) (status int, retryAfter string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0, ""
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", kind)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, ""
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, resp.Header.Get("Retry-After")
}

// peakMiB is the largest resident set of a process so far.
func peakMiB(t *testing.T, pid int) int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Skipf("this system does not tell the memory of a process: %v", err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.Atoi(strings.Fields(rest)[0])
			require.NoError(t, err)
			return kib >> 10
		}
	}
	t.Fatal("no VmHWM")
	return 0
}
