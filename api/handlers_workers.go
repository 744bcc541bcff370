package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"pave/api/gen"
	"pave/executor"
	"pave/executor/bind/worker"
	"pave/flows"
	"pave/flows/value"
	"pave/governance"
)

// PollWorkerPool waits for a call of the pool, until the service drains at the latest, and only shortly while it does.
func (h *handlers) PollWorkerPool(ctx context.Context, r gen.PollWorkerPoolRequestObject) (gen.PollWorkerPoolResponseObject, error) {
	actor := actorFrom(ctx)
	req := worker.Poll{Pool: r.Pool, Scope: actor.Tenant, Owner: ownerOf(actor), Wait: defaultPollWait, Until: h.s.drained}
	if r.Body != nil {
		req.Worker, req.Tools, req.OnlyAnswer = r.Body.Worker, r.Body.Tools, r.Body.OnlyAnswer
		if r.Body.WaitMs > 0 {
			req.Wait = time.Duration(r.Body.WaitMs) * time.Millisecond
		}
		var err error
		if req.Answers, err = answersOf(r.Body.Answers); err != nil {
			return nil, err
		}
	}
	if h.s.draining.Load() { // answers come in until the listeners close, without a poll after the other
		req.Wait, req.Until = min(req.Wait, drainPollWait), nil
	}
	if req.Worker == "" {
		req.Worker = actor.Principal
	}
	call, err := h.s.deps.Workers.Poll(ctx, req)
	if err != nil {
		return nil, err
	}
	if call == nil {
		return gen.PollWorkerPool204Response{}, nil
	}
	out := gen.PollWorkerPool200JSONResponse{ID: call.ID, Pool: call.Pool, Tool: call.Tool, Input: value.Encode(call.Input),
		IdempotencyKey: call.IdempotencyKey, Attempt: call.Attempt, Delivery: call.Delivery, RunID: call.RunID,
		Traceparent: call.Traceparent, Tracestate: call.Tracestate, LeaseUntil: utc(call.LeaseUntil)}
	if !call.Deadline.IsZero() {
		out.Deadline = utc(call.Deadline)
	}
	return &delivery{out, ctx, func() { h.s.deps.Workers.Undelivered(call.ID) }}, nil
}

// answersOf are the answers that came with a poll.
func answersOf(given []gen.WorkerAnswer) ([]worker.Answer, error) {
	out := make([]worker.Answer, len(given))
	for i, a := range given {
		at := fmt.Sprintf("/answers/%d", i)
		if (a.Error != nil) == (len(a.Result) > 0) {
			return nil, flows.NewError(flows.CodeInvalid, "an answer has either a result or an error",
				flows.ErrorDetail{Pointer: at, Code: "oneOf", Detail: "must have result or error, not both"})
		}
		out[i].ID = a.ID
		if a.Error != nil {
			failure := failureOf(a.Error)
			out[i].Failure = &failure
			continue
		}
		var err error
		if out[i].Result, err = resultOf(a.Result, at+"/result"); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func resultOf(raw json.RawMessage, at string) (any, error) {
	result, err := value.Decode(raw)
	if err != nil {
		return nil, flows.NewError(flows.CodeInvalid, "the result is not JSON that can be taken: "+err.Error(),
			flows.ErrorDetail{Pointer: at, Code: "invalid", Detail: err.Error()})
	}
	return result, nil
}

func failureOf(f *gen.WorkerFailure) executor.ToolError {
	return executor.ToolError{Class: string(f.Class), Code: f.Code, Message: f.Message, Type: f.Type}
}

// ownerOf is who may answer a call that the actor was given.
func ownerOf(actor governance.Actor) string { return actor.Tenant + "/" + actor.Principal }

// defaultPollWait is how long a poll waits that does not say.
const defaultPollWait = 20 * time.Second

// drainPollWait is how long a poll waits while the service drains.
const drainPollWait = 250 * time.Millisecond

// delivery answers a poll with a call, which is taken back when the worker went away before any of it was sent.
type delivery struct {
	gen.PollWorkerPool200JSONResponse
	ctx        context.Context
	notReached func()
}

// VisitPollWorkerPoolResponse implements gen.PollWorkerPoolResponseObject.
func (d *delivery) VisitPollWorkerPoolResponse(w http.ResponseWriter) error {
	if d.ctx.Err() != nil {
		d.notReached()
		return d.ctx.Err()
	}
	return d.PollWorkerPool200JSONResponse.VisitPollWorkerPoolResponse(w)
}

// RenewWorkerCall renews a lease.
func (h *handlers) RenewWorkerCall(ctx context.Context, r gen.RenewWorkerCallRequestObject) (gen.RenewWorkerCallResponseObject, error) {
	until, cancelled, err := h.s.deps.Workers.Heartbeat(r.ID, ownerOf(actorFrom(ctx)))
	if err != nil {
		return nil, err
	}
	out := gen.RenewWorkerCall200JSONResponse{Cancelled: cancelled}
	if !until.IsZero() {
		out.LeaseUntil = utc(until)
	}
	return out, nil
}

// CompleteWorkerCall takes a result.
func (h *handlers) CompleteWorkerCall(ctx context.Context, r gen.CompleteWorkerCallRequestObject) (gen.CompleteWorkerCallResponseObject, error) {
	result, err := resultOf(r.Body.Result, "/result")
	if err != nil {
		return nil, err
	}
	return gen.CompleteWorkerCall204Response{}, h.s.deps.Workers.Complete(r.ID, ownerOf(actorFrom(ctx)), result)
}

// FailWorkerCall takes an error.
func (h *handlers) FailWorkerCall(ctx context.Context, r gen.FailWorkerCallRequestObject) (gen.FailWorkerCallResponseObject, error) {
	return gen.FailWorkerCall204Response{}, h.s.deps.Workers.Fail(r.ID, ownerOf(actorFrom(ctx)), failureOf(r.Body))
}

// ListWorkerPools shows how the pools stand.
func (h *handlers) ListWorkerPools(ctx context.Context, _ gen.ListWorkerPoolsRequestObject) (gen.ListWorkerPoolsResponseObject, error) {
	others := func(p worker.PoolStats) bool { return p.Scope != actorFrom(ctx).Tenant }
	return gen.ListWorkerPools200JSONResponse{Items: list(slices.DeleteFunc(h.s.deps.Workers.Stats(), others), func(p worker.PoolStats) gen.WorkerPool {
		out := gen.WorkerPool{Pool: p.Pool, Queued: p.Queued, OldestMs: p.Oldest.Milliseconds(), Leased: p.Leased, WaitingWorkers: p.Waiting,
			Workers: present(p.Workers), QueuedTools: present(p.Tools), Given: p.Given, Expired: p.Expired, Rejected: p.Rejected}
		if !p.Polled.IsZero() {
			out.PolledAt = utc(p.Polled)
		}
		return out
	})}, nil
}
