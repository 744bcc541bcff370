package api

import (
	"context"
	"encoding/json"
	"io"
	"net/http"

	"pave/api/gen"
	"pave/executor"
	"pave/flows"
	"pave/flows/export"
	"pave/governance/runs"
)

// CompileFlow checks a flow against what is registered.
func (h *handlers) CompileFlow(ctx context.Context, r gen.CompileFlowRequestObject) (gen.CompileFlowResponseObject, error) {
	doc, err := flowDocument(r)
	if err != nil {
		return nil, err
	}
	flow, warnings, err := flows.ParseFlow(doc)
	if err != nil {
		return nil, err
	}
	compiled, err := h.s.deps.Runs.Compile(ctx, actorFrom(ctx), flow)
	if err != nil {
		return nil, err
	}
	return gen.CompileFlow200JSONResponse(CompileReport(compiled, warnings)), nil
}

// flowDocument is the body as a flow file.
func flowDocument(r gen.CompileFlowRequestObject) ([]byte, error) {
	if r.JSONBody != nil {
		return *r.JSONBody, nil
	}
	if r.Body == nil {
		return nil, flows.NewError(flows.CodeUnsupportedMedia, "send the flow as application/json or application/yaml")
	}
	return io.ReadAll(r.Body)
}

// CompileReport writes what compiling told, with the warnings of reading the file.
func CompileReport(c *runs.Compiled, warnings []flows.Warning) gen.CompileReport {
	out := gen.CompileReport{Flow: c.Flow.Name, Version: c.Flow.Version, Digest: c.Digest, Ok: !executor.HasErrors(c.Diagnostics),
		Diagnostics: []gen.Diagnostic{}, InputSchema: c.InputSchema, Unbound: c.Unbound}
	for _, w := range warnings {
		out.Diagnostics = append(out.Diagnostics, gen.Diagnostic{Severity: gen.DiagnosticSeverityWarning, Code: "file_warning", Pointer: w.Pointer,
			Message: w.Message, StepIndex: len(c.Flow.Steps)})
	}
	for _, d := range c.Diagnostics {
		out.Diagnostics = append(out.Diagnostics, gen.Diagnostic{Severity: gen.DiagnosticSeverity(d.Severity), Code: d.IssueType, Pointer: d.Pointer,
			Message: d.Detail, StepIndex: d.StepIndex, ToolName: d.ToolName, FieldName: d.FieldName})
	}
	return out
}

// ExportFlow writes a flow version as a tool definition.
func (h *handlers) ExportFlow(ctx context.Context, r gen.ExportFlowRequestObject) (gen.ExportFlowResponseObject, error) {
	out, err := h.s.deps.Runs.Export(ctx, actorFrom(ctx), r.Name, r.Version, export.Target(r.Params.For), r.Params.As)
	return rawJSON(out), err
}

// GetFlowSchema serves the schema of flow files.
func (h *handlers) GetFlowSchema(context.Context, gen.GetFlowSchemaRequestObject) (gen.GetFlowSchemaResponseObject, error) {
	return flowSchema, nil
}

// flowSchema is only read.
var flowSchema = rawJSON(flows.FormatSchema())

// rawJSON is an answer that is JSON already.
type rawJSON []byte

func (d rawJSON) write(w http.ResponseWriter) error {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	_, err := w.Write(d)
	return err
}

// VisitExportFlowResponse implements gen.ExportFlowResponseObject.
func (d rawJSON) VisitExportFlowResponse(w http.ResponseWriter) error { return d.write(w) }

// VisitGetFlowSchemaResponse implements gen.GetFlowSchemaResponseObject.
func (d rawJSON) VisitGetFlowSchemaResponse(w http.ResponseWriter) error { return d.write(w) }

// VisitExplainFlowResponse implements gen.ExplainFlowResponseObject.
func (d rawJSON) VisitExplainFlowResponse(w http.ResponseWriter) error { return d.write(w) }

// VisitReplayRunResponse implements gen.ReplayRunResponseObject.
func (d rawJSON) VisitReplayRunResponse(w http.ResponseWriter) error { return d.write(w) }

// VisitGetRunLessonResponse implements gen.GetRunLessonResponseObject.
func (d rawJSON) VisitGetRunLessonResponse(w http.ResponseWriter) error { return d.write(w) }

// ExplainFlow says what a flow version will do.
func (h *handlers) ExplainFlow(ctx context.Context, r gen.ExplainFlowRequestObject) (gen.ExplainFlowResponseObject, error) {
	e, err := h.s.deps.Runs.Explain(ctx, actorFrom(ctx), r.Name, r.Version)
	if err != nil {
		return nil, err
	}
	out, err := json.Marshal(e)
	return rawJSON(out), err
}

// ReplayRun runs a recorded run again.
func (h *handlers) ReplayRun(ctx context.Context, r gen.ReplayRunRequestObject) (gen.ReplayRunResponseObject, error) {
	var req runs.ReplayRequest
	if r.Body != nil {
		params, err := objectOf("dynamic_params", r.Body.DynamicParams)
		if err != nil {
			return nil, err
		}
		req = runs.ReplayRequest{Mode: string(r.Body.Mode), FromStep: r.Body.FromStep, DynamicParams: params}
	}
	report, err := h.s.deps.Runs.Replay(ctx, actorFrom(ctx), r.ID, req)
	if err != nil {
		return nil, err
	}
	out, err := json.Marshal(report)
	return rawJSON(out), err
}

// ListCapabilities lists what others may call by capability id.
func (h *handlers) ListCapabilities(ctx context.Context, r gen.ListCapabilitiesRequestObject) (gen.ListCapabilitiesResponseObject, error) {
	all, err := h.s.deps.Runs.Capabilities(ctx, actorFrom(ctx))
	if err != nil {
		return nil, err
	}
	page, next, err := pageByName(all, func(c runs.Capability) string { return c.Name }, r.Params.Limit, r.Params.Cursor)
	if err != nil {
		return nil, err
	}
	return gen.ListCapabilities200JSONResponse{Items: list(page, capabilityOf), NextCursor: next}, nil
}

func capabilityOf(c runs.Capability) gen.Capability {
	out := gen.Capability{ID: c.ID, Kind: gen.CapabilityKind(runs.KindFlow), Name: c.Name, Version: c.Version, Description: c.Description,
		InputSchema: c.InputSchema, OutputSchema: c.OutputSchema,
		Safety: gen.CapabilitySafety{SideEffects: gen.SideEffects(flows.Effects(c.Safety))}}
	if c.Safety != nil {
		out.Safety.ReadOnly, out.Safety.Idempotent, out.Safety.RequiresApproval = c.Safety.ReadOnly(), c.Safety.Idempotent, c.Safety.RequiresApproval
	}
	return out
}

// GetFlowProfile measures the recorded runs of a flow.
func (h *handlers) GetFlowProfile(ctx context.Context, r gen.GetFlowProfileRequestObject) (gen.GetFlowProfileResponseObject, error) {
	p, err := h.s.deps.Runs.Profile(ctx, actorFrom(ctx), r.Name, r.Params.Version)
	if err != nil {
		return nil, err
	}
	return gen.GetFlowProfile200JSONResponse{Flow: p.Flow, Version: p.Version, Runs: p.Runs, Failed: p.Failed, Total: durationsOf(p.Total),
		Steps: list(p.Steps, stepProfileOf)}, nil
}

func stepProfileOf(s runs.StepProfile) gen.StepProfile {
	return gen.StepProfile{StepIndex: s.StepIndex, StepID: s.StepID, ToolName: s.ToolName, Records: s.Calls, Failed: s.Failed, Skipped: s.Skipped,
		Cached: s.Cached, Retries: s.Retries, Fallbacks: s.Fallbacks, Durations: durationsOf(s.Durations)}
}

func durationsOf(d runs.Durations) gen.Durations {
	return gen.Durations{Count: d.Count, P50Ms: d.P50, P95Ms: d.P95, P99Ms: d.P99, MeanMs: d.Mean, StddevMs: d.StdDev, MaxMs: d.Max, Unsteady: d.Unsteady}
}
