package loop_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"pave/flows"
	"pave/governance"
	"pave/governance/loop"
	"pave/governance/runs"
	"pave/governance/store"
	"pave/ingest"
	"pave/ingest/assembly"
	eventstore "pave/ingest/store"
	"pave/ingest/store/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	ctx   = context.Background()
	start = time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)
	admin = governance.Actor{Principal: "local:root", Scopes: []governance.Scope{governance.ScopeAdmin}}
	ann   = governance.Actor{Principal: "person:ann", Scopes: []governance.Scope{governance.ScopePropose, governance.ScopeRead}}
)

const tenant = ingest.DefaultTenant

// gate is the event store with two switches: reads can be held up, and fail.
type gate struct {
	*sqlite.Store
	hold atomic.Pointer[chan struct{}]
	away atomic.Bool
}

func (g *gate) Sequences(ctx context.Context, tenant string, f eventstore.SequenceFilter, fn func(*ingest.Sequence) error) error {
	if hold := g.hold.Load(); hold != nil {
		select {
		case <-*hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if g.away.Load() {
		return fmt.Errorf("%w: connection refused", eventstore.ErrUnavailable)
	}
	return g.Store.Sequences(ctx, tenant, f, fn)
}

type bench struct {
	*loop.Loop
	gov       *governance.Service
	events    *gate
	record    *ingest.Recorder
	assembler *assembly.Assembler
	worked    int // sessions recorded so far
}

func newBench(t *testing.T) *bench { return newBenchWith(t, loop.Options{}) }

// newBenchWith takes the loop's settings and clock from o.
func newBenchWith(t *testing.T, o loop.Options) *bench {
	t.Helper()
	dir := t.TempDir()
	db, err := store.Open(ctx, filepath.Join(dir, "state.db"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	events, err := sqlite.Open(ctx, filepath.Join(dir, "events.db"), sqlite.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, events.Close()) })
	b := &bench{events: &gate{Store: events}, record: ingest.NewRecorder(events, ingest.RecorderOptions{})}
	t.Cleanup(func() { require.NoError(t, b.record.Close()) })
	b.gov = governance.New(governance.Options{Store: db, Check: runs.Check, Stats: events})
	b.assembler = assembly.New(events, assembly.Options{Assembled: func(tenant string, sessions int) { b.Assembled(tenant, sessions) }})
	o.Queue, o.Assembler, o.Events = b.gov, b.assembler, b.events
	b.Loop = loop.New(o)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b
}

// work records n sessions: a user names an e-mail address, the agent finds the user's id with it and reads the user
// with that id, each in a turn of its own, after which it answers. Every session has its own values.
func (b *bench) work(t *testing.T, n int) {
	t.Helper()
	var batch []ingest.Event
	add := func(session string, at time.Time, seq int64, e ingest.Event) {
		e.Origin, e.SessionID, e.Agent, e.Source, e.OriginKind = "session:"+session, session, "desk", "json", ingest.OriginAgent
		e.Start, e.Duration, e.Seq, e.HasSeq = at.Add(time.Duration(seq)*time.Second), 100*time.Millisecond, seq, true
		batch = append(batch, e)
	}
	llm := func() ingest.Event {
		return ingest.Event{Kind: ingest.KindLLMCall, LLM: &ingest.LLMCall{Model: "m", Count: 1, InputTokens: 500, OutputTokens: 20, CachedTokens: -1}}
	}
	call := func(turn int32, tool, args, result string) ingest.Event {
		return ingest.Event{Kind: ingest.KindToolCall, Turn: turn, HasTurn: true, Call: &ingest.ToolCall{Tool: tool, CallID: fmt.Sprintf("c%d", turn),
			Args: json.RawMessage(args), Result: json.RawMessage(result), Status: ingest.StatusOK}}
	}
	first := b.worked
	b.worked += n
	for i := first; i < first+n; i++ {
		id, at := fmt.Sprintf("s%03d", i), start.Add(time.Duration(i)*time.Hour)
		email, user := fmt.Sprintf("person%d@example.com", i), fmt.Sprintf("user_%d", 7000+13*i)
		add(id, at, 1, ingest.Event{Kind: ingest.KindUserMessage, User: &ingest.UserMessage{Text: "My address is " + email}})
		add(id, at, 2, llm())
		add(id, at, 3, call(0, "find_user", fmt.Sprintf(`{"email":%q}`, email), fmt.Sprintf(`{"user_id":%q}`, user)))
		add(id, at, 4, llm())
		add(id, at, 5, call(1, "get_user", fmt.Sprintf(`{"user_id":%q}`, user), fmt.Sprintf(`{"user_id":%q,"name":"Person %d","city":"City %d"}`, user, i, i%7)))
		add(id, at, 6, llm())
	}
	receipt, err := b.record.Record(ctx, tenant, batch)
	require.NoError(t, err)
	require.Equal(t, len(batch), receipt.Accepted)
}

func TestPassBringsWhatRepeatsIntoTheQueueOnce(t *testing.T) {
	b := newBench(t)
	b.work(t, 40)
	run, err := b.MineOnce(ctx, ann, governance.MiningRequest{})
	require.NoError(t, err)
	require.Equal(t, governance.MiningDone, run.State)
	require.Equal(t, 40, run.Result.Sessions)
	require.Equal(t, 80, run.Result.Calls)
	require.NotEmpty(t, run.Result.Patterns)
	require.Equal(t, []string{"find_user", "get_user"}, run.Result.Patterns[0].Tools)

	page, err := b.gov.Proposals(ctx, ann, governance.ProposalFilter{Source: "miner"})
	require.NoError(t, err)
	require.Len(t, page.Items, 1)
	p := page.Items[0]
	require.Equal(t, governance.MinerPrincipal, p.Author)
	require.Equal(t, []string{"find_user", "get_user"}, p.Unbound)
	require.Equal(t, "find_user", p.Flow.Steps[0].ToolName)
	require.Equal(t, "get_user", p.Flow.Steps[1].ToolName)
	source := p.Flow.Steps[1].InputMapping[0].Value
	require.Equal(t, flows.MapPointer, source.Kind)
	require.Equal(t, "/"+p.Flow.Steps[0].OutputAs+"/user_id", source.Ref)
	require.Equal(t, 40, p.Evidence.Pattern.Sessions)
	require.InDelta(t, 1, p.Savings.LLMCallsPerRun.Mean, 1e-9, "two turns become none but the one that starts it")

	inferred, err := b.gov.Tool(ctx, ann, "get_user")
	require.NoError(t, err)
	require.Equal(t, flows.ToolInferred, inferred.Tool.Origin)

	again, err := b.MineOnce(ctx, ann, governance.MiningRequest{})
	require.NoError(t, err)
	require.Zero(t, again.Report.Count(governance.OutcomeCreated))
	require.Equal(t, len(run.Report.Items), again.Report.Count(governance.OutcomeUnchanged))

	kept, err := b.gov.MiningRun(ctx, ann, run.ID)
	require.NoError(t, err)
	require.Equal(t, run.Report, kept.Report)
	require.Equal(t, run.Result.Patterns[0].Tools, kept.Result.Patterns[0].Tools)
	require.Equal(t, "person:ann", kept.By)
	newest, err := b.gov.MiningRun(ctx, ann, "")
	require.NoError(t, err)
	require.Equal(t, again.ID, newest.ID)
	all, err := b.gov.MiningRuns(ctx, ann, 0, "")
	require.NoError(t, err)
	require.Len(t, all.Items, 2)
	require.Nil(t, all.Items[0].Result)
	n, err := b.gov.VerifyAudit(ctx, admin)
	require.NoError(t, err)
	require.Positive(t, n)
}

func TestWindowAndThresholds(t *testing.T) {
	b := newBench(t)
	b.work(t, 40)
	run, err := b.MineOnce(ctx, ann, governance.MiningRequest{From: start, To: start.Add(10 * time.Hour)})
	require.NoError(t, err)
	require.Equal(t, 10, run.Result.Sessions)
	run, err = b.MineOnce(ctx, ann, governance.MiningRequest{MinSessions: 41})
	require.NoError(t, err)
	require.Empty(t, run.Result.Patterns)
}

func TestPassRefusals(t *testing.T) {
	b := newBench(t)
	for says, req := range map[string]governance.MiningRequest{
		"ends before": {From: start, To: start}, "2 to 16": {MaxLength: 17}, "1 or more": {MinSessions: -1},
	} {
		_, err := b.MineOnce(ctx, ann, req)
		require.Equal(t, flows.CodeInvalid, flows.CodeOf(err))
		require.ErrorContains(t, err, says)
	}
	_, err := b.MineOnce(ctx, governance.Actor{Principal: "person:x", Scopes: []governance.Scope{governance.ScopeRead}}, governance.MiningRequest{})
	require.Equal(t, flows.CodeForbidden, flows.CodeOf(err))
	_, err = b.gov.MiningRun(ctx, ann, "")
	require.Equal(t, flows.CodeNotFound, flows.CodeOf(err))
	run, err := b.MineOnce(ctx, ann, governance.MiningRequest{})
	require.NoError(t, err, "nothing recorded is no failure, and refused passes left the place free")
	require.Zero(t, run.Candidates)
}

func TestStoreAwayFailsThePassVisibly(t *testing.T) {
	b := newBench(t)
	b.events.away.Store(true)
	run, err := b.MineOnce(ctx, ann, governance.MiningRequest{})
	require.Equal(t, flows.CodeUnavailable, flows.CodeOf(err))
	require.Equal(t, governance.MiningFailed, run.State)
	kept, err := b.gov.MiningRun(ctx, ann, run.ID)
	require.NoError(t, err)
	require.Contains(t, kept.Error, "does not answer")
	require.False(t, kept.Ended.IsZero())
	b.events.away.Store(false)
	_, err = b.MineOnce(ctx, ann, governance.MiningRequest{})
	require.NoError(t, err)
}

func TestOnePassAtATimeAndCloseEndsIt(t *testing.T) {
	b := newBench(t)
	b.work(t, 5)
	hold := make(chan struct{})
	b.events.hold.Store(&hold)
	run, err := b.Begin(ctx, ann, governance.MiningRequest{})
	require.NoError(t, err)
	require.NotEmpty(t, run.ID)
	_, err = b.MineOnce(ctx, ann, governance.MiningRequest{})
	require.Equal(t, flows.CodeConflict, flows.CodeOf(err))
	now, err := b.gov.MiningRun(ctx, ann, run.ID)
	require.NoError(t, err)
	require.Equal(t, governance.MiningRunning, now.State)

	require.NoError(t, b.Close())
	now, err = b.gov.MiningRun(ctx, ann, run.ID)
	require.NoError(t, err)
	require.Equal(t, governance.MiningFailed, now.State)
	require.Equal(t, "the pass was cancelled", now.Error)
}

func TestStartMarksWhatAnEarlierProcessLeft(t *testing.T) {
	b := newBench(t)
	left := &governance.MiningRun{State: governance.MiningRunning}
	require.NoError(t, b.gov.PutMiningRun(ctx, ann, left))
	require.NoError(t, b.gov.Start(ctx, tenant))
	now, err := b.gov.MiningRun(ctx, ann, left.ID)
	require.NoError(t, err)
	require.Equal(t, governance.MiningInterrupted, now.State)
}

// One tool whose name no tool file could hold costs its own patterns, not the pass.
func TestPassWithNamesThatCannotBeDeclared(t *testing.T) {
	b := newBench(t)
	b.work(t, 40)
	var batch []ingest.Event
	for i := range 40 {
		session := fmt.Sprintf("odd%d", i)
		for n, name := range []string{"server:find it", "server:read it"} {
			batch = append(batch, ingest.Event{Kind: ingest.KindToolCall, Origin: "session:" + session, SessionID: session, Source: "json",
				OriginKind: ingest.OriginAgent, Start: start.Add(time.Duration(n) * time.Second), Turn: int32(n), HasTurn: true,
				Call: &ingest.ToolCall{Tool: name, CallID: fmt.Sprintf("c%d", n), Args: json.RawMessage(fmt.Sprintf(`{"id":"thing-%d"}`, i)),
					Result: json.RawMessage(fmt.Sprintf(`{"id":"thing-%d"}`, i)), Status: ingest.StatusOK}})
		}
	}
	_, err := b.record.Record(ctx, tenant, batch)
	require.NoError(t, err)
	run, err := b.MineOnce(ctx, ann, governance.MiningRequest{})
	require.NoError(t, err)
	require.Len(t, run.Result.Patterns, 2)
	require.Equal(t, 1, run.Candidates)
	require.Len(t, run.Dropped, 1)
	require.Contains(t, run.Dropped[0].Reason, `"server:find it"`)
	_, err = b.gov.Tool(ctx, ann, "find_user")
	require.NoError(t, err)
}

// TestDeletedSessionsDoNotComeBack: a pass that goes on from an earlier one brings back nothing of sessions that were
// deleted in between.
func TestDeletedSessionsDoNotComeBack(t *testing.T) {
	b := newBenchWith(t, loop.Options{Settings: loop.Settings{FullBelow: 1}})
	b.work(t, 40)
	_, err := b.MineOnce(ctx, ann, governance.MiningRequest{})
	require.NoError(t, err)
	page, err := b.gov.Proposals(ctx, ann, governance.ProposalFilter{})
	require.NoError(t, err)
	before := page.Items[0].Evidence.Pattern
	cited := before.Examples[0].SessionID
	b.Deleted([]string{cited})
	b.work(t, 3)
	run, err := b.MineOnce(ctx, ann, governance.MiningRequest{Incremental: true})
	require.NoError(t, err)
	require.Equal(t, governance.ModeIncremental, run.Mode, "it went on from the pass before")
	page, err = b.gov.Proposals(ctx, ann, governance.ProposalFilter{})
	require.NoError(t, err)
	raw, err := json.Marshal(page.Items[0].Evidence)
	require.NoError(t, err)
	require.NotContains(t, string(raw), `"`+cited+`"`)
	require.NotEmpty(t, page.Items[0].Evidence.Pattern.Examples, "others stay")
}
