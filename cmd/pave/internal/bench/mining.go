package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"pave/ingest"
	"pave/ingest/assembly"
	"pave/ingest/store"
	"pave/ingest/store/sqlite"
	"pave/observer"
	"pave/observer/planted"
)

// Mining measures mining generated calls: sequences and values come from a real event store.
type Mining struct {
	Calls int
}

// MiningResult is `pave bench mining`. pass_cpu_s is everything after the store is filled: reading sequences,
// counting, selection and data flow; setup is not counted.
type MiningResult struct {
	Head
	Calls               int     `json:"calls"`
	Sessions            int     `json:"sessions"`
	CountCPUS           float64 `json:"count_cpu_s"`
	StoreCountCPUS      float64 `json:"store_count_cpu_s"`
	StoreCountPeakRSSMB float64 `json:"store_count_peak_rss_mb"`
	DataflowCPUS        float64 `json:"dataflow_cpu_s"`
	PassCPUS            float64 `json:"pass_cpu_s"`
	Patterns            int     `json:"patterns"`
	FrequentSequences   int     `json:"frequent_sequences"`
}

// Run implements Runner.
func (b Mining) Run(ctx context.Context, env Env) (_ any, err error) {
	dir, err := os.MkdirTemp("", "pave-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	log := planted.Generate(planted.Options{Calls: b.Calls, Noise: planted.DefaultNoise})
	db, err := sqlite.Open(ctx, filepath.Join(dir, "events.db"), sqlite.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := fill(ctx, env, db, log); err != nil {
		return nil, err
	}
	res := MiningResult{Head: env.head("mining"), Calls: log.Calls, Sessions: len(log.SessionIDs())}
	countOnly := observer.Options{MaxEvaluated: -1}
	env.note("counting in memory")
	memory, _, err := measure(func() error { _, err := observer.Mine(ctx, log, countOnly); return err })
	if err != nil {
		return nil, err
	}
	src := tenantSource{db, assembly.Loader{Store: db}}
	env.note("counting from the store")
	counted, _, err := measure(func() error { _, err := observer.Mine(ctx, src, countOnly); return err })
	if err != nil {
		return nil, err
	}
	res.StoreCountPeakRSSMB = peakRSS()
	env.note("a whole pass from the store")
	var mined *observer.Result
	pass, _, err := measure(func() (err error) { mined, err = observer.Mine(ctx, src, observer.Options{}); return err })
	if err != nil {
		return nil, err
	}
	res.CountCPUS, res.StoreCountCPUS, res.PassCPUS = memory.Seconds(), counted.Seconds(), pass.Seconds()
	res.DataflowCPUS = (pass - counted).Seconds()
	res.Patterns = len(mined.Patterns)
	for _, n := range mined.Counted {
		res.FrequentSequences += n
	}
	return res, nil
}

// tenantSource reads one tenant's sessions from an event store.
type tenantSource struct {
	store  store.Store
	loader assembly.Loader
}

func (s tenantSource) Sequences(ctx context.Context, f store.SequenceFilter, fn func(*ingest.Sequence) error) error {
	return s.store.Sequences(ctx, ingest.DefaultTenant, f, fn)
}

func (s tenantSource) ToolNames(ctx context.Context) ([]string, error) {
	return s.store.ToolNames(ctx, ingest.DefaultTenant)
}

func (s tenantSource) Sessions(ctx context.Context, ids []string, fn func(*ingest.Session) error) error {
	return s.loader.Sessions(ctx, ingest.DefaultTenant, ids, fn)
}

// fill records the log's sessions as events and assembles them.
func fill(ctx context.Context, env Env, db store.Store, log *planted.Log) error {
	const batch = 5000
	at := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	var events []ingest.Event
	done := 0
	flush := func() error {
		ingest.Identify(events)
		err := db.Append(ctx, ingest.DefaultTenant, events)
		done += len(events)
		events = nil
		if done%(100*batch) == 0 {
			env.note("recorded %d events", done)
		}
		return err
	}
	err := log.Sessions(ctx, log.SessionIDs(), func(s *ingest.Session) error {
		for _, e := range eventsOf(s, at) {
			if events = append(events, e); len(events) == batch {
				if err := flush(); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := flush(); err != nil {
		return err
	}
	env.note("assembling %d sessions", len(log.SessionIDs()))
	_, err = assembly.New(db, assembly.Options{}).Run(ctx, ingest.DefaultTenant, time.Time{})
	return err
}

// eventsOf writes a generated session down as the events that would have been received.
func eventsOf(s *ingest.Session, at time.Time) []ingest.Event {
	var out []ingest.Event
	for _, run := range s.Runs {
		users := run.Users
		for i, c := range run.Calls {
			for len(users) > 0 && users[0].Before <= i {
				out = append(out, ingest.Event{Kind: ingest.KindUserMessage, Turn: c.Turn, HasTurn: true, User: &ingest.UserMessage{Text: users[0].Text}})
				users = users[1:]
			}
			call := c.ToolCall
			call.CallID = fmt.Sprint("c", i)
			out = append(out, ingest.Event{Kind: ingest.KindToolCall, Turn: c.Turn, HasTurn: true, Call: &call})
		}
	}
	for i := range out {
		e := &out[i]
		e.Origin, e.SessionID, e.Source, e.OriginKind, e.Received = "session:"+s.ID, s.ID, "bench", ingest.OriginAgent, at
		e.Seq, e.HasSeq = int64(i), true
	}
	return out
}
