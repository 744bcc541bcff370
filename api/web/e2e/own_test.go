//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// shop are tools of a test's own over HTTP: one that answers differently each time, one that waits until it is let go,
// one that fails until it is mended.
type shop struct {
	web    *httptest.Server
	count  atomic.Int64
	held   chan struct{} // closed to let the waiting one go
	free   func()
	mended atomic.Bool
}

func openShop(t *testing.T) *shop {
	t.Helper()
	s := &shop{held: make(chan struct{})}
	s.free = sync.OnceFunc(func() { close(s.held) })
	answer := func(w http.ResponseWriter, v any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /stock", func(w http.ResponseWriter, r *http.Request) {
		answer(w, map[string]any{"sku": r.URL.Query().Get("sku"), "left": s.count.Add(1)})
	})
	mux.HandleFunc("GET /wait", func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-s.held:
			answer(w, map[string]any{"waited": true})
		case <-r.Context().Done():
		}
	})
	mux.HandleFunc("GET /flaky", func(w http.ResponseWriter, _ *http.Request) {
		if !s.mended.Load() {
			http.Error(w, "out of order", http.StatusBadRequest)
			return
		}
		answer(w, map[string]any{"mended": true})
	})
	s.web = httptest.NewServer(mux)
	t.Cleanup(s.web.Close)
	t.Cleanup(s.free) // before the server waits for its requests
	return s
}

// host is the address to allow.
func (s *shop) host() string { return strings.TrimPrefix(s.web.URL, "http://") }

// declare tells the service of the shop's tools.
func (s *service) declare(shop *shop) {
	s.t.Helper()
	for name, extra := range map[string]map[string]any{
		"stock": {}, "wait": {}, "flaky": {}, "pay": {"requires_approval": true, "approval_reason": "money leaves the house"},
	} {
		safety := map[string]any{"side_effects": "read", "idempotent": true, "safe_to_retry": true}
		for k, v := range extra {
			safety[k] = v
		}
		path := name
		if name == "pay" {
			path = "stock"
		}
		s.call("PUT", "/api/v1/tools/"+name, "", map[string]any{
			"kind": "Tool", "name": name, "description": "A tool of the test.",
			"input_schema":  map[string]any{"type": "object", "properties": map[string]any{"sku": map[string]any{"type": "string"}}, "required": []any{"sku"}},
			"output_schema": map[string]any{"type": "object"},
			"safety":        safety,
			"binding":       map[string]any{"kind": "http", "method": "GET", "url": shop.web.URL + "/" + path + "?sku={sku}"},
		}, nil)
	}
}

// flow promotes a flow that calls the tools one after the other, as version 1.0.0 or what follows.
func (s *service) flow(name string, tools ...string) {
	s.t.Helper()
	s.accept(s.draft(name, tools...))
}

// draft submits such a flow.
func (s *service) draft(name string, tools ...string) string {
	s.t.Helper()
	var steps []any
	for i, tool := range tools {
		steps = append(steps, map[string]any{"tool_name": tool, "input_mapping": map[string]any{"sku": "sku"}, "output_as": fmt.Sprintf("got%d", i+1)})
	}
	var p proposal
	s.call("POST", "/api/v1/proposals", "person:carol", map[string]any{"flow": map[string]any{
		"format_version": "1.1", "type": "Flow", "name": name, "description": "A flow of the test.", "on_failure": "fail",
		"input_schema": map[string]any{"type": "object", "properties": map[string]any{"sku": map[string]any{"type": "string", "description": "What is asked for."}}, "required": []any{"sku"}, "additionalProperties": false},
		"steps":        steps, "returns": map[string]any{"last": fmt.Sprintf("got%d", len(tools))},
	}}, &p)
	return p.ID
}

// accept approves a proposal as often as it needs and promotes it.
func (s *service) accept(id string) {
	s.t.Helper()
	s.approve(id)
	s.call("POST", "/api/v1/proposals/"+id+"/promote", "", map[string]any{}, nil, "If-Match", fmt.Sprintf(`"%d"`, s.proposal(id).Revision))
}

// approve approves a proposal as often as it needs.
func (s *service) approve(id string) {
	s.t.Helper()
	for i := range s.proposal(id).Needs {
		s.call("POST", "/api/v1/proposals/"+id+"/reviews", fmt.Sprintf("person:reviewer%d", i), map[string]any{"verdict": "approve", "digest": s.proposal(id).Digest}, nil,
			"If-Match", fmt.Sprintf(`"%d"`, s.proposal(id).Revision))
	}
}

// run runs a flow of the shop and returns the run's id; a run that does not end soon goes on.
func (s *service) run(flow, as string) string {
	s.t.Helper()
	var r struct{ ID string }
	s.call("POST", "/api/v1/flows/"+flow+"/runs?wait=100ms", as, map[string]any{"input": map[string]any{"sku": "A-1"}}, &r)
	require.NotEmpty(s.t, r.ID)
	return r.ID
}
