package runs

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"pave/executor"
	"pave/flows"
	"pave/flows/value"
	"pave/governance"
	"pave/governance/store"
)

// Request asks for one run. Version "" takes the one that the flow's rollout gives the caller, see Request.party. The same IdempotencyKey of the same
// principal within 24 hours gives the first run again instead of a second one.
type Request struct {
	Flow    string
	Version string
	Input   map[string]any
	// SessionID is the caller's conversation, as the caller names it; "" when it is not known.
	SessionID string
	// Force runs Version although it may not be active; see governance.Service.AdmitForced. The audit log has it.
	Force bool
	// DynamicParams are values beside the input, secrets as a rule: mappings see them as context keys. They are in the
	// final output that the caller gets and nowhere else.
	DynamicParams  map[string]any
	IdempotencyKey string
	// TraceID continues the caller's trace, 32 hex digits; "" begins one. ParentSpanID is the caller's span in it, 16 hex
	// digits, "" when it is not known.
	TraceID, ParentSpanID string
	DryRun                bool
	// DryRunUnsupported is what a dry run does with a tool that it may not call: executor.DryRunSkip ("") or DryRunAbort.
	DryRunUnsupported string
	// Detach lets the run go on when the caller goes. Run answers at its end, and after Wait as it stands.
	Detach bool
	Wait   time.Duration
	// OnEvent receives the run's events in order, on the run's goroutine; it must return soon. A run that an idempotency
	// key gives again has none.
	OnEvent func(executor.Event)
}

// hash names the request. Params are named by a keyed hash, which does not give them away.
func (s *Service) hash(r *Request) string {
	body := map[string]any{"flow": r.Flow, "version": r.Version, "input": r.Input, "dry_run": r.DryRun}
	if len(r.DynamicParams) > 0 {
		body["dynamic_params"] = hex.EncodeToString(s.vault.mac(value.Canonical(r.DynamicParams)))
	}
	if r.SessionID != "" {
		body["session_id"] = r.SessionID
	}
	if r.Force {
		body["force"] = true
	}
	sum := sha256.Sum256(value.Canonical(body))
	return hex.EncodeToString(sum[:])
}

// party names whom the request is from, so that a flow which is being rolled out serves a conversation with one version:
// the session, else the trace, else, for requests that belong to nothing, the idempotency key, else the principal.
func (r *Request) party(actor governance.Actor) string {
	switch {
	case r.SessionID != "":
		return "session " + r.SessionID
	case r.TraceID != "":
		return "trace " + r.TraceID
	case r.IdempotencyKey != "":
		return "request " + actor.Principal + " " + r.IdempotencyKey
	}
	return "principal " + actor.Principal
}

const operation = "run"

// Run executes a flow and returns when it ended or waits for approvals. A flow that fails, is handed back or is cancelled
// by ctx is a result; an error means that it did not start, and carries its code: not_found, forbidden, invalid,
// flow_not_active, outside_rollout, tool_drift, unbound_tools, compile_failed, full, rate_limited, idempotency_reuse, in_progress.
func (s *Service) Run(ctx context.Context, actor governance.Actor, req Request) (*Run, error) {
	if err := governance.Permit(actor, governance.ActionRun); err != nil {
		return nil, err
	}
	if err := (&executor.RunInput{DryRunUnsupported: req.DryRunUnsupported}).Check(); err != nil {
		return nil, err
	}
	if run, err := s.earlier(ctx, actor, &req); run != nil || err != nil {
		return run, err
	}
	admission, err := s.admit(ctx, actor, &req)
	if err != nil {
		return nil, err
	}
	plan, err := s.plan(admission)
	if err != nil {
		return nil, err
	}
	if err := s.enter(actor, s.maxPerPrincipal); err != nil {
		return nil, err
	}
	run := &Run{ID: s.newID(), Flow: admission.Version.Flow.Name, Version: admission.Version.Flow.Version, State: StateRunning,
		Caller: actor.Principal, DryRun: req.DryRun, Started: s.now().UTC(), Revision: 1}
	l := &live{tenant: tenant(actor), actor: actor, run: run, admission: admission, plan: plan, params: req.DynamicParams, careful: careful(admission),
		log: &callLog{}, done: make(chan struct{})}
	in := begun{TraceID: cmp.Or(req.TraceID, s.newID()), ParentSpanID: req.ParentSpanID, Unsupported: req.DryRunUnsupported, Plan: admission.Key, Called: calledAs(admission), Forced: req.Force, Params: slices.Sorted(maps.Keys(req.DynamicParams))}
	if first, err := s.begin(ctx, &req, l, in); first != nil || err != nil {
		s.leave(actor)
		return first, err
	}
	l.feed, l.begun = s.hold(run.ID, 0), &in
	start := func(ctx context.Context) (*executor.RunResult, error) {
		input := s.input(l, req.OnEvent)
		input.Input, input.TraceID, input.DryRunUnsupported = req.Input, in.TraceID, req.DryRunUnsupported
		return s.engine.Run(ctx, plan, input), nil
	}
	if req.Detach {
		s.detach(l, start)
		return s.await(ctx, l, req.Wait)
	}
	defer s.leave(actor)
	s.execute(ctx, l, start)
	return run, nil
}

// admit takes the version that the request names or forces, else the one that serves its caller.
func (s *Service) admit(ctx context.Context, actor governance.Actor, req *Request) (*governance.Admission, error) {
	if req.Force {
		return s.gate.AdmitForced(ctx, actor, req.Flow, req.Version)
	}
	if req.Version != "" {
		return s.gate.Admit(ctx, actor, req.Flow, req.Version)
	}
	return s.gate.AdmitCaller(ctx, actor, req.Flow, req.party(actor))
}

// earlier answers a request whose idempotency key was used before; nil, nil when it was not.
func (s *Service) earlier(ctx context.Context, actor governance.Actor, req *Request) (*Run, error) {
	if req.IdempotencyKey == "" {
		return nil, nil
	}
	var run *Run
	err := s.db.View(ctx, func(r *store.Reader) error {
		row, err := r.Claimed(tenant(actor), actor.Principal, operation, req.IdempotencyKey, s.now().Add(-idempotencyAge))
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err == nil {
			run, err = s.replay(r, tenant(actor), req, row)
		}
		return err
	})
	return run, err
}

// replay is the run that a used key made.
func (s *Service) replay(r *store.Reader, tenant string, req *Request, row store.IdempotencyRow) (*Run, error) {
	if row.BodyHash != s.hash(req) {
		return nil, flows.NewError(flows.CodeIdempotencyReuse, "this Idempotency-Key was used with another request; take a new key")
	}
	kept, err := r.Run(tenant, row.Object)
	if err != nil {
		return nil, fmt.Errorf("run of idempotency key: %w", err)
	}
	if kept.State == StateRunning {
		return nil, flows.NewError(flows.CodeInProgress, "the first request with this Idempotency-Key is still running; ask for run "+kept.ID)
	}
	run, err := fromRow(kept, true)
	if err != nil {
		return nil, err
	}
	run.Replayed = true
	if run.Continuation, err = continuationIn(r, tenant, run); err != nil {
		return nil, err
	}
	run.Approvals, err = approvalsIn(r, tenant, run.ID)
	return run, err
}

// begin writes the run before it starts. When another request with the same key came first, its run is returned.
func (s *Service) begin(ctx context.Context, req *Request, l *live, how begun) (first *Run, err error) {
	run := l.run
	raw, err := json.Marshal(body{})
	if err != nil {
		return nil, fmt.Errorf("encode run: %w", err)
	}
	how.Input = value.Encode(req.Input)
	sealed, err := s.sealBegun(l.tenant, run.ID, how)
	if err != nil {
		return nil, err
	}
	err = s.change(ctx, func(tx *store.Tx) error {
		if req.IdempotencyKey != "" {
			row, ours, err := tx.Claim(l.tenant, store.IdempotencyRow{Principal: run.Caller, Operation: operation, Key: req.IdempotencyKey,
				BodyHash: s.hash(req), Object: run.ID, CreatedAt: run.Started}, run.Started.Add(-idempotencyAge))
			if err != nil {
				return err
			}
			if !ours {
				first, err = s.replay(&tx.Reader, l.tenant, req, row)
				return err
			}
		}
		if err := tx.InsertCheckpoint(l.tenant, store.CheckpointRow{RunID: run.ID, Begun: sealed}); err != nil {
			return err
		}
		if err := s.auditStart(tx, l, req.Force); err != nil {
			return err
		}
		return tx.InsertRun(l.tenant, store.RunRow{ID: run.ID, Flow: run.Flow, Version: run.Version, State: run.State, Caller: run.Caller,
			DryRun: run.DryRun, Started: run.Started, TraceID: how.TraceID, Body: raw})
	})
	return first, err
}
