package app

import (
	"context"
	"sync"
	"time"

	"pave/api"
	"pave/governance"
	"pave/governance/loop"
	"pave/governance/runs"
	"pave/ingest"
	"pave/ingest/assembly"
	"pave/ingest/store"
	"pave/observer"
)

// readyTimeout bounds how long a store may take to say that it works.
const readyTimeout = 2 * time.Second

// status tells the API how the process stands.
type status struct {
	gate   *governance.Service
	events store.Store
	disk   *disk
	keep   time.Duration // of sessions; 0 is for ever
}

var _ api.Status = (*status)(nil)

// Ready implements api.Status.
func (s *status) Ready(ctx context.Context) (reasons []string) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := s.gate.Ping(ctx); err != nil {
		reasons = append(reasons, "state store: it does not answer")
	}
	if err := s.events.Ping(ctx); err != nil {
		reason := "event store: it does not answer; recorded calls wait in the spool"
		if stats, err := s.events.Stats(ctx, ingest.DefaultTenant); err == nil && stats.SpoolRows == 0 {
			reason = "event store: it does not answer"
		}
		reasons = append(reasons, reason)
	}
	if err := s.disk.admit(); err != nil {
		reasons = append(reasons, "disk: "+err.Error())
	}
	return reasons
}

// Retention implements api.Status.
func (s *status) Retention() time.Duration { return s.keep }

// Stats implements api.Status.
func (s *status) Stats(ctx context.Context) (store.Stats, error) {
	return s.events.Stats(ctx, ingest.DefaultTenant)
}

// sessions reads and assembles sessions for the API.
type sessions struct {
	events    store.Store
	assembler *assembly.Assembler
	loader    assembly.Loader
	runs      *runs.Service
	loop      *loop.Loop
}

var (
	_ api.Sessions      = (*sessions)(nil)
	_ governance.Eraser = (*sessions)(nil)
)

// List implements api.Sessions.
func (s *sessions) List(ctx context.Context, tenant string, f store.SessionFilter) (store.Page[ingest.SessionSummary], error) {
	return s.events.Sessions(ctx, tenant, f)
}

// Get implements api.Sessions.
func (s *sessions) Get(ctx context.Context, tenant string, ids []string, fn func(*ingest.Session) error) error {
	return s.loader.Sessions(ctx, tenant, ids, fn)
}

// Calls implements api.Sessions.
func (s *sessions) Calls(ctx context.Context, tenant string, f assembly.CallFilter) (store.Page[assembly.ListedCall], error) {
	return assembly.Calls{Store: s.events, Loader: s.loader}.List(ctx, tenant, f)
}

// Assemble implements api.Sessions.
func (s *sessions) Assemble(ctx context.Context, tenant string) (int, error) {
	return s.assembler.Run(ctx, tenant, time.Time{})
}

// Events implements governance.Eraser.
func (s *sessions) Events(ctx context.Context, tenant string, ids []string, fn func(string, []ingest.Event) error) error {
	return s.events.Events(ctx, tenant, ids, fn)
}

// Delete implements governance.Eraser.
func (s *sessions) Delete(ctx context.Context, tenant string, ids []string) (store.Deleted, error) {
	removed, err := s.assembler.Delete(ctx, tenant, ids)
	s.loop.Deleted(ids) // again: a pass may have begun to read them meanwhile
	return removed, err
}

// EraseRuns implements governance.Eraser. It comes first of what a deletion does, and a pass that is under way hears of the
// sessions before they are taken out of what earlier ones found.
func (s *sessions) EraseRuns(ctx context.Context, tenant string, traces, sessions []string) (governance.ErasedRuns, error) {
	s.loop.Deleted(sessions)
	return s.runs.EraseRuns(ctx, tenant, traces, sessions)
}

// walks surveys the event store for the API.
type walks struct {
	events store.Store

	mu   sync.Mutex
	kept map[string]*keptWalks // by tenant
}

// keptWalks is what was counted of a tenant.
type keptWalks struct {
	surveys    observer.Surveys
	activities observer.Activities
}

var _ api.Walks = (*walks)(nil)

// Survey implements api.Walks.
func (w *walks) Survey(ctx context.Context, tenant string, filter store.SequenceFilter) (*observer.Survey, error) {
	return w.of(tenant).surveys.Look(ctx, loop.Source{Events: w.events, Tenant: tenant}, filter)
}

// Activity implements api.Walks.
func (w *walks) Activity(ctx context.Context, tenant string, filter store.SequenceFilter) (*observer.Activity, error) {
	return w.of(tenant).activities.Count(ctx, loop.Source{Events: w.events, Tenant: tenant}, filter)
}

func (w *walks) of(tenant string) *keptWalks {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.kept == nil {
		w.kept = map[string]*keptWalks{}
	}
	if w.kept[tenant] == nil {
		w.kept[tenant] = new(keptWalks)
	}
	return w.kept[tenant]
}
