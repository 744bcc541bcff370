package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Memory that serve may take while far more is sent than it can store: what may be in flight (256 MiB), the recorder's queue
// (64 MiB), and the program with its garbage.
const overloadMiB = 1024

// TestOverloadIsRefusedWithinBoundedMemory has 80 senders, ten times those of the bench, send large requests without a pause. Each
// is stored or refused with a time to come again, memory stays within its bound, and afterwards all goes on.
func TestOverloadIsRefusedWithinBoundedMemory(t *testing.T) {
	const senders, calls, payload = 80, 400, 4 << 10 // 1.6 MiB a request
	dir := t.TempDir()
	program := filepath.Join(dir, "pave")
	build := exec.Command("go", "build", "-o", program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	s := &killable{t: t, program: program, data: filepath.Join(dir, "data")}
	s.start()
	key := readAdminKey(t, s.data)
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
	defer stop()
	var stored, refused, other atomic.Int64
	text := strings.Repeat("word and number ", payload/16)
	var wg sync.WaitGroup
	for w := range senders {
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				var b bytes.Buffer
				for i := range calls {
					fmt.Fprintf(&b, `{"tool":"t","session_id":"s-%d-%d","call_id":"c%d","args":{"n":%d,"text":"%s"}}`+"\n", w, n, i, i, text)
				}
				status, after := overloadPost(ctx, s.addr.Load().(string), key, b.Bytes())
				switch {
				case status == http.StatusOK:
					stored.Add(1)
				case (status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests) && after != "":
					refused.Add(1)
				case ctx.Err() == nil:
					other.Add(1)
				}
			}
		})
	}
	wg.Wait()
	peak := peakMiB(t, s.cmd.Process.Pid)
	t.Logf("%d requests stored, %d refused, peak of %d MiB", stored.Load(), refused.Load(), peak)
	require.Positive(t, stored.Load())
	require.Zero(t, other.Load(), "every answer is one that a sender can act on")
	require.Less(t, peak, overloadMiB)
	require.Eventually(t, func() bool {
		status, _ := overloadPost(t.Context(), s.addr.Load().(string), key, []byte(`{"tool":"t","session_id":"after","call_id":"c"}`))
		return status == http.StatusOK
	}, 30*time.Second, 100*time.Millisecond, "when the load is gone, all goes on")
	s.kill()
}

// overloadPost sends a request; status 0 is none.
func overloadPost(ctx context.Context, address, key string, body []byte) (status int, retryAfter string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address+"/api/v1/tool-calls", bytes.NewReader(body))
	if err != nil {
		return 0, ""
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/x-ndjson")
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
