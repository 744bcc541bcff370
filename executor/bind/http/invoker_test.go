package httpbind

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"pave/executor"
	"pave/executor/bind"
	"pave/flows"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// seen is what a test server received.
type seen struct {
	method, path, query, body string
	header                    http.Header
}

// server answers every request with handler and keeps the last request.
func server(t *testing.T, handler http.HandlerFunc) (*httptest.Server, *seen) {
	t.Helper()
	var mu sync.Mutex
	last := &seen{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		*last = seen{r.Method, r.URL.EscapedPath(), r.URL.RawQuery, string(body), r.Header.Clone()}
		mu.Unlock()
		handler(w, r)
	}))
	t.Cleanup(srv.Close)
	return srv, last
}

func answers(status int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// invoker may reach the given servers.
func invoker(t *testing.T, opts Options, servers ...*httptest.Server) *Invoker {
	t.Helper()
	for _, s := range servers {
		opts.EgressAllow = append(opts.EgressAllow, s.Listener.Addr().String())
	}
	c, err := New(opts)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func tool(b flows.Binding) *flows.Tool {
	b.Kind = "http"
	return &flows.Tool{Name: "t", Binding: &b}
}

var call = executor.CallInfo{RunID: "run-1", TraceID: "4fe0dd1de96840dc864b5cfe2c549e1a", StepIndex: 2, Attempt: 1}

func toolError(t *testing.T, err error, class, code string) *executor.ToolError {
	t.Helper()
	var te *executor.ToolError
	require.ErrorAs(t, err, &te)
	assert.Equal(t, class, te.Class, te.Message)
	assert.Equal(t, code, te.Code, te.Message)
	return te
}

func TestRequestParts(t *testing.T) {
	srv, last := server(t, answers(200, "application/json", `{"ok":true}`))
	c := invoker(t, Options{}, srv)
	cases := []struct {
		name    string
		binding flows.Binding
		input   map[string]any
		want    seen
	}{
		{"path, query and leftover query of GET", flows.Binding{Method: "GET", URL: srv.URL + "/orders/{id}?view=full&lang={lang}"},
			map[string]any{"id": "o/1 ü", "lang": "de&x", "page": int64(2), "tags": []any{"a", "b c"}, "absent": nil},
			seen{method: "GET", path: "/orders/o%2F1%20%C3%BC", query: "view=full&lang=de%26x&page=2&tags=a&tags=b+c"}},
		{"absent query placeholder", flows.Binding{Method: "GET", URL: srv.URL + "/orders?lang={lang}"}, map[string]any{},
			seen{method: "GET", path: "/orders"}},
		{"placeholder inside a query value", flows.Binding{Method: "GET", URL: srv.URL + "/s?q=id:{id}%20x"}, map[string]any{"id": int64(7)},
			seen{method: "GET", path: "/s", query: "q=id:7%20x"}},
		{"placeholder inside a segment", flows.Binding{Method: "GET", URL: srv.URL + "/v1/{id}.json"}, map[string]any{"id": "a?b#c"},
			seen{method: "GET", path: "/v1/a%3Fb%23c.json"}},
		{"JSON body has what the URL does not place", flows.Binding{Method: "POST", URL: srv.URL + "/orders/{id}"},
			map[string]any{"id": "o1", "n": int64(1), "note": nil, "deep": map[string]any{"x": []any{1.5}}},
			seen{method: "POST", path: "/orders/o1", body: `{"deep":{"x":[1.5]},"n":1,"note":null}`}},
		{"empty JSON body", flows.Binding{Method: "POST", URL: srv.URL + "/run"}, map[string]any{}, seen{method: "POST", path: "/run", body: `{}`}},
		{"form", flows.Binding{Method: "PUT", URL: srv.URL + "/f", Body: "form"}, map[string]any{"b": true, "a": "x y", "n": 1.5},
			seen{method: "PUT", path: "/f", body: "a=x+y&b=true&n=1.5"}},
		{"no body", flows.Binding{Method: "DELETE", URL: srv.URL + "/o/{id}", Body: "none"}, map[string]any{"id": int64(12345678901234567), "x": "y"},
			seen{method: "DELETE", path: "/o/12345678901234567"}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			out, err := c.Invoke(context.Background(), tool(tc.binding), tc.input, call)
			require.NoError(t, err)
			assert.Equal(t, map[string]any{"ok": true}, out)
			got := *last
			got.header = nil
			assert.Equal(t, tc.want, got)
		})
	}
}

func TestArgumentsCannotChangeThePath(t *testing.T) {
	reached := false
	srv, _ := server(t, func(w http.ResponseWriter, _ *http.Request) { reached = true; w.WriteHeader(204) })
	c := invoker(t, Options{}, srv)
	for _, bad := range []any{"..", ".", "../../admin", `..\admin`, "a/../b", "", nil, []any{"x"}, map[string]any{}} {
		_, err := c.Invoke(context.Background(), tool(flows.Binding{Method: "GET", URL: srv.URL + "/orders/{id}/items"}), map[string]any{"id": bad}, call)
		te := toolError(t, err, executor.ClassValidation, "invalid_argument")
		assert.NotEmpty(t, te.Message)
	}
	_, err := c.Invoke(context.Background(), tool(flows.Binding{Method: "GET", URL: srv.URL + "/o/{a}{b}"}), map[string]any{"a": ".", "b": "."}, call)
	toolError(t, err, executor.ClassValidation, "invalid_argument")
	assert.False(t, reached, "no request may leave for an argument that changes the path")
}

func TestSecretsStayInTheHeader(t *testing.T) {
	const secret = "s3cr3t-value"
	srv, last := server(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprintf(w, `{"message":"bad credentials %s"}`, r.Header.Get("Authorization"))
	})
	c := invoker(t, Options{Secret: func(_ context.Context, name string) (string, error) {
		if name == "SHOP_TOKEN" {
			return secret, nil
		}
		return "", errors.New("lookup failed for " + secret)
	}}, srv)
	get := func(headers map[string]string) error {
		_, err := c.Invoke(context.Background(), tool(flows.Binding{Method: "GET", URL: srv.URL, Headers: headers}), nil, call)
		return err
	}
	te := toolError(t, get(map[string]string{"authorization": "Bearer {{secret:SHOP_TOKEN}}"}), executor.ClassOther, "http_status")
	assert.False(t, te.NotSent)
	assert.Equal(t, "Bearer "+secret, last.header.Get("Authorization"))
	assert.Equal(t, "tool server of 't' answered 401 Unauthorized: bad credentials Bearer ***REDACTED***", te.Message)

	te = toolError(t, get(map[string]string{"X-Key": "{{secret:OTHER}}"}), executor.ClassOther, "unknown_secret")
	assert.Contains(t, te.Message, "OTHER")
	assert.True(t, te.NotSent)
	assert.NotContains(t, te.Message, secret)
}

// A server that sends a secret back gets it into no result and into no text, whole or in part.
func TestSecretsThatComeBack(t *testing.T) {
	const secret = `s3cr3t"/value-of-forty-characters-or-more`
	status := http.StatusOK
	var said func(secret string) any
	srv, _ := server(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(said(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")))
	})
	c := invoker(t, Options{Secret: func(context.Context, string) (string, error) { return secret, nil }}, srv)
	invoke := func() (any, error) {
		return c.Invoke(context.Background(), tool(flows.Binding{Method: "GET", URL: srv.URL, Headers: map[string]string{"Authorization": "Bearer {{secret:K}}"},
			Errors: []flows.ErrorRule{{When: "ok == False", Message: "/why"}}}), nil, call)
	}
	said = func(s string) any {
		return map[string]any{"ok": true, "echo": []any{"Bearer " + s, 7, map[string]any{s: s + s}}}
	}
	out, err := invoke()
	require.NoError(t, err)
	assert.Equal(t, map[string]any{"ok": true, "echo": []any{"Bearer ***REDACTED***", int64(7),
		map[string]any{"***REDACTED***": "***REDACTED******REDACTED***"}}}, out)

	said = func(s string) any {
		return map[string]any{"ok": false, "why": strings.Repeat("x", bind.MaxExcerpt-10) + s + "\n\u202e" + strings.Repeat("y", 1<<16)}
	}
	_, err = invoke()
	te := toolError(t, err, executor.ClassOther, "tool_error")
	assert.Equal(t, strings.Repeat("x", bind.MaxExcerpt-10)+"***REDACTE…", te.Message)

	status = http.StatusBadGateway
	said = func(s string) any { return map[string]any{"message": strings.Repeat("x", bind.MaxExcerpt-10) + s} }
	_, err = invoke()
	te = toolError(t, err, executor.ClassIO, "http_status")
	assert.NotContains(t, te.Message, secret[:4], "the cut must not leave the beginning of a secret")
}

func TestNameServersAreNotNamed(t *testing.T) {
	err := &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "shop.test", Server: "10.1.2.3:53", IsNotFound: true}}
	assert.EqualError(t, rootCause(err), "lookup shop.test: no such host")
}

func TestIdempotencyKeyAndTraceparent(t *testing.T) {
	srv, last := server(t, answers(200, "application/json", `{}`))
	c := invoker(t, Options{}, srv)
	send := func(method string, info executor.CallInfo) http.Header {
		_, err := c.Invoke(context.Background(), tool(flows.Binding{Method: method, URL: srv.URL}), nil, info)
		require.NoError(t, err)
		return last.header
	}
	first, retry := call, call
	retry.Attempt = 2
	assert.Equal(t, "run-1-2", send("POST", first).Get("Idempotency-Key"))
	assert.Equal(t, "run-1-2", send("POST", retry).Get("Idempotency-Key"), "stable over retries")
	assert.Empty(t, send("GET", first).Get("Idempotency-Key"))
	assert.Regexp(t, `^00-4fe0dd1de96840dc864b5cfe2c549e1a-[0-9a-f]{16}-01$`, send("GET", first).Get("Traceparent"))
	other := call
	other.TraceID = "not-a-trace"
	assert.Empty(t, send("GET", other).Get("Traceparent"))
}

// A kept connection that breaks off under a call: the HTTP client would send some requests again by itself, which only a
// tool that may be called twice allows.
func TestBrokenConnectionsDoNotRepeatCalls(t *testing.T) {
	for _, c := range []struct {
		method string
		safety flows.SafetyContract
		sent   int
	}{
		{"POST", flows.SafetyContract{SideEffects: flows.EffectWrite}, 1},
		{"DELETE", flows.SafetyContract{SideEffects: flows.EffectDestructive}, 1},
		{"GET", flows.SafetyContract{SideEffects: flows.EffectWrite}, 1},
		{"POST", flows.SafetyContract{SideEffects: flows.EffectRead, Idempotent: true}, 2},
		{"GET", flows.SafetyContract{SideEffects: flows.EffectRead, Idempotent: true}, 2},
	} {
		t.Run(c.method+" "+string(c.safety.SideEffects), func(t *testing.T) {
			var sent atomic.Int64
			srv, last := server(t, func(w http.ResponseWriter, r *http.Request) {
				if strings.HasSuffix(r.URL.Path, "breaks") {
					if sent.Add(1) == 1 {
						panic(http.ErrAbortHandler)
					}
				}
				answers(200, "application/json", "{}")(w, r)
			})
			c2 := invoker(t, Options{}, srv)
			one := tool(flows.Binding{Method: c.method, URL: srv.URL + "/{where}"})
			one.Safety = &c.safety
			_, err := c2.Invoke(t.Context(), one, map[string]any{"where": "good"}, call)
			require.NoError(t, err)
			if c.method != "GET" {
				assert.Equal(t, "run-1-2", last.header.Get("Idempotency-Key"))
			}
			_, err = c2.Invoke(t.Context(), one, map[string]any{"where": "breaks"}, call)
			assert.EqualValues(t, c.sent, sent.Load())
			if c.sent == 1 {
				toolError(t, err, executor.ClassIO, "connection_failed")
				return
			}
			require.NoError(t, err)
		})
	}
}

func TestAnswers(t *testing.T) {
	rules := []flows.ErrorRule{{When: "ok == False", Message: "/error/message", Class: "rate_limit"}, {When: `status == "gone"`}}
	cases := []struct {
		name        string
		status      int
		contentType string
		body        string
		binding     flows.Binding
		want        any
		class, code string
		message     string
	}{
		{name: "object", status: 200, body: ` {"a":1} `, want: map[string]any{"a": int64(1)}},
		{name: "raw list", status: 200, body: `[1,"x"]`, want: []any{int64(1), "x"}},
		{name: "exact big integer", status: 200, body: `123456789012345678901234567890`, want: json.Number("123456789012345678901234567890")},
		{name: "result pointer", status: 201, body: `{"data":{"a":[5]}}`, binding: flows.Binding{Result: "/data/a/0"}, want: int64(5)},
		{name: "no content", status: 204, want: nil},
		{name: "result missing", status: 200, body: `{"data":1}`, binding: flows.Binding{Result: "/data/x"}, class: "other", code: "invalid_answer", message: "nothing at /data/x"},
		{name: "empty", status: 200, class: "other", code: "invalid_answer", message: "empty body"},
		{name: "HTML", status: 200, contentType: "text/html", body: "<!doctype html><p>hi", class: "other", code: "invalid_answer", message: "HTML"},
		{name: "broken JSON", status: 200, body: `{"a":`, class: "other", code: "invalid_answer", message: "not valid JSON"},
		{name: "two documents", status: 200, body: `{} {}`, class: "other", code: "invalid_answer", message: "not valid JSON"},
		{name: "400", status: 400, body: `{"error":{"message":"no such order"}}`, class: "other", code: "http_status", message: "answered 400 Bad Request: no such order"},
		{name: "408", status: 408, class: "timeout", code: "http_status", message: "408"},
		{name: "429", status: 429, body: "slow\ndown", class: "rate_limit", code: "http_status", message: "429 Too Many Requests: slow down"},
		{name: "500 HTML", status: 500, body: "<html>oops</html>", class: "io", code: "http_status", message: "500 Internal Server Error: an HTML page"},
		{name: "503 long", status: 503, body: strings.Repeat("x", 5000), class: "io", code: "http_status", message: strings.Repeat("x", 200) + "…"},
		{name: "redirect", status: 302, body: `{}`, class: "other", code: "http_status", message: "redirects are not followed"},
		{name: "rule holds", status: 200, body: `{"ok":false,"error":{"message":"quota"}}`, binding: flows.Binding{Errors: rules}, class: "rate_limit", code: "tool_error", message: "quota"},
		{name: "second rule, no message", status: 200, body: `{"ok":true,"status":"gone"}`, binding: flows.Binding{Errors: rules}, class: "other", code: "tool_error", message: `reported an error (status == "gone")`},
		{name: "rule names an absent key", status: 200, body: `{"a":1}`, binding: flows.Binding{Errors: rules}, want: map[string]any{"a": int64(1)}},
		{name: "rules and a list", status: 200, body: `[]`, binding: flows.Binding{Errors: rules}, want: []any{}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			srv, _ := server(t, answers(tc.status, tc.contentType, tc.body))
			c := invoker(t, Options{}, srv)
			b := tc.binding
			b.Method, b.URL = "GET", srv.URL
			out, err := c.Invoke(context.Background(), tool(b), nil, call)
			if tc.class == "" {
				require.NoError(t, err)
				assert.Equal(t, tc.want, out)
				return
			}
			te := toolError(t, err, tc.class, tc.code)
			assert.Contains(t, te.Message, tc.message)
		})
	}
}

func TestAnswerCap(t *testing.T) {
	srv, _ := server(t, func(w http.ResponseWriter, _ *http.Request) {
		// Without a length and never ending: only a cut while streaming can end this call.
		w.WriteHeader(200)
		chunk := []byte(`"` + strings.Repeat("x", 4096))
		for {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	})
	c := invoker(t, Options{MaxAnswerBytes: 10_000}, srv)
	_, err := c.Invoke(context.Background(), tool(flows.Binding{Method: "GET", URL: srv.URL}), nil, call)
	te := toolError(t, err, executor.ClassOther, executor.CodeOutputTooLarge)
	assert.Contains(t, te.Message, "exceeds max 10000")

	exact, _ := server(t, answers(200, "", `"123456"`))
	c = invoker(t, Options{}, exact)
	limited := tool(flows.Binding{Method: "GET", URL: exact.URL})
	for limit, ok := range map[int]bool{8: true, 7: false} {
		limited := *limited
		limited.MaxOutputSize = &limit
		out, err := c.Invoke(context.Background(), &limited, nil, call)
		if ok {
			require.NoError(t, err)
			assert.Equal(t, "123456", out)
		} else {
			toolError(t, err, executor.ClassOther, executor.CodeOutputTooLarge)
		}
	}
}

func TestUnreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := l.Addr().String()
	require.NoError(t, l.Close())
	c := invoker(t, Options{EgressAllow: []string{addr}})
	_, err = c.Invoke(context.Background(), tool(flows.Binding{Method: "GET", URL: "http://" + addr + "/?token=abc"}), nil, call)
	te := toolError(t, err, executor.ClassIO, "connection_failed")
	assert.Contains(t, te.Message, "connection refused")
	assert.NotContains(t, te.Message, "abc")
}

func TestContextEndsTheCall(t *testing.T) {
	release := make(chan struct{})
	srv, _ := server(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	defer close(release)
	c := invoker(t, Options{}, srv)
	slow := tool(flows.Binding{Method: "GET", URL: srv.URL})
	expired, cancel := context.WithTimeout(context.Background(), 1)
	defer cancel()
	_, err := c.Invoke(expired, slow, nil, call)
	toolError(t, err, executor.ClassTimeout, "timeout")

	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = c.Invoke(cancelled, slow, nil, call)
	assert.ErrorIs(t, err, context.Canceled)
}

func TestEgress(t *testing.T) {
	srv, _ := server(t, answers(200, "", `{}`))
	port := srv.URL[strings.LastIndexByte(srv.URL, ':')+1:]
	cases := []struct {
		allow []string
		host  string
		ok    bool
	}{
		{nil, "127.0.0.1", false},
		{nil, "localhost", false},
		{nil, "0.0.0.0", false},
		{nil, "[::ffff:127.0.0.1]", false},
		{[]string{"127.0.0.1:1"}, "127.0.0.1", false},
		{[]string{"10.0.0.0/8:*"}, "127.0.0.1", false},
		{[]string{"other:" + port}, "localhost", false},
		{[]string{"127.0.0.1:" + port}, "127.0.0.1", true},
		{[]string{"127.0.0.0/8:" + port}, "127.0.0.1", true},
		{[]string{"127.0.0.0/8:*"}, "127.0.0.1", true},
		{[]string{"127.0.0.1:" + port}, "[::ffff:127.0.0.1]", true},
	}
	for _, tc := range cases {
		t.Run(fmt.Sprintf("%v %s", tc.allow, tc.host), func(t *testing.T) {
			c := invoker(t, Options{EgressAllow: tc.allow})
			_, err := c.Invoke(context.Background(), tool(flows.Binding{Method: "GET", URL: "http://" + tc.host + ":" + port}), nil, call)
			if tc.ok {
				require.NoError(t, err)
				return
			}
			te := toolError(t, err, executor.ClassOther, "egress_denied")
			assert.Contains(t, te.Message, "egress.allow")
			assert.True(t, te.NotSent)
		})
	}
	t.Run("host entry", func(t *testing.T) {
		addrs, err := net.LookupHost("localhost")
		if err != nil || len(addrs) == 0 {
			t.Skip("localhost does not resolve here")
		}
		c := invoker(t, Options{EgressAllow: []string{"LOCALHOST:" + port}})
		_, err = c.Invoke(context.Background(), tool(flows.Binding{Method: "GET", URL: "http://localhost:" + port}), nil, call)
		require.NoError(t, err)
	})
	for _, bad := range []string{"", "localhost", "localhost:", "localhost:0", "localhost:99999", "10.0.0.0/99:80", ":80", "a b:80", "*:80"} {
		_, err := New(Options{EgressAllow: []string{bad}})
		assert.Equal(t, flows.CodeInvalid, flows.CodeOf(err), "entry %q: %v", bad, err)
	}
}

func TestProxyOfTheEnvironmentIsIgnored(t *testing.T) {
	proxied := false
	proxy, _ := server(t, func(http.ResponseWriter, *http.Request) { proxied = true })
	t.Setenv("HTTP_PROXY", proxy.URL)
	t.Setenv("http_proxy", proxy.URL)
	c := invoker(t, Options{}, proxy)
	_, err := c.Invoke(context.Background(), tool(flows.Binding{Method: "GET", URL: "http://192.0.2.1:9/"}), nil, call)
	toolError(t, err, executor.ClassOther, "egress_denied")
	assert.False(t, proxied)
}

func TestInvalidBindings(t *testing.T) {
	for name, b := range map[string]flows.Binding{
		"no url":               {},
		"file scheme":          {URL: "file:///etc/passwd"},
		"no scheme":            {URL: "localhost/x"},
		"no host":              {URL: "http:///x"},
		"host placeholder":     {URL: "http://{host}/x"},
		"credentials":          {URL: "http://u:p@h/x"},
		"fragment":             {URL: "http://h/x#y"},
		"open brace":           {URL: "http://h/{id"},
		"close brace":          {URL: "http://h/id}"},
		"empty placeholder":    {URL: "http://h/{}"},
		"key placeholder":      {URL: "http://h/?{k}=1"},
		"bad escape":           {URL: "http://h/%zz"},
		"method":               {URL: "http://h/", Method: "GE T"},
		"connect":              {URL: "http://h/", Method: "CONNECT"},
		"body":                 {URL: "http://h/", Body: "xml"},
		"result":               {URL: "http://h/", Result: "data"},
		"unknown reference":    {URL: "http://h/", Headers: map[string]string{"A": "{{env:X}}"}},
		"line break in header": {URL: "http://h/", Headers: map[string]string{"A": "x\r\nB: y"}},
		"framing header":       {URL: "http://h/", Headers: map[string]string{"content-length": "3"}},
		"rule":                 {URL: "http://h/", Errors: []flows.ErrorRule{{When: "f(x)"}}},
		"rule class":           {URL: "http://h/", Errors: []flows.ErrorRule{{When: "x", Class: "fatal"}}},
		"rule message":         {URL: "http://h/", Errors: []flows.ErrorRule{{When: "x", Message: "m"}}},
	} {
		err := Check(tool(b))
		te := toolError(t, err, executor.ClassOther, "invalid_binding")
		assert.Contains(t, te.Message, "binding of tool 't'", name)
	}
	assert.NoError(t, Check(tool(flows.Binding{URL: "https://h:8443/a/{b}?c={d}", Headers: map[string]string{"A": "x {{ secret:Y_1 }} z"}})))
}

// FuzzTarget: whatever the arguments hold, a request goes to the binding's host and keeps the path's shape.
func FuzzTarget(f *testing.F) {
	for _, seed := range []string{"o1", "../x", "a/b", "%2e%2e", "..;", "\x00", "é?#&", `\..\`, "."} {
		f.Add(seed, seed)
	}
	b, err := compile(tool(flows.Binding{Method: "GET", URL: "http://h:1/a/{x}/c?q={y}"}))
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, x, y string) {
		target, err := b.target(map[string]any{"x": x, "y": y})
		if err != nil {
			return
		}
		req, err := http.NewRequest("GET", target, nil)
		require.NoError(t, err)
		assert.Equal(t, "h:1", req.URL.Host)
		parts := strings.Split(req.URL.EscapedPath(), "/")
		require.Len(t, parts, 4, "%q", target)
		assert.Equal(t, "a", parts[1])
		assert.Equal(t, "c", parts[3])
		assert.Equal(t, "/a/"+x+"/c", req.URL.Path)
		assert.Equal(t, y, req.URL.Query().Get("q"))
	})
}
