package api

import (
	"context"
	"encoding/base64"

	"pave/api/gen"
	"pave/ingest/deadletter"
)

// ListDeadLetters pages the requests that could not be read.
func (h *handlers) ListDeadLetters(ctx context.Context, r gen.ListDeadLettersRequestObject) (gen.ListDeadLettersResponseObject, error) {
	after, err := base64.RawURLEncoding.DecodeString(r.Params.Cursor)
	if err != nil {
		return nil, errCursor
	}
	limit := pageSize(r.Params.Limit)
	letters, err := h.s.deps.DeadLetters.List(actorFrom(ctx).Tenant, string(after), limit)
	if err != nil {
		return nil, err
	}
	out := gen.ListDeadLetters200JSONResponse{Items: list(letters, deadLetter)}
	if len(letters) == limit {
		out.NextCursor = base64.RawURLEncoding.EncodeToString([]byte(letters[limit-1].ID))
	}
	return out, nil
}

func deadLetter(l deadletter.Letter) gen.DeadLetter {
	return gen.DeadLetter{ID: l.ID, ReceivedAt: utc(l.Received), Signal: l.Signal, Encoding: l.Encoding, Reason: l.Reason, Bytes: l.Size}
}

// RetryDeadLetter takes a request again.
func (h *handlers) RetryDeadLetter(ctx context.Context, r gen.RetryDeadLetterRequestObject) (gen.RetryDeadLetterResponseObject, error) {
	stats, err := h.s.deps.DeadLetters.Retry(ctx, actorFrom(ctx).Tenant, r.ID)
	if err != nil {
		return nil, storeError(err)
	}
	return gen.RetryDeadLetter200JSONResponse{Records: stats.Total, Events: stats.Events, Filtered: stats.Filtered, Rejected: stats.Rejected}, nil
}

// DeleteDeadLetter drops a request for good.
func (h *handlers) DeleteDeadLetter(ctx context.Context, r gen.DeleteDeadLetterRequestObject) (gen.DeleteDeadLetterResponseObject, error) {
	if err := h.s.deps.DeadLetters.Delete(actorFrom(ctx).Tenant, r.ID); err != nil {
		return nil, err
	}
	return gen.DeleteDeadLetter204Response{}, nil
}
