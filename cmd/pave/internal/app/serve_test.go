package app

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A stop turns readiness off first, lets requests in flight end, and is clean.
func TestServeDrains(t *testing.T) {
	a := open(t, func(o *Options) { o.NoAuth = true })
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ready, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- a.Serve(ctx, ServeOptions{Listen: "127.0.0.1:0", OTLPListen: "127.0.0.1:0", Ready: func(addr string) { ready <- addr }})
	}()
	address := <-ready
	client := &http.Client{}
	defer client.CloseIdleConnections()
	status := func(path string) int {
		resp, err := client.Get(address + path)
		if err != nil {
			return 0
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	require.Equal(t, http.StatusOK, status("/readyz"))

	body, feed := io.Pipe()
	answer := make(chan *http.Response, 1)
	go func() {
		resp, err := client.Post(address+"/api/v1/tool-calls", "application/x-ndjson", body)
		if err != nil {
			close(answer)
			return
		}
		answer <- resp
	}()
	_, err := io.WriteString(feed, `{"tool":"a","session_id":"s"}`+"\n")
	require.NoError(t, err)

	stop()
	require.Eventually(t, func() bool { return status("/readyz") == http.StatusServiceUnavailable }, drainNotice, time.Millisecond)
	_, err = io.WriteString(feed, `{"tool":"b","session_id":"s"}`+"\n")
	require.NoError(t, err)
	require.NoError(t, feed.Close())
	resp, ok := <-answer
	require.True(t, ok, "the request in flight was cut")
	raw, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Contains(t, string(raw), `"accepted":2`)
	require.NoError(t, <-ended)
}

// Requests that never end hold the stop up once, not once for each listener.
func TestStopCutsRequestsThatStall(t *testing.T) {
	a := open(t, func(o *Options) { o.NoAuth = true })
	otlp, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	otlpAddress := otlp.Addr().String()
	require.NoError(t, otlp.Close()) // free for the server
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	const patience = 200 * time.Millisecond
	ready, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- a.Serve(ctx, ServeOptions{Listen: "127.0.0.1:0", OTLPListen: otlpAddress, Drain: patience, Ready: func(addr string) { ready <- addr }})
	}()
	for _, address := range []string{strings.TrimPrefix(<-ready, "http://"), otlpAddress} {
		conn, err := net.Dial("tcp", address)
		require.NoError(t, err)
		defer func() { _ = conn.Close() }()
		_, err = io.WriteString(conn, "POST /v1/traces HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-protobuf\r\nContent-Length: 100\r\n\r\nx")
		require.NoError(t, err)
	}
	time.Sleep(50 * time.Millisecond) // both are being read
	start := time.Now()
	stop()
	require.NoError(t, <-ended)
	require.GreaterOrEqual(t, time.Since(start), patience)
	require.Less(t, time.Since(start), drainNotice+patience+lastCall+500*time.Millisecond)
}

// Without keys only loopback is served.
func TestNoAuthNeedsLoopback(t *testing.T) {
	a := open(t, func(o *Options) { o.NoAuth = true })
	err := a.Serve(t.Context(), ServeOptions{Listen: "0.0.0.0:0"})
	require.ErrorContains(t, err, "loopback")
}

// A taken OTLP port is no reason not to serve.
func TestTakenOTLPPortIsSkipped(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = taken.Close() }()
	a := open(t, nil)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- a.Serve(ctx, ServeOptions{Listen: "127.0.0.1:0", OTLPListen: taken.Addr().String(), Ready: func(string) { stop() }})
	}()
	require.NoError(t, <-ended)
}

func TestSecretsComeFromTheEnvironmentOrAFile(t *testing.T) {
	dir := t.TempDir()
	lookup := secrets(dir)
	t.Setenv("SHOP_TOKEN", "from-env")
	v, err := lookup(t.Context(), "SHOP_TOKEN")
	require.NoError(t, err)
	require.Equal(t, "from-env", v)
	for _, name := range []string{"../state.db", "/etc/passwd", "", "a/b", strings.Repeat("n", 200)} {
		_, err := lookup(t.Context(), name)
		require.Error(t, err, name)
	}
	_, err = lookup(t.Context(), "ABSENT")
	require.ErrorContains(t, err, "secrets/ABSENT")
}
