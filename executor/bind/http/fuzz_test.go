package httpbind

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pave/executor"
	"pave/flows"
)

// FuzzBinding: what a tool file holds either compiles or is refused with a ToolError; a compiled binding only ever
// asks for its own host, over HTTP.
func FuzzBinding(f *testing.F) {
	f.Add("http://h:1/a/{x}?q={y}", "Bearer {{secret:T}}", "ok == False")
	f.Add("https://h", "{{", "x")
	f.Add("http://{x}/", "a", "f(")
	f.Add("http://h/{}?&&=={x}#", "{{secret:}}", "")
	f.Add("http://h@evil/%2e%2e/{x}", "\r\n", "1 < 'a'")
	f.Fuzz(func(t *testing.T, target, header, when string) {
		tool := tool(flows.Binding{Method: "POST", URL: target, Headers: map[string]string{"X-A": header}, Errors: []flows.ErrorRule{{When: when}}})
		b, err := compile(tool)
		if err != nil {
			var te *executor.ToolError
			require.ErrorAs(t, err, &te)
			return
		}
		origin, err := url.Parse(b.origin)
		require.NoError(t, err)
		filled, err := b.target(map[string]any{"x": "a/../b", "y": "&z=1"})
		if err != nil {
			return
		}
		got, err := url.Parse(filled)
		if err != nil {
			return // refused again when the request is built
		}
		assert.Equal(t, origin.Host, got.Host)
		assert.True(t, strings.HasPrefix(b.origin, "http"))
	})
}

// FuzzAnswer: any body is a value or a ToolError.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{`{"ok":false,"m":1}`, `<html>`, ``, `[1,`, `{"data":null}`, "\xff\xfe", `"x"`, `1e999`} {
		f.Add(200, []byte(seed))
		f.Add(500, []byte(seed))
	}
	tool := tool(flows.Binding{Method: "GET", URL: "http://h/", Result: "/data", Errors: []flows.ErrorRule{{When: "ok == False", Message: "/m"}}})
	b, err := compile(tool)
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		_, err := b.answer(tool, &http.Response{StatusCode: status}, body, 1000, nil)
		var te *executor.ToolError
		if err != nil && !errors.As(err, &te) {
			t.Fatalf("%T: %v", err, err)
		}
		if te != nil {
			assert.True(t, executor.ValidClass(te.Class))
			assert.NotEmpty(t, te.Code)
			assert.Less(t, len(te.Message), 2000)
		}
	})
}
