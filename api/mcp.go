package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"pave/api/gen"
	"pave/flows/export"
	"pave/governance/openapi"
)

const mcpPath = "/mcp"

// serveMCP hands a request of an MCP client to the flows' server. Calls may take as long as runs, streams stay open; both
// end with the client, streams also when the service drains.
func (s *Server) serveMCP(c echo.Context) error {
	r := c.Request()
	limits := http.NewResponseController(c.Response())
	_, _ = limits.SetWriteDeadline(time.Time{}), limits.SetReadDeadline(time.Time{}) // in-process callers have none
	if r.Method == http.MethodGet || r.Header.Get("Mcp-Method") == "subscriptions/listen" {
		ctx, stop := context.WithCancel(r.Context())
		defer stop()
		go func() {
			select {
			case <-s.drained:
				stop()
			case <-ctx.Done():
			}
		}()
		r = r.WithContext(ctx)
	}
	s.deps.MCP.ServeHTTP(c.Response(), r, actorFrom(r.Context()))
	return nil
}

// ExportOpenAPI describes the active flows for those who import OpenAPI documents.
func (h *handlers) ExportOpenAPI(ctx context.Context, _ gen.ExportOpenAPIRequestObject) (gen.ExportOpenAPIResponseObject, error) {
	offers, err := h.s.deps.Runs.Offers(ctx, actorFrom(ctx))
	if err != nil {
		return nil, err
	}
	list := make([]openapi.Flow, len(offers))
	for i, o := range offers {
		list[i] = openapi.Flow{Name: o.Flow.Name, Version: o.Flow.Version, Description: o.Flow.Description, Input: o.InputSchema, Output: o.OutputSchema}
	}
	doc, err := openapi.Document("", h.s.opts.Version, list)
	return rawJSON(doc), err
}

// VisitExportOpenAPIResponse implements gen.ExportOpenAPIResponseObject.
func (d rawJSON) VisitExportOpenAPIResponse(w http.ResponseWriter) error { return d.write(w) }

// ExportTools lists the active flows as tool definitions.
func (h *handlers) ExportTools(ctx context.Context, r gen.ExportToolsRequestObject) (gen.ExportToolsResponseObject, error) {
	target := export.Target(r.Params.For)
	if target == "" {
		target = export.OpenAI
	}
	offers, err := h.s.deps.Runs.Offers(ctx, actorFrom(ctx))
	if err != nil {
		return nil, err
	}
	out := gen.ExportTools200JSONResponse{}
	for _, o := range offers {
		doc, err := h.s.deps.Runs.Export(ctx, actorFrom(ctx), o.Flow.Name, o.Flow.Version, target, "")
		if err != nil {
			h.s.log.InfoContext(ctx, "a flow is left out of the export", "flow", o.Flow.Name, "target", string(target), "error", err)
			continue
		}
		if !json.Valid(doc) {
			return nil, fmt.Errorf("definition of flow %s is not JSON", o.Flow.Name)
		}
		out = append(out, doc)
	}
	return out, nil
}
