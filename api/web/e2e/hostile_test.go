//go:build e2e

package e2e

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// hostile are texts that become script, markup or addresses where a page is careless.
var hostile = []string{
	`<script>window.pwned=1</script>`,
	`<img src=x onerror="window.pwned=1">`,
	`"><svg onload=window.pwned=1>`,
	`javascript:window.pwned=1`,
	`</textarea><iframe srcdoc="<script>parent.pwned=1</script>">`,
	`{{constructor.constructor('window.pwned=1')()}}`,
	`<a href="javascript:window.pwned=1">x</a>`,
	`<style>*{display:none}</style>`,
	"\u202e\u0000<b onmouseover=window.pwned=1>\u2028",
	`__proto__`,
	`<math><mtext></form><form><mglyph><style></math><img src onerror=window.pwned=1>`,
}

// Observed text is text on every page: in session ids, agent and tool names, arguments, results, errors, messages,
// models, remarks, reasons and flow descriptions.
func TestHostileTextStaysText(t *testing.T) {
	s := serve(t, true)
	var records []map[string]any
	for i, bad := range hostile {
		session := fmt.Sprintf("h%d %s", i, strings.ReplaceAll(bad, "\x00", "")) // no id holds one
		records = append(records,
			map[string]any{"event": "user_message", "session_id": session, "agent": bad, "text": bad, "start": "2026-11-30T10:00:00Z"},
			map[string]any{"event": "llm_call", "session_id": session, "agent": bad, "model": bad, "input_tokens": 1, "start": "2026-11-30T10:00:01Z"},
			map[string]any{"session_id": session, "agent": bad, "tool": "bad " + bad, "call_id": "c1", "args": map[string]any{bad: bad, "list": []any{bad, map[string]any{bad: bad}}}, "result": map[string]any{"value": bad}, "start": "2026-11-30T10:00:02Z"},
			map[string]any{"session_id": session, "agent": bad, "tool": "worse " + bad, "call_id": "c2", "args": map[string]any{"from": bad}, "status": "error", "error": bad, "start": "2026-11-30T10:00:03Z"},
		)
	}
	s.call("POST", "/api/v1/tool-calls?assemble=true", "", records, nil)
	id := s.submit("person:carol", "hostile_flow")
	for _, bad := range hostile {
		s.call("POST", "/api/v1/proposals/"+id+"/comments", "person:dora", map[string]any{"body": bad}, nil)
	}
	var draft struct{ Flow map[string]any }
	s.call("GET", "/api/v1/proposals/"+id, "", nil, &draft)
	draft.Flow["description"] = hostile[1]
	s.call("PATCH", "/api/v1/proposals/"+id, "person:carol", map[string]any{"flow": draft.Flow}, nil, "If-Match", fmt.Sprintf(`"%d"`, s.proposal(id).Revision))
	s.call("POST", "/api/v1/proposals/"+id+"/reviews", "person:dora", map[string]any{"verdict": "request_changes", "digest": s.proposal(id).Digest, "comment": hostile[2]}, nil,
		"If-Match", fmt.Sprintf(`"%d"`, s.proposal(id).Revision))

	p := s.open(s.admin)
	var sessions struct{ Items []struct{ ID string } }
	s.call("GET", "/api/v1/sessions?limit=500", "", nil, &sessions)
	clean := func(where string) {
		t.Helper()
		p.settled()
		wait[any](p, `new Promise((done) => setTimeout(done, 20))`)
		require.True(t, eval[bool](p, `window.pwned === undefined && ({}).pwned === undefined`), where)
		require.Equal(t, []string{}, eval[[]string](p, `[...document.querySelectorAll('main script, main iframe, main img, main style, main [onerror], main [onload], main [onmouseover], main a[href^="javascript"]')].map((e) => e.outerHTML)`), where)
	}
	seen := 0
	for _, session := range sessions.Items {
		if len(session.ID) < 2 || session.ID[0] != 'h' {
			continue
		}
		seen++
		p.visit("/sessions/" + url.PathEscape(session.ID))
		p.until(`Boolean(document.querySelector('.walk'))`)
		eval[any](p, `document.querySelectorAll('.call header button').forEach((b) => b.click())`)
		clean(session.ID)
		require.Equal(t, 0, eval[int](p, `document.querySelectorAll('.loading').length`))
	}
	require.Equal(t, len(hostile), seen)
	for _, path := range []string{"/", "/sessions", "/patterns", "/proposals", "/proposals/" + id, "/proposals/" + id + "?tab=yaml", "/proposals/" + id + "?tab=edit", "/tools", "/audit"} {
		p.visit(path)
		clean(path)
	}
	p.visit("/proposals/" + id)
	p.sees(hostile[0], hostile[1], hostile[2])
	p.visit("/sessions?agent=" + url.QueryEscape(hostile[1]))
	p.sees(hostile[1])
}
