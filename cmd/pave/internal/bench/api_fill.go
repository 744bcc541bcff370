package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"pave/analyzer"
	"pave/flows"
	"pave/governance"
	"pave/governance/runs"
	statestore "pave/governance/store"
	"pave/ingest"
	"pave/ingest/store"
	"pave/ingest/store/clickhouse"
	"pave/ingest/store/sqlite"
	"pave/observer"
)

// installation is a data directory as a year of use leaves it.
type installation struct {
	dir, dsn         string
	calls, proposals int
	note             func(format string, args ...any)
}

const (
	sessionCalls    = 20  // of a session
	callsPerRun     = 100 // recorded calls for each run of a flow
	filledDays      = 365
	filledFlows     = 40
	filledTools     = 50
	callsPerDrift   = 100_000 // recorded calls for each time that a tool drifted
	exampleSessions = 8       // that the evidence of a mapping names
)

var (
	filledFrom = time.Date(2025, 11, 1, 0, 0, 0, 0, time.UTC)
	benchActor = governance.Actor{Tenant: ingest.DefaultTenant, Principal: "local:bench", Scopes: governance.AllScopes}
)

func (in installation) sessions() int { return max(1, in.calls/sessionCalls) }
func (in installation) runs() int     { return max(1, in.calls/callsPerRun) }

// at is the start of number i of n things that are spread evenly.
func at(i, n int) time.Time {
	return filledFrom.Add(time.Duration(float64(i) / float64(n) * float64(filledDays*24*time.Hour)))
}

// ensure fills the directory unless it was filled so before.
func (in installation) ensure(ctx context.Context) error {
	want := fmt.Sprintf("%d calls, %d proposals, ClickHouse %t\n", in.calls, in.proposals, in.dsn != "")
	filled := filepath.Join(in.dir, "filled")
	switch have, err := os.ReadFile(filled); {
	case err == nil && string(have) == want:
		in.note("as it was filled before: %s", strings.TrimSpace(want))
		return nil
	case err == nil:
		return fmt.Errorf("%s holds %s; remove it, or ask for as many", in.dir, strings.TrimSpace(string(have)))
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if left, err := os.ReadDir(in.dir); err == nil && len(left) > 0 {
		return fmt.Errorf("%s was not filled to the end; remove it", in.dir)
	}
	if err := in.fill(ctx); err != nil {
		return fmt.Errorf("fill the installation: %w", err)
	}
	return os.WriteFile(filled, []byte(want), 0o600)
}

// fill makes the stores of the directory and what is in them.
func (in installation) fill(ctx context.Context) error {
	if err := os.MkdirAll(in.dir, 0o700); err != nil {
		return err
	}
	return errors.Join(in.fillEvents(ctx), in.fillState(ctx))
}

func (in installation) fillEvents(ctx context.Context) (err error) {
	var db store.Store
	if in.dsn == "" {
		db, err = sqlite.Open(ctx, filepath.Join(in.dir, "events.db"), sqlite.Options{})
	} else {
		db, err = clickhouse.Open(ctx, clickhouse.Config{DSN: in.dsn, SpoolPath: filepath.Join(in.dir, "spool.db")})
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	in.note("recording %d sessions of %d calls", in.sessions(), sessionCalls)
	random := rand.New(rand.NewPCG(1, 2))
	for first := 0; first < in.sessions(); first += fillBatch {
		rows := make([]store.SessionRow, 0, fillBatch)
		for i := first; i < min(first+fillBatch, in.sessions()); i++ {
			rows = append(rows, in.session(random, i))
		}
		if err := db.PutSessions(ctx, ingest.DefaultTenant, rows); err != nil {
			return err
		}
	}
	in.note("archiving %d runs", in.runs())
	return in.archive(ctx, db)
}

func (in installation) session(random *rand.Rand, i int) store.SessionRow {
	start, agent := at(i, in.sessions()), fmt.Sprint("agent", i%3)
	seq := store.NamedSequence{Agent: agent, Start: start}
	for k := range sessionCalls {
		seq.Tools = append(seq.Tools, fmt.Sprint("tool", random.IntN(filledTools)))
		seq.Turns = append(seq.Turns, int32(k/2))
		seq.Flags = append(seq.Flags, 0)
	}
	id := fmt.Sprintf("session-%08d", i)
	return store.SessionRow{ID: id, Sequences: []store.NamedSequence{seq}, Summary: ingest.SessionSummary{ID: id, Agents: []string{agent}, Start: start,
		End: start.Add(time.Minute), ToolCalls: sessionCalls, LLM: ingest.LLMUsage{Calls: sessionCalls / 2}, UserTurns: 1}}
}

// archive stores the finished runs that reports sum, many at a time because each is a commit.
func (in installation) archive(ctx context.Context, db store.Store) error {
	var next atomic.Int64
	errs := make(chan error, 64)
	var all sync.WaitGroup
	for range cap(errs) {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < in.runs(); i = int(next.Add(1)) - 1 {
				row := in.run(i)
				err := db.PutRun(ctx, ingest.DefaultTenant, store.Run{ID: row.ID, Flow: row.Flow, Version: row.Version, Status: row.State, Caller: row.Caller,
					Start: row.Started, Duration: row.Ended.Sub(row.Started), Steps: 3, StepsDone: 3, Result: json.RawMessage(row.Body), LLMCallsAvoided: 2,
					TokensAvoided: 1500, CostAvoidedUSD: 0.01, LatencyAvoided: 3 * time.Second})
				if err != nil {
					errs <- err
					return
				}
			}
		})
	}
	all.Wait()
	close(errs)
	return <-errs
}

func (in installation) run(i int) statestore.RunRow {
	start := at(i, in.runs())
	body := fmt.Appendf(nil, `{"Result":{"flow":"flow%d","trace":"%032d","text":"%0800d"}}`, i%filledFlows, i, i)
	return statestore.RunRow{ID: fmt.Sprintf("%032x", i), Flow: fmt.Sprint("flow", i%filledFlows), Version: "1.0.0",
		State: []string{"succeeded", "succeeded", "succeeded", "failed", "handed_back"}[i%5], Caller: "service:agent", Started: start,
		Ended: start.Add(250 * time.Millisecond), StepsSaved: 2, Exported: true, Revision: 1, Body: body}
}

func (in installation) fillState(ctx context.Context) (err error) {
	db, err := statestore.Open(ctx, filepath.Join(in.dir, "state.db"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	gate := governance.New(governance.Options{Store: db, Check: runs.Check})
	in.note("proposing %d flows", in.proposals)
	if err := in.propose(ctx, gate); err != nil {
		return err
	}
	in.note("keeping %d runs", in.runs())
	for first := 0; first < in.runs(); first += fillBatch {
		err := db.Update(ctx, func(tx *statestore.Tx) error {
			for i := first; i < min(first+fillBatch, in.runs()); i++ {
				if err := tx.InsertRun(ingest.DefaultTenant, in.run(i)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return db.Update(ctx, in.history)
}

// history is what flows were promoted, walked and taken out of service.
func (in installation) history(tx *statestore.Tx) error {
	for n := range filledFlows {
		flow := benchFlow(fmt.Sprint("flow", n))
		flow.Version, flow.Status = "1.0.0", flows.StatusActive
		body, err := json.Marshal(flow)
		if err != nil {
			return err
		}
		row := statestore.FlowVersionRow{Name: flow.Name, Version: flow.Version, Digest: flows.Digest(flow), Status: string(flows.StatusActive), Revision: 1,
			PromotedBy: benchActor.Principal, CreatedAt: filledFrom, Flow: body, Savings: []byte(`{}`)}
		if err := errors.Join(tx.InsertFlowVersion(ingest.DefaultTenant, row, nil), tx.SetActive(ingest.DefaultTenant, flow.Name, statestore.Pointer{Version: flow.Version, Share: 1})); err != nil {
			return err
		}
		for day := range int64(filledDays) {
			if err := tx.AddFlowDay(ingest.DefaultTenant, statestore.FlowDayRow{Flow: flow.Name, Version: flow.Version,
				Day: filledFrom.Unix()/(24*60*60) + day, Walks: 20, Exact: 19, Missed: 20, Calls: 60}); err != nil {
				return err
			}
		}
	}
	drifts := in.calls / callsPerDrift
	for i := range drifts {
		if err := tx.Audit(ingest.DefaultTenant, statestore.AuditRow{At: at(i, drifts), Actor: governance.SystemPrincipal, Action: "flow.drift",
			Object: fmt.Sprintf("flow/flow%d@1.0.0", i%filledFlows), Detail: json.RawMessage(`{"tool":"tool1"}`)}); err != nil {
			return err
		}
	}
	return nil
}

// propose fills the queue, with evidence of the size that mining gives.
func (in installation) propose(ctx context.Context, gate *governance.Service) error {
	policy := governance.DefaultPolicy()
	policy.MaxPending = in.proposals
	if err := gate.SetPolicy(ctx, benchActor, policy, 0); err != nil {
		return err
	}
	var names []string
	for i := range exampleSessions {
		names = append(names, fmt.Sprintf("session-%08d", i))
	}
	arg := func(name string) observer.ArgFlow {
		return observer.ArgFlow{Arg: name, Presence: 1, Kind: observer.SourceOutput, Pointer: "/id", Evidence: observer.Evidence{Held: 100, Supporting: names}}
	}
	for first := 0; first < in.proposals; first += fillBatch {
		var all []analyzer.Candidate
		for i := first; i < min(first+fillBatch, in.proposals); i++ {
			flow := benchFlow(fmt.Sprint("proposal", i))
			all = append(all, analyzer.Candidate{Source: analyzer.SourceMiner, Flow: flow, Digest: flows.Digest(flow), PatternKey: fmt.Sprint("miner/linear/", i),
				Rank: i, Score: float64(i%97) + 0.5, Evidence: analyzer.Evidence{Pattern: &observer.Pattern{Tools: []string{"tool1", "tool2", "tool3"},
					Occurrences: 200, Sessions: 100, DataFlow: &observer.DataFlow{Sampled: 100, Explained: 98,
						Steps: []observer.StepFlow{{}, {Args: []observer.ArgFlow{arg("id"), arg("kind")}}, {Args: []observer.ArgFlow{arg("id"), arg("text"), arg("to")}}}}}},
				Savings: analyzer.Savings{Occurrences: 200, PerWeek: float64(i % 53), LLMCallsPerRun: analyzer.Interval{Mean: 2, Low: 1, High: 3, Known: 100}, Basis: "recorded turns"}})
		}
		if _, err := gate.Propose(ctx, benchActor, all); err != nil {
			return err
		}
	}
	return nil
}

// benchFlow is a flow of three steps.
func benchFlow(name string) *flows.Flow {
	step := func(tool, key string, from flows.MappingValue) flows.Step {
		return flows.Step{ToolName: tool, InputMapping: flows.Mapping{{Target: "id", Value: from}}, OutputAs: key}
	}
	return &flows.Flow{FormatVersion: flows.FormatVersion11, Type: flows.TypeFlow, Name: name, Version: "0.1.0", Description: "Looks something up and sends it on.",
		InputSchema: flows.RawSchema(`{"type":"object","properties":{"id":{"type":"string"}},"required":["id"]}`),
		Steps:       []flows.Step{step("tool1", "one", flows.Key("id")), step("tool2", "two", flows.Pointer("/one/id")), step("tool3", "three", flows.Pointer("/two/id"))}}
}
