package api

import (
	"context"
	"fmt"

	"pave/api/gen"
	"pave/flows"
	"pave/governance"
	"pave/ingest"
)

// DeleteSession removes one session for good.
func (h *handlers) DeleteSession(ctx context.Context, r gen.DeleteSessionRequestObject) (gen.DeleteSessionResponseObject, error) {
	receipt, err := h.s.deps.Deletions.DeleteSessions(ctx, actorFrom(ctx), governance.DeletionRequest{Sessions: []string{r.ID}})
	if err != nil {
		return nil, storeError(err)
	}
	if receipt.Sessions == 0 && receipt.Events == 0 && receipt.Runs == 0 {
		return nil, flows.NewError(flows.CodeNotFound, fmt.Sprintf("there is no session %q", r.ID))
	}
	return gen.DeleteSession200JSONResponse(deletionReceipt(receipt)), nil
}

// CreateDeletion removes the sessions that a request describes.
func (h *handlers) CreateDeletion(ctx context.Context, r gen.CreateDeletionRequestObject) (gen.CreateDeletionResponseObject, error) {
	receipt, err := h.s.deps.Deletions.DeleteSessions(ctx, actorFrom(ctx), governance.DeletionRequest{
		Sessions: r.Body.Sessions, User: r.Body.User, From: r.Body.From, To: r.Body.To})
	if err != nil {
		return nil, storeError(err)
	}
	return gen.CreateDeletion200JSONResponse(deletionReceipt(receipt)), nil
}

func deletionReceipt(r *governance.DeletionReceipt) gen.DeletionReceipt {
	return gen.DeletionReceipt{ID: r.ID, At: utc(r.At), By: r.By, Sessions: r.Sessions, Events: r.Events, ToolCalls: r.ToolCalls,
		GoldenTests: r.GoldenTests, Proposals: r.Proposals, ReplayChecks: r.ReplayChecks, MiningRuns: r.MiningRuns, Runs: r.Runs, RunsOpen: r.RunsOpen}
}

// PreviewRedaction shows what would be hidden in a document; nothing is kept of it.
func (h *handlers) PreviewRedaction(_ context.Context, r gen.PreviewRedactionRequestObject) (gen.PreviewRedactionResponseObject, error) {
	p := h.s.deps.Redaction.Preview(r.Body.Payload)
	return gen.PreviewRedaction200JSONResponse{Payload: p.Payload, Marks: list(p.Marks, redactionMark)}, nil
}

func redactionMark(m ingest.RedactionMark) gen.RedactionMark {
	return gen.RedactionMark{Pointer: m.Pointer, Kind: m.Kind, Token: m.Token}
}
