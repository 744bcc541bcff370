package outbox_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"pave/executor/bind"
	"pave/flows"
	"pave/governance"
	"pave/governance/outbox"
	"pave/governance/runs"
	"pave/governance/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// target is a receiver that answers as told and keeps what it got.
type target struct {
	*httptest.Server
	mu      sync.Mutex
	answer  int
	headers []http.Header
	bodies  []string
}

func newTarget(t *testing.T) *target {
	tg := &target{answer: http.StatusNoContent}
	tg.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		tg.mu.Lock()
		defer tg.mu.Unlock()
		tg.headers, tg.bodies = append(tg.headers, r.Header.Clone()), append(tg.bodies, string(body))
		if tg.answer == http.StatusFound {
			w.Header().Set("Location", "http://169.254.169.254/latest/meta-data")
		}
		w.WriteHeader(tg.answer)
	}))
	t.Cleanup(tg.Close)
	return tg
}

func (tg *target) events(t *testing.T) []string {
	tg.mu.Lock()
	defer tg.mu.Unlock()
	var out []string
	for _, body := range tg.bodies {
		var e struct {
			ID, Event, Object string
		}
		require.NoError(t, json.Unmarshal([]byte(body), &e))
		out = append(out, e.Event)
	}
	return out
}

type bench struct {
	*governance.Service
	now       time.Time
	sender    *outbox.Sender
	admin     governance.Actor
	transport http.RoundTripper
}

func newBench(t *testing.T, transport http.RoundTripper, change ...func(*governance.Options)) *bench {
	db, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "state.db"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	b := &bench{now: time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC), admin: governance.Actor{Tenant: "default", Principal: "local:root", Scopes: governance.AllScopes}}
	clock := func() time.Time { return b.now }
	opts := governance.Options{Store: db, Check: runs.Check, Now: clock}
	for _, f := range change {
		f(&opts)
	}
	b.Service = governance.New(opts)
	idle := &http.Transport{}
	if transport == nil {
		transport = idle
	}
	t.Cleanup(idle.CloseIdleConnections)
	b.transport = transport
	b.sender = outbox.New(outbox.Options{Queue: b.Service, Transport: transport, Now: clock})
	return b
}

func (b *bench) send(t *testing.T) int {
	n, err := b.sender.Send(t.Context())
	require.NoError(t, err)
	return n
}

func ptr[T any](v T) *T { return &v }

func (b *bench) hook(t *testing.T, url string, events ...string) (*governance.Webhook, string) {
	req := governance.WebhookRequest{URL: &url}
	if events != nil {
		req.Events = &events
	}
	w, secret, err := b.CreateWebhook(t.Context(), b.admin, req)
	require.NoError(t, err)
	return w, secret
}

func draft(t *testing.T, name string) *flows.Flow {
	flow, _, err := flows.ParseFlow([]byte("type: Flow\nformat_version: \"1.1\"\nname: " + name + "\nversion: 0.1.0\ndescription: x\nsteps: [{tool_name: a, input_mapping: {x: x}}]\n"))
	require.NoError(t, err)
	return flow
}

func (b *bench) submit(t *testing.T, name string) *governance.Proposal {
	p, err := b.Submit(t.Context(), b.admin, draft(t, name))
	require.NoError(t, err)
	return p
}

func TestEventsAreSignedAndArriveOnce(t *testing.T) {
	tg := newTarget(t)
	b := newBench(t, nil)
	all, secret := b.hook(t, tg.URL)
	b.hook(t, tg.URL, governance.EventFlowPromoted)
	p := b.submit(t, "f")
	require.Equal(t, 1, b.send(t), "one of the webhooks wants it")
	require.Zero(t, b.send(t))
	require.Equal(t, []string{"proposal.created"}, tg.events(t))

	var got struct {
		ID, Event, Object, Actor, Tenant string
		At                               time.Time
		Detail                           map[string]any
	}
	require.NoError(t, json.Unmarshal([]byte(tg.bodies[0]), &got))
	require.Equal(t, "proposal/"+p.ID, got.Object)
	require.Equal(t, "local:root", got.Actor)
	require.Equal(t, b.now, got.At)
	require.Equal(t, "f", got.Detail["flow"])
	h := tg.headers[0]
	require.Equal(t, got.ID, h.Get("Pave-Delivery"))
	require.Equal(t, "proposal.created", h.Get("Pave-Event"))
	stamp, sum, ok := strings.Cut(strings.TrimPrefix(h.Get("Pave-Signature"), "t="), ",v1=")
	require.True(t, ok)
	require.Equal(t, fmt.Sprint(b.now.Unix()), stamp)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(stamp + "." + tg.bodies[0]))
	require.Equal(t, hex.EncodeToString(mac.Sum(nil)), sum)

	page, err := b.Deliveries(t.Context(), b.admin, all.ID, 0, "")
	require.NoError(t, err)
	require.Len(t, page.Items, 1)
	require.Equal(t, governance.DeliveryDelivered, page.Items[0].State)
	require.Equal(t, 204, page.Items[0].Status)

	_, err = b.Redeliver(t.Context(), b.admin, all.ID, page.Items[0].ID)
	require.NoError(t, err)
	_, err = b.TestWebhook(t.Context(), b.admin, all.ID)
	require.NoError(t, err)
	require.Equal(t, 2, b.send(t))
	require.ElementsMatch(t, []string{"proposal.created", "proposal.created", "webhook.test"}, tg.events(t))
	require.Contains(t, tg.bodies[1:], tg.bodies[0], "the same event again")
}

func TestNothingIsToldOfWhatDidNotHappen(t *testing.T) {
	tg := newTarget(t)
	b := newBench(t, nil)
	b.hook(t, tg.URL)
	b.submit(t, "f")
	_, err := b.Submit(t.Context(), b.admin, draft(t, "f"))
	require.Equal(t, flows.CodeExists, flows.CodeOf(err))
	require.Equal(t, 1, b.send(t))
}

// O5: what waits for a receiver that is down is kept and tried again, more and more seldom, until a day of failures
// disables it, with an audit event.
func TestScenarioO5DownReceiver(t *testing.T) {
	tg := newTarget(t)
	tg.answer = http.StatusInternalServerError
	b := newBench(t, nil)
	w, _ := b.hook(t, tg.URL)
	b.submit(t, "f")
	start := b.now
	var pauses []time.Duration
	for {
		require.Equal(t, 1, b.send(t))
		require.Zero(t, b.send(t), "not before its time")
		now, err := b.Webhook(t.Context(), b.admin, w.ID)
		require.NoError(t, err)
		if now.State == governance.WebhookDisabled {
			require.GreaterOrEqual(t, b.now.Sub(start), 24*time.Hour)
			require.Contains(t, now.Reason, "answered 500")
			break
		}
		page, err := b.Deliveries(t.Context(), b.admin, w.ID, 0, "")
		require.NoError(t, err)
		d := page.Items[0]
		require.Equal(t, governance.DeliveryPending, d.State)
		pauses = append(pauses, d.NextAt.Sub(b.now))
		b.now = d.NextAt
	}
	require.Equal(t, []time.Duration{1 * time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute}, pauses[:4])
	require.LessOrEqual(t, pauses[len(pauses)-1], 6*time.Hour)
	events, err := b.Audit(t.Context(), b.admin, 0, 500)
	require.NoError(t, err)
	require.Equal(t, "webhook.disable", events[len(events)-1].Action)

	// What waits arrives when somebody makes it active again.
	b.now = b.now.Add(10 * time.Hour)
	require.Zero(t, b.send(t))
	tg.answer = http.StatusOK
	now, err := b.UpdateWebhook(t.Context(), b.admin, w.ID, governance.WebhookRequest{State: ptr(governance.WebhookActive)})
	require.NoError(t, err)
	require.Empty(t, now.Reason)
	require.Equal(t, 1, b.send(t))
	page, err := b.Deliveries(t.Context(), b.admin, w.ID, 0, "")
	require.NoError(t, err)
	require.Equal(t, governance.DeliveryDelivered, page.Items[0].State)
}

// O5: a receiver that redirects to an address inside, or is one, gets nothing there.
func TestScenarioO5HostileReceivers(t *testing.T) {
	tg := newTarget(t)
	tg.answer = http.StatusFound
	b := newBench(t, nil)
	w, _ := b.hook(t, tg.URL)
	b.submit(t, "f")
	require.Equal(t, 1, b.send(t))
	page, err := b.Deliveries(t.Context(), b.admin, w.ID, 0, "")
	require.NoError(t, err)
	require.Equal(t, 302, page.Items[0].Status, "a redirect is an answer, not followed")
	require.Equal(t, governance.DeliveryPending, page.Items[0].State)

	// Addresses outside of the public network are for the egress list to allow.
	guard, err := bind.NewEgress(nil)
	require.NoError(t, err)
	guarded := newBench(t, guard.Transport())
	for _, url := range []string{tg.URL, "http://169.254.169.254/latest", "http://[::ffff:127.0.0.1]/", "http://2130706433/"} {
		w, _ := guarded.hook(t, url)
		_, err := guarded.TestWebhook(t.Context(), guarded.admin, w.ID)
		require.NoError(t, err)
		require.Equal(t, 1, guarded.send(t))
		page, err := guarded.Deliveries(t.Context(), guarded.admin, w.ID, 0, "")
		require.NoError(t, err)
		require.Zero(t, page.Items[0].Status, url)
		require.Regexp(t, "egress|no such host", page.Items[0].Error, url)
	}
}

// O5: a receiver that never answers is given up after its time, and holds up no other.
func TestScenarioO5SlowReceiver(t *testing.T) {
	let := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-let
	}))
	defer slow.Close()
	defer close(let)
	tg := newTarget(t)
	b := newBench(t, nil)
	w, _ := b.hook(t, slow.URL)
	b.sender = outbox.New(outbox.Options{Queue: b.Service, Transport: b.transport, Now: func() time.Time { return b.now }, Patience: time.Second})
	for i := range 20 {
		b.submit(t, fmt.Sprint("f", i))
	}
	b.hook(t, tg.URL)
	b.submit(t, "last")
	began := time.Now()
	require.Equal(t, 22, b.send(t))
	require.Less(t, time.Since(began), 15*time.Second, "21 attempts one after the other take longer")
	require.Equal(t, []string{"proposal.created"}, tg.events(t))
	page, err := b.Deliveries(t.Context(), b.admin, w.ID, 100, "")
	require.NoError(t, err)
	require.Len(t, page.Items, 21)
	for _, d := range page.Items {
		require.Equal(t, governance.DeliveryPending, d.State)
		require.Zero(t, d.Status)
		require.Contains(t, d.Error, "deadline")
	}
}

func TestWebhooksAreCheckedAndGuarded(t *testing.T) {
	egress, err := bind.NewEgress(nil)
	require.NoError(t, err)
	b := newBench(t, nil, func(o *governance.Options) { o.Reachable = egress.CheckURL })
	for name, req := range map[string]governance.WebhookRequest{
		"no url": {}, "scheme": {URL: ptr("ftp://x.org/")}, "user": {URL: ptr("http://a:b@x.org/")}, "no host": {URL: ptr("http:///x")},
		"event": {URL: ptr("http://x.org"), Events: &[]string{"moon.full"}}, "secret": {URL: ptr("http://x.org"), Secret: ptr("short")},
		"state": {URL: ptr("http://x.org"), State: ptr(governance.WebhookDisabled)},
	} {
		_, _, err := b.CreateWebhook(t.Context(), b.admin, req)
		require.Equal(t, flows.CodeInvalid, flows.CodeOf(err), name)
	}
	w, secret := b.hook(t, "http://x.org/hook")
	require.True(t, strings.HasPrefix(secret, "whsec_"))
	_, err = b.UpdateWebhook(t.Context(), b.admin, w.ID, governance.WebhookRequest{URL: ptr("http://169.254.169.254/latest/meta-data")})
	require.Equal(t, flows.CodeEgressDenied, flows.CodeOf(err))
	require.ErrorContains(t, err, "url: egress to 169.254.169.254:80 is not allowed")
	refused := new(flows.Error)
	_, _, err = b.CreateWebhook(t.Context(), b.admin, governance.WebhookRequest{URL: ptr("http://2130706433/")})
	require.ErrorAs(t, err, &refused)
	require.Equal(t, flows.CodeInvalid, refused.Code)
	require.Equal(t, "/url", refused.Details[0].Pointer)
	reader := governance.Actor{Tenant: "default", Principal: "person:a", Scopes: []governance.Scope{governance.ScopeRead}}
	_, err = b.Webhooks(t.Context(), reader)
	require.Equal(t, flows.CodeForbidden, flows.CodeOf(err))
	other := b.admin
	other.Tenant = "other"
	_, err = b.Webhook(t.Context(), other, w.ID)
	require.Equal(t, flows.CodeNotFound, flows.CodeOf(err), "of another tenant")
	_, err = b.UpdateWebhook(t.Context(), b.admin, w.ID, governance.WebhookRequest{IfRevision: 7})
	require.Equal(t, flows.CodeStale, flows.CodeOf(err))
	w, err = b.UpdateWebhook(t.Context(), b.admin, w.ID, governance.WebhookRequest{State: ptr(governance.WebhookPaused), IfRevision: 1})
	require.NoError(t, err)
	b.submit(t, "f")
	require.Zero(t, b.send(t), "paused")
	require.NoError(t, b.DeleteWebhook(t.Context(), b.admin, w.ID, w.Revision))
	all, err := b.Webhooks(t.Context(), b.admin)
	require.NoError(t, err)
	require.Empty(t, all)
	_, err = b.Redeliver(t.Context(), b.admin, w.ID, "x")
	require.Equal(t, flows.CodeNotFound, flows.CodeOf(err))
}
