package api

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/analyzer"
	"pave/flows"
	"pave/governance"
	statestore "pave/governance/store"
)

// domain is what the other methods of a double are of: nothing.
type domain struct{ Proposals }

// queueOf is a queue of numbered proposals that pages by number.
type queueOf struct {
	domain
	n, submitted int
}

func (q *queueOf) Proposals(_ context.Context, _ governance.Actor, f governance.ProposalFilter) (statestore.Page[governance.Proposal], error) {
	first := 0
	if f.Cursor != "" {
		if _, err := fmt.Sscanf(f.Cursor, "at:%d", &first); err != nil {
			return statestore.Page[governance.Proposal]{}, errCursor
		}
	}
	var page statestore.Page[governance.Proposal]
	for i := first; i < min(q.n, first+f.Limit); i++ {
		page.Items = append(page.Items, governance.Proposal{ID: fmt.Sprint(i), Flow: &flows.Flow{Name: "f"}, Source: analyzer.SourceMiner})
	}
	if first+f.Limit < q.n {
		page.Next = fmt.Sprintf("at:%d", first+f.Limit)
	}
	return page, nil
}

func (q *queueOf) Submit(context.Context, governance.Actor, *flows.Flow) (*governance.Proposal, error) {
	q.submitted++
	if q.submitted == 1 {
		return nil, flows.NewError(flows.CodeUnavailable, "later")
	}
	return &governance.Proposal{ID: fmt.Sprint("p", q.submitted), Revision: 1, Flow: &flows.Flow{Name: "f"}}, nil
}

func nextCursor(t *testing.T, w *httptest.ResponseRecorder) string {
	t.Helper()
	require.Equal(t, http.StatusOK, w.Code, w.Body.String())
	var page struct {
		NextCursor string `json:"next_cursor"`
	}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &page))
	return page.NextCursor
}

// A cursor is good for the list, filters and tenant that gave it, over restarts, and cannot be made by hand.
func TestCursorsAreSigned(t *testing.T) {
	list := func(tenant string) *Server {
		return bare(t, func(d *Deps, o *Options) {
			d.Proposals, o.CursorKey, o.Tenant = &queueOf{n: 5}, []byte("key of this installation"), tenant
		})
	}
	s := list("default")
	cursor := nextCursor(t, call(s, "GET", "/api/v1/proposals?limit=2&state=open", ""))
	require.NotContains(t, cursor, "limit")
	at := func(s *Server, query string) *httptest.ResponseRecorder {
		return call(s, "GET", "/api/v1/proposals?"+query, "")
	}
	w := at(list("default"), "limit=2&state=open&cursor="+url.QueryEscape(cursor))
	require.Contains(t, w.Body.String(), `"id":"2"`)
	last := nextCursor(t, w)
	require.Empty(t, nextCursor(t, at(s, "state=open&limit=3&cursor="+url.QueryEscape(last))), "another limit is no other list")
	sum, text, _ := strings.Cut(cursor, ".")
	require.Equal(t, "at:2", text)
	for name, query := range map[string]string{
		"another filter": "state=promoted&cursor=" + url.QueryEscape(cursor),
		"no filter":      "cursor=" + url.QueryEscape(cursor),
		"another place":  "state=open&cursor=" + url.QueryEscape(sum+".at:3"),
		"unsigned":       "state=open&cursor=at:2",
		"no signature":   "state=open&cursor=.at:2",
		"broken":         "state=open&cursor=" + url.QueryEscape("%%."+text),
	} {
		w := at(s, query)
		require.Equal(t, 400, w.Code, name)
		require.Equal(t, "cursor", problem(t, w).Errors[0].Pointer, name)
	}
	require.Equal(t, 400, at(list("other"), "state=open&cursor="+url.QueryEscape(cursor)).Code, "another tenant")
	unkeyed := bare(t, func(d *Deps, _ *Options) { d.Proposals = &queueOf{n: 5} })
	require.Equal(t, 400, at(unkeyed, "state=open&cursor="+url.QueryEscape(cursor)).Code, "another installation")
}

func FuzzSealedCursor(f *testing.F) {
	s := newSeal([]byte("k"))
	f.Add(s.close("a", "x"))
	f.Add(".")
	f.Add("AAAA.x")
	f.Fuzz(func(t *testing.T, sealed string) {
		cursor, err := s.open("a", sealed)
		if err == nil {
			require.Equal(t, sealed, s.close("a", cursor), "only what was given is taken")
		}
		_, err = s.open("b", s.close("a", sealed))
		require.Error(t, err)
	})
}

// memory keeps first answers.
type memory struct {
	mu   sync.Mutex
	kept map[string]*governance.KeptAnswer
	hash map[string]string
}

func (m *memory) BeginOnce(_ context.Context, _ governance.Actor, op, key, hash string) (*governance.KeptAnswer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	id := op + key
	if was, ok := m.hash[id]; ok && was != hash {
		return nil, flows.NewError(flows.CodeIdempotencyReuse, "other")
	}
	m.hash[id] = hash
	return m.kept[id], nil
}

func (m *memory) EndOnce(_ context.Context, _ governance.Actor, op, key, _ string, answer *governance.KeptAnswer) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.kept[op+key] = answer
	if answer == nil {
		delete(m.hash, op+key)
	}
	return nil
}

func TestRepeatedRequestsGetTheFirstAnswer(t *testing.T) {
	queue := &queueOf{}
	s := bare(t, func(d *Deps, _ *Options) {
		d.Proposals, d.Once = queue, &memory{kept: map[string]*governance.KeptAnswer{}, hash: map[string]string{}}
	})
	body := `{"flow":{"type":"Flow","format_version":"1.1","name":"f","version":"0.1.0","description":"x","steps":[{"tool_name":"a","input_mapping":{"x":"x"}}]}}`
	submit := func(body, key string) *httptest.ResponseRecorder {
		return call(s, "POST", "/api/v1/proposals", body, "Idempotency-Key", key)
	}
	require.Equal(t, 503, submit(body, "k1").Code, "the queue is away")
	first := submit(body, "k1")
	require.Equal(t, 201, first.Code, "a failure is not kept: %s", first.Body)
	require.Empty(t, first.Header().Get("Idempotent-Replayed"))
	again := submit(body, "k1")
	require.Equal(t, 201, again.Code)
	require.Equal(t, "true", again.Header().Get("Idempotent-Replayed"))
	require.Equal(t, first.Body.String(), again.Body.String())
	for _, name := range []string{"Location", "ETag", "Content-Type"} {
		require.NotEmpty(t, first.Header().Get(name))
		require.Equal(t, first.Header().Get(name), again.Header().Get(name))
	}
	require.Equal(t, 422, submit(strings.Replace(body, `"x"`, `"y"`, 1), "k1").Code)
	require.Equal(t, 201, submit(body, "k2").Code)
	require.Equal(t, 201, submit(body, "").Code)
	require.Equal(t, 4, queue.submitted)
	require.Equal(t, 400, submit(body, strings.Repeat("k", 256)).Code)
}

// The limit is exact: a burst of twice the rate passes, the next request waits, and others are not held up.
func TestRateLimits(t *testing.T) {
	now := time.Unix(1000, 0)
	l := newLimiter(RateLimits{Requests: 5, Ingest: 0})
	l.now = func() time.Time { return now }
	alice, bob := governance.Actor{Tenant: "t", Principal: "person:a"}, governance.Actor{Tenant: "t", Principal: "person:b"}
	for i := range 10 {
		require.Zero(t, l.take(alice, false), i)
	}
	require.Equal(t, 200*time.Millisecond, l.take(alice, false))
	require.Equal(t, 200*time.Millisecond, l.take(alice, false), "asking again costs nothing")
	require.Zero(t, l.take(bob, false))
	require.Zero(t, l.take(governance.Actor{Tenant: "u", Principal: "person:a"}, false), "another tenant's")
	require.Zero(t, l.take(alice, true), "ingest has its own, which is off")
	now = now.Add(200 * time.Millisecond)
	require.Zero(t, l.take(alice, false))
	now = now.Add(2 * time.Minute)
	require.Zero(t, l.take(alice, false))
	require.Len(t, l.buckets, 1, "the buckets of others are gone")
}

func TestRateLimitIsAnswered(t *testing.T) {
	s := bare(t, func(d *Deps, o *Options) {
		d.Proposals, o.Rates = &queueOf{}, RateLimits{Requests: 1}
	})
	require.Equal(t, 200, call(s, "GET", "/api/v1/proposals", "").Code)
	require.Equal(t, 200, call(s, "GET", "/api/v1/proposals", "").Code)
	w := call(s, "GET", "/api/v1/proposals", "")
	require.Equal(t, 429, w.Code)
	require.Equal(t, "1", w.Header().Get("Retry-After"))
	require.Equal(t, "rate_limited", problem(t, w).Code)
	require.Equal(t, 200, call(s, "GET", "/healthz", "").Code)
	require.Equal(t, 200, call(s, "POST", "/api/v1/tool-calls", `[{"tool":"a"}]`).Code)
	inside := &http.Client{Transport: Transport(s, &governance.Actor{Tenant: "default", Principal: "local:tester", Scopes: governance.AllScopes})}
	resp, err := inside.Get("http://localhost/api/v1/proposals")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 200, resp.StatusCode, "this process is not bounded")
}

// S12: forwarded addresses are believed from trusted proxies alone.
func TestScenarioS12TrustedProxies(t *testing.T) {
	s := bare(t, func(_ *Deps, o *Options) { o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")} })
	address := func(peer, forwarded string) string {
		r := httptest.NewRequest("GET", "/healthz", nil)
		r.RemoteAddr = peer + ":1234"
		r.Header.Set("X-Forwarded-For", forwarded)
		return s.echo.IPExtractor(r)
	}
	require.Equal(t, "203.0.113.9", address("10.1.2.3", "203.0.113.9"))
	require.Equal(t, "203.0.113.9", address("10.1.2.3", "198.51.100.1, 203.0.113.9"), "what the client itself claimed is not")
	for _, peer := range []string{"192.0.2.7", "127.0.0.1", "10.2.0.1", "192.168.1.1"} {
		require.Equal(t, peer, address(peer, "203.0.113.9"))
	}
}

func TestDocsShowTheWholeContract(t *testing.T) {
	s := bare(t, func(_ *Deps, o *Options) { o.NoAuth = false })
	w := call(s, "GET", "/docs", "")
	require.Equal(t, 200, w.Code)
	page := w.Body.String()
	for _, op := range s.contract.operations {
		require.Contains(t, page, `id="op-`+op.id+`"`)
	}
	require.NotContains(t, page, "<script")
	style := page[strings.Index(page, "<style>")+len("<style>") : strings.Index(page, "</style>")]
	sum := sha256.Sum256([]byte(style))
	require.Contains(t, w.Header().Get("Content-Security-Policy"), "'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'")
	require.Contains(t, w.Header().Get("Content-Security-Policy"), "default-src 'none'")
	for _, ref := range strings.Split(page, `href="#`)[1:] {
		target, _, _ := strings.Cut(ref, `"`)
		require.Contains(t, page, `id="`+target+`"`)
	}
}
