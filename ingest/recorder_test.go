package ingest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/flows"
)

// log is an Appender that keeps what it was given; hold, when set, blocks every Append until it is closed.
type log struct {
	mu     sync.Mutex
	groups [][]Event
	tenant []string
	fail   func(events []Event) error
	hold   chan struct{}
}

func (l *log) Append(_ context.Context, tenant string, events []Event) error {
	if l.hold != nil {
		<-l.hold
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fail != nil {
		if err := l.fail(events); err != nil {
			return err
		}
	}
	l.groups, l.tenant = append(l.groups, events), append(l.tenant, tenant)
	return nil
}

func (l *log) events() []Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []Event
	for _, g := range l.groups {
		all = append(all, g...)
	}
	return all
}

func call(session, id string, args string) Event {
	return Event{Kind: KindToolCall, SessionID: session, Source: "json", OriginKind: OriginAgent,
		Call: &ToolCall{Tool: "t", CallID: id, Args: json.RawMessage(args), Status: StatusOK}}
}

func newTestRecorder(t *testing.T, store Appender, opts RecorderOptions) *Recorder {
	r := NewRecorder(store, opts)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r
}

func TestRecordSetsWhatStoresNeed(t *testing.T) {
	store := &log{}
	now := time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)
	r := newTestRecorder(t, store, RecorderOptions{Now: func() time.Time { return now }})
	span := call("", "", `{}`)
	span.TraceID, span.SpanID = "aa", "bb"
	receipt, err := r.Record(t.Context(), "acme", []Event{call("s", "c1", `{}`), span, call("", "", `{"n":1}`), call("", "", `{"n":1}`)})
	require.NoError(t, err)
	require.Equal(t, 4, receipt.Accepted)
	require.Equal(t, "no_identity", receipt.Warnings[0].Code)
	require.Equal(t, 2, receipt.Warnings[0].Count)
	require.Equal(t, []string{"acme"}, store.tenant)
	got := store.events()
	require.Equal(t, "session:s", got[0].Origin)
	require.Equal(t, "trace:aa", got[1].Origin)
	require.Equal(t, got[2].Origin, got[3].Origin)
	require.True(t, strings.HasPrefix(got[2].Origin, "request:"))
	seen := map[string]bool{}
	for _, e := range got {
		require.Equal(t, now, e.Received)
		require.NotEmpty(t, e.Identity)
		seen[e.Identity] = true
	}
	require.Len(t, seen, 4, "equal records of one request are different calls")
}

func TestIdentify(t *testing.T) {
	identity := func(e Event) string {
		events := []Event{e}
		Identify(events)
		return events[0].Identity
	}
	a := call("s", "c1", `{}`)
	turn := a
	turn.HasTurn, turn.Turn = true, 3
	require.Equal(t, identity(a), identity(call("s", "c1", `{"other":1}`)), "content does not matter where there is a call id")
	require.NotEqual(t, identity(a), identity(turn), "call ids repeat over turns")
	require.NotEqual(t, identity(a), identity(call("s2", "c1", `{}`)))
	require.NotEqual(t, identity(a), identity(call("s", "c2", `{}`)))
	require.NotEqual(t, identity(call("ab", "c", `{}`)), identity(call("a", "bc", `{}`)), "parts do not run together")
	kept := a
	kept.Identity = "mine"
	require.Equal(t, "mine", identity(kept))

	user := Event{Kind: KindUserMessage, SessionID: "s", Turn: 1, HasTurn: true, User: &UserMessage{Text: "yes"}}
	later := user
	later.Turn = 2
	require.Equal(t, identity(user), identity(user))
	require.NotEqual(t, identity(user), identity(later))
	unplaced := Event{Kind: KindUserMessage, SessionID: "s", User: &UserMessage{Text: "yes"}}
	two := []Event{unplaced, unplaced}
	require.Zero(t, Identify(two), "only tool calls are warned of")
	require.NotEqual(t, two[0].Identity, two[1].Identity, "a user may say the same twice")
	again := []Event{unplaced, unplaced}
	Identify(again)
	require.Equal(t, two, again, "the same request gives the same identities")
}

func TestRecordDropsExactRepeats(t *testing.T) {
	store := &log{}
	r := newTestRecorder(t, store, RecorderOptions{})
	batch := func() []Event { return []Event{call("s", "c1", `{"a":1}`), call("s", "c2", `{}`), call("", "", `{}`)} }
	receipt, err := r.Record(t.Context(), "t", batch())
	require.NoError(t, err)
	require.Equal(t, [2]int{3, 0}, [2]int{receipt.Accepted, receipt.Duplicates})
	receipt, err = r.Record(t.Context(), "t", batch())
	require.NoError(t, err)
	require.Equal(t, [2]int{0, 3}, [2]int{receipt.Accepted, receipt.Duplicates})
	receipt, err = r.Record(t.Context(), "t", []Event{call("s", "c1", `{"a":2}`)})
	require.NoError(t, err)
	require.Equal(t, 1, receipt.Accepted, "other content is kept for assembly to judge")
	receipt, err = r.Record(t.Context(), "other", batch())
	require.NoError(t, err)
	require.Equal(t, 3, receipt.Accepted, "tenants are apart")
	require.Len(t, store.events(), 7)
}

func TestRecordGroupsConcurrentRequests(t *testing.T) {
	store := &log{hold: make(chan struct{})}
	r := newTestRecorder(t, store, RecorderOptions{Limits: Limits{Linger: time.Millisecond}})
	const requests = 200
	var wg sync.WaitGroup
	for i := range requests {
		wg.Go(func() {
			_, err := r.Record(t.Context(), []string{"a", "b"}[i%2], []Event{call("s", fmt.Sprint(i), `{}`)})
			require.NoError(t, err)
		})
	}
	// All are queued behind the first, held Append; none is answered before its own.
	require.Eventually(t, func() bool { return r.Stats().Queued == requests }, 10*time.Second, time.Millisecond)
	require.Zero(t, r.Stats().Committed)
	close(store.hold)
	wg.Wait()
	require.Len(t, store.events(), requests)
	require.LessOrEqual(t, len(store.groups), 6, "requests that wait together are committed together")
}

func TestRecordQueueBounds(t *testing.T) {
	store := &log{hold: make(chan struct{})}
	r := newTestRecorder(t, store, RecorderOptions{Limits: Limits{Queue: 10, QueueSize: 1 << 20, Linger: time.Nanosecond}, RetryAfter: 7 * time.Second})
	events := func(n int, args string) []Event {
		out := make([]Event, n)
		for i := range out {
			out[i] = call("s", "", args)
		}
		return out
	}
	_, err := r.Record(t.Context(), "t", events(11, `{}`))
	require.Equal(t, flows.CodeTooLarge, flows.CodeOf(err))
	answers := make(chan error, 2)
	go func() { _, err := r.Record(t.Context(), "t", events(6, `{}`)); answers <- err }()
	require.Eventually(t, func() bool { return r.Stats().Queued == 6 }, 10*time.Second, time.Millisecond)
	go func() { _, err := r.Record(t.Context(), "t", events(4, `{}`)); answers <- err }()
	require.Eventually(t, func() bool { return r.Stats().Queued == 10 }, 10*time.Second, time.Millisecond)
	_, err = r.Record(t.Context(), "t", events(1, `{}`))
	require.Equal(t, flows.CodeFull, flows.CodeOf(err))
	after, ok := RetryAfter(err)
	require.True(t, ok)
	require.Equal(t, 7*time.Second, after)
	close(store.hold)
	require.NoError(t, <-answers)
	require.NoError(t, <-answers)
	_, err = r.Record(t.Context(), "t", events(10, `{}`))
	require.NoError(t, err)
	require.Equal(t, RecorderStats{Committed: 20, Refused: 1, Groups: r.Stats().Groups}, r.Stats())
}

func TestRecordErrors(t *testing.T) {
	bad := errors.New("no such column")
	store := &log{fail: func(events []Event) error {
		for _, e := range events {
			switch e.SessionID {
			case "full":
				return fmt.Errorf("spool: %w", ErrStoreFull)
			case "away":
				return ErrStoreUnavailable
			case "bad":
				return bad
			case "panic":
				panic("boom")
			}
		}
		return nil
	}}
	r := newTestRecorder(t, store, RecorderOptions{})
	for session, code := range map[string]flows.Code{"full": flows.CodeFull, "away": flows.CodeUnavailable, "bad": flows.CodeInternal, "panic": flows.CodeInternal} {
		_, err := r.Record(t.Context(), "t", []Event{call(session, "c", `{}`)})
		require.Equal(t, code, flows.CodeOf(err), session)
		require.NotContains(t, err.Error(), "column")
		_, retry := RetryAfter(err)
		require.Equal(t, code != flows.CodeInternal, retry)
	}
	// A request that the store refuses does not take the others of its group along.
	store.hold = make(chan struct{})
	sessions := []string{"first", "good", "bad", "good2"}
	results := make([]error, len(sessions))
	var wg sync.WaitGroup
	for i, s := range sessions {
		wg.Go(func() { _, results[i] = r.Record(t.Context(), "t", []Event{call(s, "c", `{}`)}) })
		require.Eventually(t, func() bool { return r.Stats().Queued == int64(i+1) }, 10*time.Second, time.Millisecond)
	}
	close(store.hold)
	wg.Wait()
	require.Equal(t, []bool{true, true, false, true}, []bool{results[0] == nil, results[1] == nil, results[2] == nil, results[3] == nil})
	// An event that failed is no repeat when it is sent again.
	store.fail = nil
	receipt, err := r.Record(t.Context(), "t", []Event{call("bad", "c", `{}`)})
	require.NoError(t, err)
	require.Equal(t, 1, receipt.Accepted)
}

func TestRecordAdmitCommittedAndClose(t *testing.T) {
	store := &log{}
	full := flows.NewError(flows.CodeFull, "256 MiB are free; make room")
	var admit error
	var committed []Event
	r := NewRecorder(store, RecorderOptions{Admit: func() error { return admit },
		Committed: func(tenant string, events []Event) { committed = append(committed, events...) }})
	_, err := r.Record(t.Context(), "t", []Event{call("s", "c", `{}`)})
	require.NoError(t, err)
	require.Len(t, committed, 1)
	admit = full
	_, err = r.Record(t.Context(), "t", []Event{call("s", "c2", `{}`)})
	require.ErrorIs(t, err, full)
	admit = nil
	require.NoError(t, r.Close())
	require.NoError(t, r.Close())
	_, err = r.Record(t.Context(), "t", []Event{call("s", "c3", `{}`)})
	require.Equal(t, flows.CodeUnavailable, flows.CodeOf(err))
	require.Len(t, store.events(), 1)
}

func TestCloseDrains(t *testing.T) {
	store := &log{hold: make(chan struct{})}
	r := NewRecorder(store, RecorderOptions{})
	answer := make(chan error, 1)
	go func() { _, err := r.Record(t.Context(), "t", []Event{call("s", "c", `{}`)}); answer <- err }()
	require.Eventually(t, func() bool { return r.Stats().Queued == 1 }, 10*time.Second, time.Millisecond)
	closed := make(chan struct{})
	go func() { _ = r.Close(); close(closed) }()
	close(store.hold)
	require.NoError(t, <-answer)
	<-closed
	require.Len(t, store.events(), 1)
}

func TestRecordContext(t *testing.T) {
	store := &log{hold: make(chan struct{})}
	r := newTestRecorder(t, store, RecorderOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := r.Record(ctx, "t", []Event{call("s", "c", `{}`)})
	require.ErrorIs(t, err, context.Canceled)
	close(store.hold)
}

func TestRecordCutsPayloads(t *testing.T) {
	store := &log{}
	r := newTestRecorder(t, store, RecorderOptions{Limits: Limits{Payload: 100, Text: 20}})
	fits := call("s", "fits", `{"x":"`+strings.Repeat("a", 100-8)+`"}`)
	require.Len(t, fits.Call.Args, 100)
	over := call("s", "over", `{"x":"`+strings.Repeat("é", 47)+`"}`)
	require.Len(t, over.Call.Args, 102)
	over.Call.Error = strings.Repeat("e", 21)
	user := Event{Kind: KindUserMessage, SessionID: "s", User: &UserMessage{Text: strings.Repeat("é", 11)}}
	receipt, err := r.Record(t.Context(), "t", []Event{fits, over, user})
	require.NoError(t, err)
	require.Contains(t, receipt.Warnings, Warning{Code: "truncated", Count: 2, Message: "arguments and results above 100 bytes and texts above 20 were cut"})
	got := store.events()
	require.False(t, got[0].Call.Truncated)
	require.True(t, got[1].Call.Truncated)
	var cut struct {
		Truncated bool `json:"pave_truncated"`
		Bytes     int
		SHA256    string
		Head      string
	}
	require.NoError(t, json.Unmarshal(got[1].Call.Args, &cut))
	require.Equal(t, 102, cut.Bytes)
	require.Len(t, cut.SHA256, 64)
	require.Equal(t, `{"x":"`+strings.Repeat("é", 47)+`"}`, cut.Head)
	require.Equal(t, strings.Repeat("e", 14)+" [cut]", got[1].Call.Error)
	require.Equal(t, strings.Repeat("é", 7)+" [cut]", got[2].User.Text)
}

func TestKeyRedactor(t *testing.T) {
	r := NewKeyRedactor([]byte("key"))
	hide := func(s string) string { return string(r.Redact(json.RawMessage(s))) }
	for _, same := range []string{`{"user":"a","tokens":3,"list":[1,"password"]}`, `{"token":null,"secret":true,"password":""}`, `[]`, `{"token":{}}`, `{broken`} {
		require.Equal(t, same, hide(same))
	}
	hidden := hide(`{"user":"a", "Password":"hunter2","deep":[{"API_KEY" : 17}],"authorization":{"scheme":"Bearer","parts":["x",1]},"z":1}`)
	require.Regexp(t, `^\{"user":"a", "Password":"\[redacted:secret:[0-9a-f]{12}\]","deep":\[\{"API_KEY" : "\[redacted:secret:[0-9a-f]{12}\]"\}\],`+
		`"authorization":\{"scheme":"\[redacted:secret:[0-9a-f]{12}\]","parts":\["\[redacted:secret:[0-9a-f]{12}\]","\[redacted:secret:[0-9a-f]{12}\]"\]\},"z":1\}$`, hidden)
	require.Equal(t, hide(`{"token":"ab"}`), hide(`{"token":"\u0061b"}`), "equal secrets stay equal")
	require.NotEqual(t, hide(`{"token":"ab"}`), hide(`{"token":"ac"}`))
	require.NotEqual(t, hide(`{"token":"ab"}`), string(NewKeyRedactor([]byte("other")).Redact(json.RawMessage(`{"token":"ab"}`))))
	require.Equal(t, hidden, hide(hidden), "hiding twice changes nothing")
	own := NewKeyRedactor([]byte("key"), "PIN")
	require.Contains(t, string(own.Redact(json.RawMessage(`{"pin":1234,"password":"x"}`))), `"password":"x"`)

	store := &log{}
	rec := newTestRecorder(t, store, RecorderOptions{Redactor: r})
	e := call("s", "c", `{"password":"canary"}`)
	e.Call.Result, e.Metadata = json.RawMessage(`{"secret":"canary"}`), json.RawMessage(`{"token":"canary"}`)
	_, err := rec.Record(t.Context(), "t", []Event{e})
	require.NoError(t, err)
	require.NotContains(t, fmt.Sprintf("%s %s %s", store.events()[0].Call.Args, store.events()[0].Call.Result, store.events()[0].Metadata), "canary")
}

func TestRecentSetForgets(t *testing.T) {
	s := newRecentSet()
	for i := range uint64(recentSize) {
		s.add(i, i)
	}
	require.True(t, s.has(0, 0))
	for i := range uint64(recentSize) {
		s.add(recentSize+i, i)
	}
	require.True(t, s.has(5, 5), "the old generation is still known")
	s.add(3*recentSize, 1)
	require.False(t, s.has(5, 5))
	require.Len(t, s.now, 1)
}

// Room answers as Record would, before anything is read.
func TestRoom(t *testing.T) {
	slow := &log{hold: make(chan struct{})}
	full := errors.New("no disk")
	var low atomic.Bool
	r := NewRecorder(slow, RecorderOptions{Limits: Limits{Queue: 2, Linger: time.Nanosecond}, Admit: func() error {
		if low.Load() {
			return full
		}
		return nil
	}})
	require.NoError(t, r.Room())
	done := make(chan error, 1)
	go func() {
		_, err := r.Record(t.Context(), "t", []Event{call("s", "1", "{}"), call("s", "2", "{}")})
		done <- err
	}()
	require.Eventually(t, func() bool { return r.Room() != nil }, 5*time.Second, time.Millisecond)
	require.Equal(t, flows.CodeFull, flows.CodeOf(r.Room()))
	_, retry := RetryAfter(r.Room())
	require.True(t, retry)
	close(slow.hold)
	require.NoError(t, <-done)
	require.NoError(t, r.Room())
	low.Store(true)
	require.ErrorIs(t, r.Room(), full)
	require.NoError(t, r.Close())
}
