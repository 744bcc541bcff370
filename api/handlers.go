package api

import (
	"context"
	"runtime"

	"pave/api/gen"
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
