package loop

import (
	"cmp"
	"context"
	"hash/fnv"
	"slices"

	"pave/analyzer"
	"pave/ingest"
	"pave/ingest/assembly"
	"pave/ingest/store"
	"pave/observer"
)

// Events is what a pass reads of the event store.
type Events interface {
	Sequences(ctx context.Context, tenant string, filter store.SequenceFilter, fn func(*ingest.Sequence) error) error
	ToolNames(ctx context.Context, tenant string) ([]string, error)
	Events(ctx context.Context, tenant string, sessionIDs []string, fn func(sessionID string, events []ingest.Event) error) error
	store.Tallies
}

// Source is one tenant's part of an event store as the observer reads it.
type Source struct {
	Events Events
	Tenant string
}

var _ observer.TallySource = Source{}

// Sequences implements observer.Source.
func (s Source) Sequences(ctx context.Context, filter store.SequenceFilter, fn func(*ingest.Sequence) error) error {
	return s.Events.Sequences(ctx, s.Tenant, filter, fn)
}

// ToolNames implements observer.Source.
func (s Source) ToolNames(ctx context.Context) ([]string, error) {
	return s.Events.ToolNames(ctx, s.Tenant)
}

// Sessions implements observer.Source.
func (s Source) Sessions(ctx context.Context, ids []string, fn func(*ingest.Session) error) error {
	return assembly.Loader{Store: s.Events}.Sessions(ctx, s.Tenant, ids, fn)
}

// Days implements observer.TallySource.
func (s Source) Days(ctx context.Context) ([]store.Day, error) { return s.Events.Days(ctx, s.Tenant) }

// Tally implements observer.TallySource.
func (s Source) Tally(ctx context.Context) (store.Tally, error) { return s.Events.Tally(ctx, s.Tenant) }

// PutTally implements observer.TallySource.
func (s Source) PutTally(ctx context.Context, t store.Tally) error {
	return s.Events.PutTally(ctx, s.Tenant, t)
}

// Sampling for schema inference: enough sessions per tool to see optional fields, few enough to read quickly.
const (
	sessionsPerTool = 100
	loadBatch       = 200
)

// sampleSessions chooses for every tool up to sessionsPerTool sessions that called it, by the order of a hash of
// the session id: spread over the window, and the same at every pass over the same data.
func sampleSessions(ctx context.Context, src observer.Source, filter store.SequenceFilter) ([]string, error) {
	type pick struct {
		hash uint64
		id   string
	}
	less := func(a, b pick) int { return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.id, b.id)) }
	var picks [][]pick // by tool id, sorted
	err := src.Sequences(ctx, filter, func(seq *ingest.Sequence) error {
		h := fnv.New64a()
		h.Write([]byte(seq.SessionID))
		p := pick{h.Sum64(), seq.SessionID}
		for i, tool := range seq.Tools {
			if seq.Flags[i]&ingest.FlagNotAgent != 0 {
				continue
			}
			for int(tool) >= len(picks) {
				picks = append(picks, nil)
			}
			list := picks[tool]
			if len(list) == sessionsPerTool && less(p, list[len(list)-1]) >= 0 {
				continue
			}
			at, found := slices.BinarySearchFunc(list, p, less)
			if found {
				continue
			}
			list = slices.Insert(list, at, p)
			picks[tool] = list[:min(len(list), sessionsPerTool)]
		}
		return ctx.Err()
	})
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, list := range picks {
		for _, p := range list {
			ids = append(ids, p.id)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// inferTools reads what the tools that agents called take and give from a sample of the recorded sessions.
func inferTools(ctx context.Context, src observer.Source, filter store.SequenceFilter) (*analyzer.Inferrer, error) {
	ids, err := sampleSessions(ctx, src, filter)
	if err != nil {
		return nil, err
	}
	inferrer := analyzer.NewInferrer()
	for batch := range slices.Chunk(ids, loadBatch) {
		if err := src.Sessions(ctx, batch, func(s *ingest.Session) error {
			inferrer.ObserveSession(s)
			return ctx.Err()
		}); err != nil {
			return nil, err
		}
	}
	return inferrer, nil
}
