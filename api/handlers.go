package api

import (
	"context"
	"runtime"
	"time"

	"pave/api/gen"
	"pave/ingest/store"
)

// handlers implements the operations of the contract. Each decodes, calls one domain method and encodes.
type handlers struct{ s *Server }

var _ gen.StrictServerInterface = (*handlers)(nil)

// GetHealth says that the process is alive.
func (h *handlers) GetHealth(context.Context, gen.GetHealthRequestObject) (gen.GetHealthResponseObject, error) {
	return gen.GetHealth200JSONResponse{Status: "ok"}, nil
}

// GetReadiness says whether requests should be sent here.
func (h *handlers) GetReadiness(ctx context.Context, _ gen.GetReadinessRequestObject) (gen.GetReadinessResponseObject, error) {
	reasons := present(h.s.deps.Status.Ready(ctx))
	if h.s.draining.Load() {
		reasons = append(reasons, "draining: the service is stopping")
	}
	if len(reasons) > 0 {
		return gen.GetReadiness503JSONResponse{Ready: false, Reasons: reasons}, nil
	}
	return gen.GetReadiness200JSONResponse{Ready: true, Reasons: reasons}, nil
}

// GetVersion names the build.
func (h *handlers) GetVersion(context.Context, gen.GetVersionRequestObject) (gen.GetVersionResponseObject, error) {
	return gen.GetVersion200JSONResponse{Version: h.s.opts.Version, Go: runtime.Version(), Revision: h.s.opts.Revision, API: "v1"}, nil
}

// GetService says what the service holds, for how long, and what it could not take.
func (h *handlers) GetService(ctx context.Context, _ gen.GetServiceRequestObject) (gen.GetServiceResponseObject, error) {
	stats, err := h.s.deps.Status.Stats(ctx)
	if err != nil {
		return nil, storeError(err)
	}
	out := gen.GetService200JSONResponse{StartedAt: utc(h.s.started), RetentionDays: int(h.s.deps.Status.Retention() / (24 * time.Hour)),
		Stored: stored(stats),
		Lost:   []gen.Lost{}, DeadLetters: h.s.deps.DeadLetters.Count()}
	h.s.deps.Losses.each(func(kind Loss, n int64, last time.Time) {
		what := gen.LostWhatRecords
		if kind.Requests {
			what = gen.LostWhatRequests
		}
		out.Lost = append(out.Lost, gen.Lost{Via: gen.LostVia(kind.Via), What: what, Reason: kind.Reason, Count: n, LastAt: utc(last)})
	})
	return out, nil
}

func stored(stats store.Stats) gen.Stored {
	return gen.Stored{Events: stats.Events, ToolCalls: stats.ToolCalls, LlmCalls: stats.LLMCalls, Sessions: stats.Sessions,
		WaitingSessions: stats.DirtySessions, Runs: stats.Runs, Bytes: stats.Bytes}
}
