package main

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestDiskThatFillsUp has serve on a real, small file system. While it is low, and while it is full, nothing is recorded and the
// answer says so and when to come again; what is recorded can be read; when the space is back, recording goes on in the same
// process and nothing is lost or doubled.
func TestDiskThatFillsUp(t *testing.T) {
	if out, err := exec.Command("unshare", "-rm", "mount", "-t", "tmpfs", "none", "/mnt").CombinedOutput(); err != nil {
		t.Skipf("no file system of one's own can be mounted here: %v: %s", err, out)
	}
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	require.NoError(t, os.Mkdir(data, 0o700))
	// The mount is in the namespace of serve and goes with it.
	script := fmt.Sprintf("#!/bin/sh\nexec unshare -rm sh -c 'mount -t tmpfs -o size=64m none %q && exec %q \"$@\"' sh \"$@\"\n", data, buildPave(t))
	small := filepath.Join(dir, "small")
	require.NoError(t, os.WriteFile(small, []byte(script), 0o700))
	s := &killable{t: t, program: small, data: data}
	s.start()
	defer s.kill()
	disk := fmt.Sprintf("/proc/%d/root%s", s.cmd.Process.Pid, data)
	key := readAdminKey(t, disk)
	send := func(method, path, kind, body string) (status int, retryAfter, answer string) {
		req, err := http.NewRequestWithContext(t.Context(), method, s.addr.Load().(string)+path, strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+key)
		req.Header.Set("Content-Type", kind)
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, resp.Header.Get("Retry-After"), string(text)
	}
	record := func(id string) (int, string, string) {
		return send("POST", "/api/v1/tool-calls?assemble=true", "application/x-ndjson", `{"tool":"a","session_id":"s","call_id":"`+id+`"}`)
	}
	calls := func() (ids []string) {
		for _, run := range s.session(key, "s").Runs {
			for _, c := range run.Calls {
				ids = append(ids, c.CallID)
			}
		}
		return ids
	}
	recovers := func(id string) {
		t.Helper()
		require.Eventually(t, func() bool { status, _, _ := record(id); return status == http.StatusOK }, 20*time.Second, 50*time.Millisecond)
	}
	status, _, answer := record("1")
	require.Equal(t, http.StatusOK, status, answer)

	// Low, by what the file system says.
	fill(t, disk, 2<<20)
	require.Eventually(t, func() bool { status, _, answer = record("2"); return status != http.StatusOK }, 10*time.Second, 50*time.Millisecond)
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Regexp(t, `has [01] MiB free`, answer)
	taken := calls() // the looks at the disk are a second apart
	for _, path := range []string{"/api/v1/tool-calls", "/v1/traces"} {
		status, after, answer := send("POST", path, "application/json", "{}")
		require.Equal(t, []any{http.StatusServiceUnavailable, "10"}, []any{status, after}, path)
		require.Contains(t, answer, "MiB free", path)
	}
	_, _, answer = send("GET", "/readyz", "", "")
	require.Contains(t, answer, "MiB free")
	require.Equal(t, taken, calls(), "reads go on")
	require.NoError(t, os.Remove(filepath.Join(disk, "ballast")))
	recovers("2")
	require.ElementsMatch(t, []string{"1", "2"}, calls())

	// Full in the middle of a write: there is room by what was seen last, and not for this.
	fill(t, disk, 5<<20)
	var big bytes.Buffer
	for i := range 60 {
		payload := make([]byte, 150<<10)
		_, _ = rand.Read(payload)
		fmt.Fprintf(&big, `{"tool":"big","session_id":"big","call_id":"b%d","args":{"x":"%s"}}`+"\n", i, base64.StdEncoding.EncodeToString(payload))
	}
	status, after, answer := send("POST", "/api/v1/tool-calls", "application/x-ndjson", big.String())
	require.Equal(t, http.StatusServiceUnavailable, status, answer)
	require.NotEmpty(t, after, answer)
	require.ElementsMatch(t, []string{"1", "2"}, calls(), "reads go on")
	require.NoError(t, os.Remove(filepath.Join(disk, "ballast")))
	recovers("3")
	require.ElementsMatch(t, []string{"1", "2", "3"}, calls())
	status, _, answer = send("POST", "/api/v1/tool-calls", "application/x-ndjson", big.String())
	require.Equal(t, http.StatusOK, status, answer)
}

// fill leaves so many bytes of the disk free.
func fill(t *testing.T, disk string, free int64) {
	t.Helper()
	var s syscall.Statfs_t
	require.NoError(t, syscall.Statfs(disk, &s))
	f, err := os.Create(filepath.Join(disk, "ballast"))
	require.NoError(t, err)
	require.NoError(t, syscall.Fallocate(int(f.Fd()), 0, 0, int64(s.Bavail)*s.Bsize-free))
	require.NoError(t, f.Close())
}
