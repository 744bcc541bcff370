package governance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"pave/flows"
	"pave/governance/store"
	"pave/ingest"
	"pave/ingest/rawjson"
	eventstore "pave/ingest/store"
)

// Eraser is what deletion needs of the event store and of the runs.
type Eraser interface {
	// Assemble brings every session up to date, without a quiet period.
	Assemble(ctx context.Context, tenant string) (int, error)
	List(ctx context.Context, tenant string, filter eventstore.SessionFilter) (eventstore.Page[ingest.SessionSummary], error)
	// Events calls fn with the stored events of each of the sessions.
	Events(ctx context.Context, tenant string, ids []string, fn func(id string, events []ingest.Event) error) error
	// Delete removes sessions for good, and no assembly that is under way brings one back.
	Delete(ctx context.Context, tenant string, ids []string) (eventstore.Deleted, error)
	// EraseRuns takes the values out of the flow runs that belong to one of the traces, or whose calls are one of the sessions.
	EraseRuns(ctx context.Context, tenant string, traces, sessions []string) (ErasedRuns, error)
}

// DeletionRequest says which sessions to delete: these, or those of a user, or those that started in [From, To), or
// those of a user in that time. Sessions without a start are not found by time.
type DeletionRequest struct {
	Sessions []string
	User     string
	From, To time.Time
	// Max is how many sessions are deleted, about, at most; 0 is any number.
	Max int
}

// DeletionReceipt says what a deletion removed: of the event store, the sessions under which runs recorded their calls
// included, and of what was made of it. Flows stay, with constants that many sessions shared.
type DeletionReceipt struct {
	ID string
	At time.Time // when it had ended
	By string
	eventstore.Deleted
	Derived
}

// UserKeys are the members of an event's metadata that name its user.
var UserKeys = []string{"user", "user_id", "user.id", "enduser.id"}

// deletionBatch is how many sessions are deleted in one transaction of the store.
const deletionBatch = 100

func (r *DeletionRequest) check() error {
	timed := !r.From.IsZero() || !r.To.IsZero()
	switch {
	case len(r.Sessions) == 0 && r.User == "" && !timed:
		return flows.NewError(flows.CodeInvalid, "say what to delete: sessions, a user, or a time")
	case len(r.Sessions) > 0 && (r.User != "" || timed):
		return flows.NewError(flows.CodeInvalid, "give sessions or a user and a time, not both")
	case timed && r.User == "" && r.To.IsZero():
		return flows.NewError(flows.CodeInvalid, "a deletion by time needs its end (to)",
			flows.ErrorDetail{Pointer: "/to", Code: "required", Detail: "the sessions that started before it"})
	}
	return nil
}

// DeleteSessions removes recorded sessions for good. The audit log says who asked for it before the first is removed, and
// what was removed at the end, without names of sessions or users. A deletion that was cut short can be made again.
// Errors: CodeInvalid, CodeForbidden, those of the event store.
func (s *Service) DeleteSessions(ctx context.Context, actor Actor, from Eraser, req DeletionRequest) (*DeletionReceipt, error) {
	if err := Permit(actor, ActionAdmin); err != nil {
		return nil, err
	}
	if err := req.check(); err != nil {
		return nil, err
	}
	d := &deletion{s: s, actor: actor, tenant: tenantOf(actor), from: from, req: req, receipt: DeletionReceipt{ID: s.newID(), By: actor.Principal}}
	err := d.run(ctx)
	d.receipt.At = s.now().UTC()
	if d.begun {
		// What was removed is removed, also when the rest failed.
		if told := d.audit(context.WithoutCancel(ctx), "deletion.end", map[string]any{"sessions": d.receipt.Sessions,
			"events": d.receipt.Events, "tool_calls": d.receipt.ToolCalls, "golden_tests": d.receipt.GoldenTests, "proposals": d.receipt.Proposals,
			"replay_checks": d.receipt.ReplayChecks, "mining_runs": d.receipt.MiningRuns, "runs": d.receipt.Runs, "runs_open": d.receipt.RunsOpen,
			"complete": err == nil}); err == nil {
			err = told
		}
		err = errors.Join(err, s.db.Settle(context.WithoutCancel(ctx)))
	}
	if err != nil {
		return nil, err
	}
	return &d.receipt, nil
}

// deletion is one request at work.
type deletion struct {
	s       *Service
	actor   Actor
	tenant  string
	from    Eraser
	req     DeletionRequest
	begun   bool
	cited   citations // read when the first session is deleted
	receipt DeletionReceipt
}

func (d *deletion) audit(ctx context.Context, action string, detail map[string]any) error {
	return d.s.update(ctx, d.actor, ActionAdmin, func(c *change) error {
		return c.audit(action, "deletion/"+d.receipt.ID, detail)
	})
}

func (d *deletion) run(ctx context.Context) error {
	if len(d.req.Sessions) > 0 {
		return d.delete(ctx, d.req.Sessions)
	}
	if _, err := d.from.Assemble(ctx, d.tenant); err != nil {
		return err
	}
	filter := eventstore.SessionFilter{From: d.req.From, To: d.req.To, Limit: deletionBatch}
	for {
		page, err := d.from.List(ctx, d.tenant, filter)
		if err != nil {
			return err
		}
		ids := make([]string, len(page.Items))
		for i := range page.Items {
			ids[i] = page.Items[i].ID
		}
		if d.req.User != "" {
			if ids, err = d.ofUser(ctx, ids); err != nil {
				return err
			}
		}
		if err := d.delete(ctx, ids); err != nil {
			return err
		}
		if filter.Cursor = page.Next; filter.Cursor == "" || d.req.Max > 0 && d.receipt.Sessions >= int64(d.req.Max) {
			return nil
		}
	}
}

// ofUser are those of the sessions in which an event names the user.
func (d *deletion) ofUser(ctx context.Context, ids []string) (own []string, err error) {
	err = d.from.Events(ctx, d.tenant, ids, func(id string, events []ingest.Event) error {
		for i := range events {
			if names(&events[i], d.req.User) {
				own = append(own, id)
				break
			}
		}
		return ctx.Err()
	})
	return own, err
}

// names reports whether an event's metadata names the user.
func names(e *ingest.Event, user string) bool {
	if e.Metadata == nil {
		return false
	}
	for _, key := range UserKeys {
		value := rawjson.Get(e.Metadata, key)
		if value != nil && (rawjson.Text(value) == user || string(value) == user) {
			return true
		}
	}
	return false
}

func (d *deletion) delete(ctx context.Context, ids []string) error {
	for len(ids) > 0 {
		if !d.begun {
			if err := d.audit(ctx, "deletion.begin", d.asked()); err != nil {
				return err
			}
			d.begun = true
			if err := d.s.db.View(ctx, func(r *store.Reader) (err error) {
				d.cited, err = citationsIn(r, d.tenant)
				return err
			}); err != nil {
				return fmt.Errorf("delete sessions: %w", err)
			}
		}
		n := min(len(ids), deletionBatch)
		// What was made of the sessions goes first: a deletion that was cut short still finds them when it is made again.
		runs, err := d.derived(ctx, ids[:n])
		if err != nil {
			return fmt.Errorf("delete sessions: %w", err)
		}
		removed, err := d.from.Delete(ctx, d.tenant, append(runs, ids[:n]...))
		d.receipt.Add(removed)
		if err != nil {
			return fmt.Errorf("delete sessions: %w", err)
		}
		ids = ids[n:]
	}
	return nil
}

// derived removes what was made of sessions, and returns the sessions under which their flow runs recorded calls.
func (d *deletion) derived(ctx context.Context, ids []string) (runs []string, err error) {
	traces := map[string]bool{}
	if err := d.from.Events(ctx, d.tenant, ids, func(_ string, events []ingest.Event) error {
		for i := range events {
			if id := events[i].TraceID; id != "" {
				traces[id] = true
			}
		}
		return ctx.Err()
	}); err != nil {
		return nil, err
	}
	for batch := range slices.Chunk(slices.Sorted(maps.Keys(traces)), tracesBatch) {
		if runs, err = d.eraseRuns(ctx, runs, batch, nil); err != nil {
			return nil, err
		}
	}
	if runs, err = d.eraseRuns(ctx, runs, nil, ids); err != nil {
		return nil, err
	}
	runs = slices.DeleteFunc(runs, func(id string) bool { return slices.Contains(ids, id) })
	return runs, d.strip(ctx, slices.Concat(ids, runs))
}

// tracesBatch is how many traces are looked up at a time.
const tracesBatch = 500

func (d *deletion) eraseRuns(ctx context.Context, runs, traces, sessions []string) ([]string, error) {
	erased, err := d.from.EraseRuns(ctx, d.tenant, traces, sessions)
	d.receipt.Runs += erased.Runs
	d.receipt.RunsOpen += erased.Open
	return append(runs, erased.Sessions...), err
}

// strip takes the sessions out of tests, proposals, checks and mining passes.
func (d *deletion) strip(ctx context.Context, ids []string) error {
	places := d.cited[""]
	delete(d.cited, "")
	gone := make(map[string]bool, len(ids))
	for _, id := range ids {
		gone[id] = true
		for _, at := range d.cited[id] {
			if !slices.Contains(places, at) {
				places = append(places, at)
			}
		}
	}
	if len(places) == 0 {
		return nil
	}
	return d.s.update(ctx, d.actor, ActionAdmin, func(c *change) error { return c.strip(places, gone, &d.receipt.Derived) })
}

// asked is what the request was, without the names in it: the log outlives what is deleted.
func (d *deletion) asked() map[string]any {
	detail := map[string]any{"sessions": len(d.req.Sessions), "user": d.req.User != ""}
	if !d.req.From.IsZero() {
		detail["from"] = d.req.From.UTC()
	}
	if !d.req.To.IsZero() {
		detail["to"] = d.req.To.UTC()
	}
	return detail
}
