package governance_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"pave/analyzer"
	"pave/flows"
	"pave/governance"
	"pave/governance/runs"
	"pave/governance/store"
	"pave/observer"
)

// TestMain runs fewer random cases than rapid's default, because every command of one is a durable transaction;
// give -rapid.checks for more.
func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "rapid.checks" })
	if !given {
		_ = flag.Set("rapid.checks", "30") // rapid defines it
	}
	goleak.VerifyTestMain(m)
}

var (
	ctx   = context.Background()
	start = time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)

	admin = actor("local:root", governance.ScopeAdmin)
	miner = actor(governance.MinerPrincipal, governance.ScopePropose)
	alice = actor("person:alice", governance.ScopeRead, governance.ScopePropose, governance.ScopeReview, governance.ScopePromote)
	bob   = actor("person:bob", governance.ScopeRead, governance.ScopeReview, governance.ScopePromote)
	carol = actor("person:carol", governance.ScopeRead, governance.ScopeReview)
	ci    = actor("service:ci", governance.ScopeRun, governance.ScopeRead)
)

func actor(principal string, scopes ...governance.Scope) governance.Actor {
	return governance.Actor{Tenant: "default", Principal: principal, Scopes: scopes}
}

// clock moves a second with each reading, so that every event has its own time.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(time.Second)
	return c.at
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

type bench struct {
	*governance.Service
	db    *store.DB
	clock *clock
	admin governance.Actor
	t     require.TestingT
}

func open(t testing.TB, dir string, change func(*governance.Options)) *bench {
	t.Helper()
	db, err := store.Open(ctx, filepath.Join(dir, "state.db"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	c := &clock{at: start}
	var n int
	var mu sync.Mutex
	opts := governance.Options{Store: db, Check: runs.Check, Now: c.now, NewID: func() string {
		mu.Lock()
		defer mu.Unlock()
		n++
		return fmt.Sprintf("id%04d", n)
	}}
	if change != nil {
		change(&opts)
	}
	return &bench{Service: governance.New(opts), db: db, clock: c, admin: admin, t: t}
}

func newBench(t testing.TB) *bench { return open(t, t.TempDir(), nil) }

// tool is a bound tool with a text input and a text output of the given names.
func tool(name, in, out string, effects flows.SideEffects) *flows.Tool {
	t := &flows.Tool{
		Name: name, Description: name, Origin: flows.ToolDeclared,
		InputSchema:  raw(`{"type":"object","properties":{%q:{"type":"string"}},"required":[%q]}`, in, in),
		OutputSchema: raw(`{"type":"object","properties":{%q:{"type":"string"}},"required":[%q]}`, out, out),
		Binding:      &flows.Binding{Kind: "local", Local: name},
	}
	if effects != "" {
		t.Safety = &flows.SafetyContract{SideEffects: effects, Stability: "stable", DeterminismLevel: "full", Idempotent: true,
			Cacheable: true, SafeToRetry: true, Source: "declared"}
	}
	return t
}

func raw(format string, args ...any) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(format, args...))
}

// findUser and getUser are the two tools of the standard candidate.
func findUser() *flows.Tool { return tool("find_user", "email", "user_id", flows.EffectRead) }
func getUser() *flows.Tool  { return tool("get_user", "user_id", "name", flows.EffectRead) }

func userFlow(name string) *flows.Flow {
	return &flows.Flow{
		FormatVersion: flows.FormatVersion11, Type: flows.TypeFlow, Name: name, Version: "0.1.0", Description: "Look up a user by e-mail.",
		InputSchema:        raw(`{"type":"object","properties":{"email":{"type":"string"}},"required":["email"]}`),
		OnContextCollision: flows.CollisionError, OnFailure: flows.OnFailureHandBack, Status: flows.StatusNeedsReview,
		Governance: &flows.Governance{Lifecycle: flows.LifecycleSuggested},
		Steps: []flows.Step{
			{ToolName: "find_user", InputMapping: flows.Mapping{{Target: "email", Value: flows.Key("email")}}, OutputAs: "found"},
			{ToolName: "get_user", InputMapping: flows.Mapping{{Target: "user_id", Value: flows.Pointer("/found/user_id")}}, OutputAs: "user"},
		},
	}
}

// candidate is a mined candidate for the flow with support from so many sessions and exactness in percent.
func candidate(flow *flows.Flow, key string, sessions, exact int) analyzer.Candidate {
	return analyzer.Candidate{
		Source: analyzer.SourceMiner, Flow: flow, Digest: flows.Digest(flow), PatternKey: key, Score: float64(sessions),
		Evidence: analyzer.Evidence{Pattern: &observer.Pattern{Tools: []string{"find_user", "get_user"}, Occurrences: sessions, Sessions: sessions,
			DataFlow: &observer.DataFlow{Sampled: 100, Explained: exact}}},
		Savings: analyzer.Savings{Occurrences: sessions, LLMCallsPerRun: analyzer.Interval{Mean: 1.5, Low: 1, High: 2, Known: sessions},
			Basis: "mean of recorded turns"},
	}
}

func (b *bench) apply(tools ...*flows.Tool) governance.ApplyReport {
	report, err := b.ApplyTools(ctx, b.admin, tools)
	require.NoError(b.t, err)
	return report
}

func (b *bench) propose(cands ...analyzer.Candidate) governance.ProposeReport {
	report, err := b.Propose(ctx, miner, cands)
	require.NoError(b.t, err)
	return report
}

// one proposes a single candidate and returns its item.
func (b *bench) one(c analyzer.Candidate) governance.ProposeItem {
	return b.propose(c).Items[0]
}

func (b *bench) get(ref string) *governance.Proposal {
	p, err := b.Proposal(ctx, b.admin, ref)
	require.NoError(b.t, err)
	return p
}

func (b *bench) review(who governance.Actor, ref string, v governance.Verdict) (*governance.Proposal, error) {
	return b.Review(ctx, who, ref, governance.ReviewRequest{Verdict: v, Digest: b.get(ref).Digest, Comment: "because"})
}

func (b *bench) approve(ref string, who ...governance.Actor) {
	for _, a := range who {
		_, err := b.review(a, ref, governance.VerdictApprove)
		require.NoError(b.t, err)
	}
}

// promoted brings the standard flow all the way and returns its version.
func (b *bench) promoted() *governance.FlowVersion {
	b.apply(findUser(), getUser())
	item := b.one(candidate(userFlow("user_by_email"), "k1", 10, 100))
	b.approve(item.ProposalID, bob)
	v, err := b.Promote(ctx, bob, item.ProposalID, governance.PromoteRequest{})
	require.NoError(b.t, err)
	return v
}

func (b *bench) actions() []string {
	var out []string
	events, err := b.Audit(ctx, b.admin, 0, 500)
	require.NoError(b.t, err)
	for _, e := range events {
		out = append(out, e.Action)
	}
	n, err := b.VerifyAudit(ctx, b.admin)
	require.NoError(b.t, err)
	require.EqualValues(b.t, len(events), n)
	return out
}

func refused(t require.TestingT, code flows.Code, err error, says string) {
	require.Error(t, err)
	require.Equal(t, code, flows.CodeOf(err), "%v", err)
	require.ErrorContains(t, err, says)
}
