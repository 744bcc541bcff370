package api

import (
	"context"
	"errors"
	"fmt"

	"pave/api/gen"
	"pave/flows"
	"pave/ingest"
	"pave/ingest/assembly"
	"pave/ingest/store"
)

// storeError gives the conditions of the event store their codes.
func storeError(err error) error {
	switch {
	case errors.Is(err, store.ErrUnavailable):
		return &flows.Error{Code: flows.CodeUnavailable, Message: "the event store does not answer now; retry later", Err: err}
	case errors.Is(err, store.ErrFull):
		return &flows.Error{Code: flows.CodeFull, Message: "the event store has no room; free space and retry", Err: err}
	case errors.Is(err, store.ErrCursor):
		return errCursor
	}
	return err
}

// ListSessions pages session summaries.
func (h *handlers) ListSessions(ctx context.Context, r gen.ListSessionsRequestObject) (gen.ListSessionsResponseObject, error) {
	p := r.Params
	page, err := h.s.deps.Sessions.List(ctx, actorFrom(ctx).Tenant, store.SessionFilter{
		From: p.From, To: p.To, Agent: p.Agent, Tool: p.Tool, Limit: pageSize(p.Limit), Cursor: p.Cursor})
	if err != nil {
		return nil, storeError(err)
	}
	return gen.ListSessions200JSONResponse{Items: list(page.Items, sessionSummary), NextCursor: page.Next}, nil
}

// GetSession reads one assembled session.
func (h *handlers) GetSession(ctx context.Context, r gen.GetSessionRequestObject) (gen.GetSessionResponseObject, error) {
	var found *gen.Session
	err := h.s.deps.Sessions.Get(ctx, actorFrom(ctx).Tenant, []string{r.ID}, func(s *ingest.Session) error {
		out := session(s)
		found = &out
		return nil
	})
	if err != nil {
		return nil, storeError(err)
	}
	if found == nil || len(found.Runs) == 0 {
		return nil, flows.NewError(flows.CodeNotFound, fmt.Sprintf("there is no session %q", r.ID))
	}
	return gen.GetSession200JSONResponse(*found), nil
}

// ListToolCalls pages tool calls over sessions.
func (h *handlers) ListToolCalls(ctx context.Context, r gen.ListToolCallsRequestObject) (gen.ListToolCallsResponseObject, error) {
	p := r.Params
	page, err := h.s.deps.Sessions.Calls(ctx, actorFrom(ctx).Tenant, assembly.CallFilter{Session: p.Session, Agent: p.Agent, Tool: p.Tool,
		Status: ingest.Status(p.Status), From: p.From, To: p.To, Limit: pageSize(p.Limit), Cursor: p.Cursor})
	if err != nil {
		return nil, storeError(err)
	}
	return gen.ListToolCalls200JSONResponse{NextCursor: page.Next, Items: list(page.Items, func(c assembly.ListedCall) gen.ListedCall {
		return gen.ListedCall{SessionID: c.Session, Run: c.Run, Agent: c.Agent, Call: sessionCall(c.Call)}
	})}, nil
}
