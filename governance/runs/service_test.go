package runs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"pave/analyzer"
	"pave/executor"
	"pave/executor/bind/local"
	"pave/flows"
	"pave/governance"
	"pave/governance/runs"
	"pave/governance/store"
	"pave/ingest"
	eventstore "pave/ingest/store"
	"pave/ingest/store/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	ctx   = context.Background()
	admin = governance.Actor{Principal: "local:root", Scopes: []governance.Scope{governance.ScopeAdmin}}
	ci    = governance.Actor{Principal: "service:ci", Scopes: []governance.Scope{governance.ScopeRun, governance.ScopeRead}}
	bob   = governance.Actor{Principal: "person:bob", Scopes: []governance.Scope{governance.ScopeReview, governance.ScopePromote}}
	input = map[string]any{"email": "ann@example.com", "api_key": "s3cret-value"}
)

const tenant = ingest.DefaultTenant

// flakyArchive is the event store with a switch that makes it be away, as a network can.
type flakyArchive struct {
	*sqlite.Store
	away atomic.Bool
}

func (a *flakyArchive) PutRun(ctx context.Context, tenant string, run eventstore.Run) error {
	if a.away.Load() {
		return eventstore.ErrUnavailable
	}
	return a.Store.PutRun(ctx, tenant, run)
}

type bench struct {
	*runs.Service
	dir    string
	opts   runs.Options
	gov    *governance.Service
	db     *store.DB
	events *flakyArchive
	tools  *local.Registry
	calls  atomic.Int64 // of get_user
}

func newBench(t testing.TB, change func(*runs.Options)) *bench {
	t.Helper()
	b := &bench{dir: t.TempDir(), tools: local.New()}
	var err error
	b.db, err = store.Open(ctx, filepath.Join(b.dir, "state.db"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.db.Close()) })
	events, err := sqlite.Open(ctx, filepath.Join(b.dir, "events.db"), sqlite.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, events.Close()) })
	b.events = &flakyArchive{Store: events}
	recorder := ingest.NewRecorder(events, ingest.RecorderOptions{})
	t.Cleanup(func() { require.NoError(t, recorder.Close()) })

	b.tools.Register("find_user", func(_ context.Context, in map[string]any) (any, error) {
		return map[string]any{"user_id": fmt.Sprintf("u-%v", in["email"]), "token": "tok-12345"}, nil
	}, true)
	b.tools.Register("get_user", func(_ context.Context, in map[string]any) (any, error) {
		b.calls.Add(1)
		return map[string]any{"name": fmt.Sprintf("name of %v", in["user_id"])}, nil
	}, true)
	b.gov = governance.New(governance.Options{Store: b.db, Check: runs.Check, Stats: events})
	vault, err := runs.NewVault(bytes.Repeat([]byte{7}, runs.VaultKeySize))
	require.NoError(t, err)
	opts := runs.Options{Vault: vault, Gate: b.gov, Catalogue: b.gov, Store: b.db, Outbox: b.gov, Archive: b.events, Recorder: recorder,
		Engine: executor.Options{Invoker: executor.NewMux(map[string]executor.Invoker{local.Kind: b.tools}), NewID: uuid.NewString}}
	if change != nil {
		change(&opts)
	}
	b.opts = opts
	b.Service = runs.New(opts)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	b.promote(t)
	return b
}

// restart lets the service end and another one take its place, over the same store.
func (b *bench) restart(t testing.TB) {
	t.Helper()
	require.NoError(t, b.Close())
	b.Service = runs.New(b.opts)
	_, err := b.Start(ctx, tenant)
	require.NoError(t, err)
}

func tool(name string, in, out string) *flows.Tool {
	return &flows.Tool{Name: name, Description: name, InputSchema: flows.RawSchema(in), OutputSchema: flows.RawSchema(out),
		Binding: &flows.Binding{Kind: "local", Local: name}, Safety: &flows.SafetyContract{SideEffects: flows.EffectRead, Stability: "stable",
			DeterminismLevel: "full", Idempotent: true, Cacheable: true, SafeToRetry: true, Source: "declared"}}
}

func findUser() *flows.Tool {
	return tool("find_user", `{"type":"object","properties":{"email":{"type":"string"}},"required":["email"]}`,
		`{"type":"object","properties":{"user_id":{"type":"string"},"token":{"type":"string"}},"required":["user_id"]}`)
}

func getUser() *flows.Tool {
	return tool("get_user", `{"type":"object","properties":{"user_id":{"type":"string"}},"required":["user_id"]}`,
		`{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`)
}

func userFlow() *flows.Flow {
	return &flows.Flow{FormatVersion: flows.FormatVersion11, Type: flows.TypeFlow, Name: "user_by_email", Version: "0.1.0", Description: "Look up a user.",
		InputSchema:        flows.RawSchema(`{"type":"object","properties":{"email":{"type":"string"},"api_key":{"type":"string"}},"required":["email"]}`),
		OnContextCollision: flows.CollisionError, OnFailure: flows.OnFailureHandBack, Status: flows.StatusNeedsReview,
		Steps: []flows.Step{
			{ToolName: "find_user", InputMapping: flows.Mapping{{Target: "email", Value: flows.Key("email")}}, OutputAs: "found"},
			{ToolName: "get_user", InputMapping: flows.Mapping{{Target: "user_id", Value: flows.Pointer("/found/user_id")}}, OutputAs: "user"},
		},
		Returns: flows.Mapping{{Target: "name", Value: flows.Pointer("/user/name")}},
	}
}

// promote brings the standard flow into service with recorded savings of 1.5 model calls (1 to 2) a run.
func (b *bench) promote(t testing.TB) {
	t.Helper()
	_, err := b.gov.ApplyTools(ctx, admin, []*flows.Tool{findUser(), getUser()})
	require.NoError(t, err)
	flow := userFlow()
	report, err := b.gov.Propose(ctx, admin, []analyzer.Candidate{{Source: analyzer.SourceMiner, Flow: flow, Digest: flows.Digest(flow), PatternKey: "k",
		Savings: analyzer.Savings{
			LLMCallsPerRun: analyzer.Interval{Mean: 1.5, Low: 1, High: 2, Known: 10}, TokensPerRun: analyzer.Interval{Mean: 900, Low: 600, High: 1200, Known: 10},
			LatencyMSPerRun: analyzer.Interval{Mean: 2000, Low: 1500, High: 2500, Known: 10}, Basis: "recorded turns"}}})
	require.NoError(t, err)
	id := report.Items[0].ProposalID
	_, err = b.gov.Review(ctx, bob, id, governance.ReviewRequest{Verdict: governance.VerdictApprove, Digest: flows.Digest(flow)})
	require.NoError(t, err)
	_, err = b.gov.Promote(ctx, bob, id, governance.PromoteRequest{})
	require.NoError(t, err)
}

func refused(t *testing.T, code flows.Code, err error, says string) {
	t.Helper()
	require.Error(t, err)
	require.Equal(t, code, flows.CodeOf(err), "%v", err)
	require.ErrorContains(t, err, says)
}

func TestRunIsExecutedKeptArchivedAndRecorded(t *testing.T) {
	b := newBench(t, nil)
	run, err := b.Run(ctx, ci, runs.Request{Flow: "user_by_email", Input: input})
	require.NoError(t, err)
	require.Equal(t, executor.StatusSucceeded, run.State)
	require.Equal(t, map[string]any{"name": "name of u-ann@example.com"}, run.Result.FinalOutput)
	require.Equal(t, "s3cret-value", run.Result.InitialInput["api_key"], "the caller gets true values")
	require.Equal(t, runs.Avoided{LLMCalls: 1.5, Tokens: 900, Latency: 2 * time.Second}, run.Avoided)

	kept, err := b.Get(ctx, ci, run.ID)
	require.NoError(t, err)
	require.Equal(t, run.Avoided, kept.Avoided)
	require.Equal(t, "1.0.0", kept.Version)
	require.Len(t, kept.Result.ExecutionLog, 2)
	require.Contains(t, kept.Result.InitialInput["api_key"], "redacted")
	require.Equal(t, "ann@example.com", kept.Result.InitialInput["email"])

	archived, err := b.events.Runs(ctx, tenant, eventstore.RunFilter{ID: run.ID})
	require.NoError(t, err)
	require.Len(t, archived.Items, 1)
	a := archived.Items[0]
	require.Equal(t, []any{"succeeded", "service:ci", 2, 2, 1.5, 900.0, 2 * time.Second},
		[]any{a.Status, a.Caller, a.Steps, a.StepsDone, a.LLMCallsAvoided, a.TokensAvoided, a.LatencyAvoided})

	var calls []ingest.Event
	require.NoError(t, b.events.Events(ctx, tenant, []string{"flow-run:" + run.ID}, func(_ string, events []ingest.Event) error {
		calls = append(calls, events...)
		return nil
	}))
	require.Len(t, calls, 2)
	require.Equal(t, "find_user", calls[0].Call.Tool)
	require.Equal(t, ingest.OriginFlow, calls[0].OriginKind)
	require.JSONEq(t, `{"email":"ann@example.com"}`, string(calls[0].Call.Args))
	require.Equal(t, "get_user", calls[1].Call.Tool)
	require.JSONEq(t, `{"name":"name of u-ann@example.com"}`, string(calls[1].Call.Result))
	require.Equal(t, ingest.StatusOK, calls[1].Call.Status)

	for _, file := range []string{"state.db", "state.db-wal", "events.db", "events.db-wal"} {
		content, err := os.ReadFile(filepath.Join(b.dir, file))
		require.NoError(t, err)
		require.False(t, bytes.Contains(content, []byte("s3cret-value")), file)
		require.False(t, bytes.Contains(content, []byte("tok-12345")), file)
	}
}

func TestRunRefusals(t *testing.T) {
	b := newBench(t, nil)
	nobody := governance.Actor{Principal: "person:x", Scopes: []governance.Scope{governance.ScopeIngest}}
	_, err := b.Run(ctx, nobody, runs.Request{Flow: "user_by_email"})
	refused(t, flows.CodeForbidden, err, "run")
	_, err = b.Run(ctx, ci, runs.Request{Flow: "nothing"})
	refused(t, flows.CodeNotFound, err, "nothing")
	_, err = b.Run(ctx, ci, runs.Request{Flow: "user_by_email", Version: "7.0.0"})
	refused(t, flows.CodeNotFound, err, "7.0.0")
	_, err = b.Get(ctx, ci, "none")
	refused(t, flows.CodeNotFound, err, "none")
	_, err = b.Get(ctx, nobody, "none")
	refused(t, flows.CodeForbidden, err, "read")
	_, err = b.List(ctx, nobody, runs.Filter{})
	refused(t, flows.CodeForbidden, err, "read")
	_, err = b.List(ctx, ci, runs.Filter{Cursor: "x"})
	refused(t, flows.CodeInvalid, err, "cursor")

	wider := getUser()
	wider.OutputSchema = flows.RawSchema(`{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"}},"required":["name"]}`)
	_, err = b.gov.ApplyTools(ctx, admin, []*flows.Tool{wider})
	require.NoError(t, err)
	_, err = b.Run(ctx, ci, runs.Request{Flow: "user_by_email", Input: input})
	refused(t, flows.CodeFlowStatus, err, "needs_review")
	page, err := b.List(ctx, ci, runs.Filter{})
	require.NoError(t, err)
	require.Empty(t, page.Items, "what was refused is no run")
}

func TestFailedAndHandedBackRunsSaveOnlyWhatTheyDid(t *testing.T) {
	b := newBench(t, nil)
	b.tools.Register("get_user", func(context.Context, map[string]any) (any, error) {
		return nil, &executor.ToolError{Class: executor.ClassIO, Message: "the desk is closed"}
	}, true)
	run, err := b.Run(ctx, ci, runs.Request{Flow: "user_by_email", Input: input})
	require.NoError(t, err)
	require.Equal(t, executor.StatusHandedBack, run.State)
	require.Equal(t, "get_user", run.Result.HandBack.ToolName)
	require.Zero(t, run.Avoided, "one finished step of two spares no turn")

	run, err = b.Run(ctx, ci, runs.Request{Flow: "user_by_email", Input: map[string]any{"email": 7}})
	require.NoError(t, err)
	require.NotEqual(t, executor.StatusSucceeded, run.State)
	require.Zero(t, run.Avoided)

	var failed []ingest.Event
	page, err := b.List(ctx, ci, runs.Filter{})
	require.NoError(t, err)
	require.Len(t, page.Items, 2)
	require.Equal(t, run.ID, page.Items[0].ID, "newest first")
	require.Nil(t, page.Items[0].Result)
	for _, item := range page.Items {
		require.NoError(t, b.events.Events(ctx, tenant, []string{"flow-run:" + item.ID}, func(_ string, events []ingest.Event) error {
			failed = append(failed, events...)
			return nil
		}))
	}
	require.Len(t, failed, 2, "the run with the bad input called nothing")
	require.Equal(t, ingest.StatusError, failed[1].Call.Status)
	require.Equal(t, "the desk is closed", failed[1].Call.Error)
}

func TestIdempotencyKey(t *testing.T) {
	b := newBench(t, nil)
	req := runs.Request{Flow: "user_by_email", Input: map[string]any{"email": "a@b.c"}, IdempotencyKey: "k1"}
	first, err := b.Run(ctx, ci, req)
	require.NoError(t, err)
	again, err := b.Run(ctx, ci, req)
	require.NoError(t, err)
	require.True(t, again.Replayed)
	require.Equal(t, first.ID, again.ID)
	require.Equal(t, first.Result.FinalOutput, again.Result.FinalOutput)
	require.EqualValues(t, 1, b.calls.Load())

	other := req
	other.Input = map[string]any{"email": "x@y.z"}
	_, err = b.Run(ctx, ci, other)
	refused(t, flows.CodeIdempotencyReuse, err, "new key")
	someoneElse := ci
	someoneElse.Principal = "service:other"
	run, err := b.Run(ctx, someoneElse, other)
	require.NoError(t, err)
	require.False(t, run.Replayed, "keys are the principal's own")

	_, err = b.gov.SetFlowStatus(ctx, bob, "user_by_email", "1.0.0", governance.StatusRequest{Status: flows.StatusDisabled})
	require.NoError(t, err)
	again, err = b.Run(ctx, ci, req)
	require.NoError(t, err)
	require.Equal(t, first.ID, again.ID, "the first answer stands")
}

func TestSameKeyAtOnceRunsOnceAndLimitIsKept(t *testing.T) {
	b := newBench(t, func(o *runs.Options) { o.MaxConcurrent = 1 })
	entered, release := make(chan struct{}), make(chan struct{})
	b.tools.Register("get_user", func(context.Context, map[string]any) (any, error) {
		b.calls.Add(1)
		entered <- struct{}{}
		<-release
		return map[string]any{"name": "n"}, nil
	}, true)
	req := runs.Request{Flow: "user_by_email", Input: map[string]any{"email": "a@b.c"}, IdempotencyKey: "k"}
	var wg sync.WaitGroup
	var first *runs.Run
	var firstErr error
	wg.Go(func() { first, firstErr = b.Run(ctx, ci, req) })
	<-entered
	_, err := b.Run(ctx, ci, req)
	refused(t, flows.CodeInProgress, err, "still running")
	_, err = b.Run(ctx, ci, runs.Request{Flow: "user_by_email", Input: input})
	refused(t, flows.CodeFull, err, "retry later")
	after, ok := ingest.RetryAfter(err)
	require.True(t, ok)
	require.Equal(t, time.Second, after)
	close(release)
	wg.Wait()
	require.NoError(t, firstErr)
	require.Equal(t, executor.StatusSucceeded, first.State)
	require.EqualValues(t, 1, b.calls.Load())
}

func TestCrashLeavesAnInterruptedRun(t *testing.T) {
	b := newBench(t, nil)
	// What a process that died in the middle of a run leaves behind.
	require.NoError(t, b.db.Update(ctx, func(tx *store.Tx) error {
		return tx.InsertRun(tenant, store.RunRow{ID: "dead", Flow: "user_by_email", Version: "1.0.0", State: runs.StateRunning, Caller: "service:ci",
			Started: time.Now(), Body: []byte(`{}`)})
	}))
	n, err := b.Start(ctx, tenant)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	run, err := b.Get(ctx, ci, "dead")
	require.NoError(t, err)
	require.Equal(t, runs.StateInterrupted, run.State)
	require.False(t, run.Ended.IsZero())
	require.Nil(t, run.Result)
	archived, err := b.events.Runs(ctx, tenant, eventstore.RunFilter{ID: "dead"})
	require.NoError(t, err)
	require.Equal(t, runs.StateInterrupted, archived.Items[0].Status)
	n, err = b.Start(ctx, tenant)
	require.NoError(t, err)
	require.Zero(t, n)
}

func TestArchiveAwayLosesNothing(t *testing.T) {
	b := newBench(t, nil)
	b.events.away.Store(true)
	for range 3 {
		run, err := b.Run(ctx, ci, runs.Request{Flow: "user_by_email", Input: input})
		require.NoError(t, err)
		require.Equal(t, executor.StatusSucceeded, run.State)
	}
	stats, err := b.events.RunStats(ctx, tenant, time.Time{}, time.Time{})
	require.NoError(t, err)
	require.Empty(t, stats)
	b.events.away.Store(false)
	_, err = b.Run(ctx, ci, runs.Request{Flow: "user_by_email", Input: input})
	require.NoError(t, err)
	stats, err = b.events.RunStats(ctx, tenant, time.Time{}, time.Time{})
	require.NoError(t, err)
	require.EqualValues(t, 4, stats[0].Runs, "the next run takes the earlier ones along")
}

func TestDryRunSavesAndArchivesNothing(t *testing.T) {
	b := newBench(t, nil)
	run, err := b.Run(ctx, ci, runs.Request{Flow: "user_by_email", Input: input, DryRun: true})
	require.NoError(t, err)
	require.True(t, run.DryRun)
	require.Zero(t, run.Avoided)
	archived, err := b.events.Runs(ctx, tenant, eventstore.RunFilter{})
	require.NoError(t, err)
	require.Empty(t, archived.Items)
	kept, err := b.Get(ctx, ci, run.ID)
	require.NoError(t, err)
	require.True(t, kept.DryRun)
}

func TestCancelledRunIsKept(t *testing.T) {
	b := newBench(t, nil)
	cancelled, cancel := context.WithCancel(ctx)
	b.tools.Register("get_user", func(ctx context.Context, _ map[string]any) (any, error) {
		cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	}, true)
	run, err := b.Run(cancelled, ci, runs.Request{Flow: "user_by_email", Input: input})
	require.NoError(t, err)
	require.Equal(t, executor.StatusCancelled, run.State)
	kept, err := b.Get(ctx, ci, run.ID)
	require.NoError(t, err)
	require.Equal(t, executor.StatusCancelled, kept.State)
}

func TestSavingsReportFromRealRuns(t *testing.T) {
	b := newBench(t, nil)
	for range 4 {
		_, err := b.Run(ctx, ci, runs.Request{Flow: "user_by_email", Input: input})
		require.NoError(t, err)
	}
	b.tools.Register("get_user", func(context.Context, map[string]any) (any, error) { return nil, errors.New("down") }, true)
	_, err := b.Run(ctx, ci, runs.Request{Flow: "user_by_email", Input: input})
	require.NoError(t, err)

	report, err := b.gov.Savings(ctx, ci, time.Time{}, time.Time{})
	require.NoError(t, err)
	require.Len(t, report.Flows, 1)
	f := report.Flows[0]
	require.Equal(t, []int64{5, 4, 0, 1}, []int64{f.Runs, f.Succeeded, f.Failed, f.HandedBack})
	// 4 successful runs at 1.5 model calls (1 to 2), 900 tokens (600 to 1200), 2 s (1.5 to 2.5).
	require.Equal(t, governance.Figure{Mean: 6, Low: 4, High: 8, Known: true}, f.LLMCalls)
	require.Equal(t, governance.Figure{Mean: 3600, Low: 2400, High: 4800, Known: true}, f.Tokens)
	require.Equal(t, governance.Figure{Mean: 8000, Low: 6000, High: 10000, Known: true}, f.LatencyMS)
	require.Equal(t, governance.Figure{}, f.CostUSD, "no cost was recorded, so none is claimed")
	require.Equal(t, "recorded turns", f.Basis)
	// The profile: one call a run with two finished steps, none with one: 4 calls, 4*300 ms, 4*750 tokens, 4*0.03 USD.
	require.Equal(t, "estimate", f.Estimate.Label)
	require.EqualValues(t, 4, f.Estimate.LLMCalls)
	require.InDelta(t, 1200, f.Estimate.LatencyMS, 1e-9)
	require.InDelta(t, 3000, f.Estimate.Tokens, 1e-9)
	require.InDelta(t, 0.12, f.Estimate.CostUSD, 1e-9)
	require.Equal(t, f.LLMCalls, report.Total.LLMCalls)
	require.Nil(t, report.Repeats)

	later, err := b.gov.Savings(ctx, ci, time.Now().Add(time.Hour), time.Time{})
	require.NoError(t, err)
	require.Empty(t, later.Flows)
	_, err = b.gov.Savings(ctx, governance.Actor{Principal: "person:x"}, time.Time{}, time.Time{})
	refused(t, flows.CodeForbidden, err, "read")
}

func TestPlanFollowsTheTools(t *testing.T) {
	b := newBench(t, nil)
	_, err := b.Run(ctx, ci, runs.Request{Flow: "user_by_email", Input: input})
	require.NoError(t, err)
	b.tools.Register("get_user_v2", func(context.Context, map[string]any) (any, error) { return map[string]any{"name": "v2"}, nil }, true)
	rebound := getUser()
	rebound.Binding.Local = "get_user_v2"
	_, err = b.gov.ApplyTools(ctx, admin, []*flows.Tool{rebound})
	require.NoError(t, err)
	run, err := b.Run(ctx, ci, runs.Request{Flow: "user_by_email", Input: input})
	require.NoError(t, err)
	require.Equal(t, map[string]any{"name": "v2"}, run.Result.FinalOutput, "a new binding is used at once")
}

func TestConcurrentRunsDoNotMix(t *testing.T) {
	b := newBench(t, nil)
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			email := fmt.Sprintf("user%d@example.com", i)
			run, err := b.Run(ctx, ci, runs.Request{Flow: "user_by_email", Input: map[string]any{"email": email}})
			if err != nil {
				t.Error(err)
				return
			}
			if got, want := run.Result.FinalOutput["name"], "name of u-"+email; got != want {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
	wg.Wait()
	stats, err := b.events.RunStats(ctx, tenant, time.Time{}, time.Time{})
	require.NoError(t, err)
	require.EqualValues(t, 40, stats[0].Succeeded)
	raw, err := json.Marshal(stats[0].LLMCallsAvoided)
	require.NoError(t, err)
	require.Equal(t, "60", string(raw))
}
