package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/cmd/pave/internal/app"
)

// sendOTLP posts a request until ctx ends, as an agent that goes on does.
func sendOTLP(ctx context.Context, t *testing.T, url, key, body string) {
	for ctx.Err() == nil {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/traces", strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+key)
		if resp, err := http.DefaultClient.Do(req); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// connectSpan is a tool's span that began now, with more attributes.
func connectSpan(trace, attributes string) string {
	at := time.Now().UnixNano()
	return strings.NewReplacer("TRACE", trace, "ATTRS", attributes, "AT", strconv.FormatInt(at, 10)).Replace(
		`{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"TRACE","spanId":"00000000000000aa","name":"execute_tool find","startTimeUnixNano":"AT","endTimeUnixNano":"AT",` +
			`"attributes":[{"key":"gen_ai.operation.name","value":{"stringValue":"execute_tool"}},{"key":"gen_ai.tool.name","value":{"stringValue":"find"}}ATTRS]}]}]}]}`)
}

func TestConnectSaysWhatIsMissing(t *testing.T) {
	whole := `,{"key":"session.id","value":{"stringValue":"s"}},{"key":"gen_ai.tool.call.arguments","value":{"stringValue":"{\"q\":1}"}},{"key":"gen_ai.tool.call.result","value":{"stringValue":"ok"}}`
	for name, c := range map[string]struct {
		body      string
		want, not []string
	}{
		"bare":  {connectSpan("000000000000000000000000000000aa", ""), []string{"1 tool calls", "missing: arguments of calls", "missing: results of calls", "missing: a session id in 1 of 1"}, nil},
		"whole": {connectSpan("000000000000000000000000000000bb", whole), []string{"1 tool calls", "missing: model calls"}, []string{"arguments", "session id"}},
		"noise": {strings.ReplaceAll(connectSpan("000000000000000000000000000000cc", ""), "gen_ai.", "other."), []string{"missing: tool calls", "tell of no agent", "execute_tool"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			a, err := app.Open(t.Context(), app.Options{DataDir: dir, Version: "test"})
			require.NoError(t, err)
			defer func() { require.NoError(t, a.Close()) }()
			ctx, stop := context.WithCancel(t.Context())
			ready, served := make(chan string, 1), make(chan error, 1)
			go func() {
				served <- a.Serve(ctx, app.ServeOptions{Listen: "127.0.0.1:0", Ready: func(address string) { ready <- address }, Drain: time.Second})
			}()
			address := <-ready
			key, err := app.AdminKey(dir)
			require.NoError(t, err)
			sent := make(chan struct{})
			go func() { sendOTLP(ctx, t, address, key, c.body); close(sent) }()
			var out, errOut bytes.Buffer
			status := execute([]string{"--data-dir", dir, "connect", "opentelemetry", "--wait", "30s"}, nil, &out, &errOut)
			stop()
			<-sent
			require.NoError(t, <-served)
			require.Zero(t, status, "%s", errOut.String())
			require.Contains(t, out.String(), "export OTEL_EXPORTER_OTLP_ENDPOINT="+address+"\n")
			for _, want := range c.want {
				require.Contains(t, out.String(), want)
			}
			for _, absent := range c.not {
				require.NotContains(t, out.String(), "missing: "+absent)
			}
		})
	}
}

func TestConnectPrintsEveryClient(t *testing.T) {
	var list bytes.Buffer
	require.Zero(t, execute([]string{"connect"}, nil, &list, io.Discard))
	for _, c := range telemetryClients {
		require.Contains(t, list.String(), c.name)
		var out bytes.Buffer
		require.Zero(t, execute([]string{"--data-dir", t.TempDir(), "connect", c.name, "--wait", "0s"}, nil, &out, io.Discard))
		require.Contains(t, out.String(), "127.0.0.1", c.name)
		require.NotContains(t, out.String(), "{{", c.name)
	}
	var errOut bytes.Buffer
	require.Equal(t, 2, execute([]string{"connect", "nobody"}, nil, io.Discard, &errOut))
	require.Contains(t, errOut.String(), "opentelemetry fits any")
	require.Equal(t, 7, execute([]string{"--data-dir", t.TempDir(), "connect", "codex"}, nil, io.Discard, &errOut))
	require.Contains(t, errOut.String(), "pave serve")
}
