package telemetry

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"pave/executor"
	"pave/flows/value"
	"pave/governance/runs"
)

// maxValue is the longest argument or result that a span carries, in bytes of JSON; of longer ones it says that they
// were left out.
const maxValue = 64 << 10

// Attributes of spans, beside those of the GenAI conventions.
const (
	attrOperation    = "gen_ai.operation.name"
	attrTool         = "gen_ai.tool.name"
	attrWorkflow     = "gen_ai.workflow.name" // what the conventions call a flow
	attrErrorType    = "error.type"
	opTool           = "execute_tool"
	opFlow           = "invoke_workflow"
	attrLeftOut      = "pave.values_left_out"
	attrFlowVersion  = "pave.flow.version"
	attrRun          = "pave.run.id"
	attrRunStatus    = "pave.run.status"
	attrCallsAvoided = "pave.run.llm_calls_avoided"
)

// record makes the spans of a run.
func (e *Exporter) record(run *runs.Finished) error {
	var result *executor.RunResult
	if run.Result != nil {
		var err error
		if result, err = executor.DecodeResult(run.Result); err != nil {
			return fmt.Errorf("result: %w", err)
		}
	}
	ctx := context.WithValue(context.Background(), stateKey{}, stateOf(run.ID))
	traceID := run.TraceID
	if result != nil && traceID == "" {
		traceID = result.TraceID
	}
	ctx = parent(ctx, traceID, run.ParentSpanID)
	attrs := []attribute.KeyValue{attribute.String(attrOperation, opFlow), attribute.String(attrWorkflow, run.Flow),
		attribute.String(attrFlowVersion, run.Version), attribute.String(attrRun, run.ID), attribute.String(attrRunStatus, run.State),
		attribute.Float64(attrCallsAvoided, run.LLMCallsAvoided)}
	if result != nil {
		attrs = e.value(attrs, "pave.run.input", result.InitialInput)
		attrs = e.value(attrs, "pave.run.output", result.FinalOutput)
	}
	ctx, span := e.tracer.Start(ctx, opFlow+" "+run.Flow, trace.WithTimestamp(run.Started), trace.WithAttributes(attrs...))
	if result != nil {
		e.steps(ctx, &place{run: run, trace: traceID}, result.ExecutionLog)
	}
	if run.ErrorCode != "" {
		fail(span, run.ErrorCode)
	}
	span.End(trace.WithTimestamp(run.Ended))
	return nil
}

// place is where in a run records belong: path begins the paths of its calls, see executor.CallInfo.
type place struct {
	run   *runs.Finished
	trace string
	path  string
}

// steps makes the spans of records, those of elements and called flows below them. What was skipped called nothing.
func (e *Exporter) steps(ctx context.Context, at *place, log []executor.StepRecord) {
	for i := range log {
		rec := &log[i]
		if rec.Skipped || rec.StartedAt.IsZero() || rec.ToolName == "" && rec.FlowName == nil {
			continue
		}
		path := at.path + strconv.Itoa(rec.StepIndex)
		if len(rec.Elements) == 0 {
			e.step(ctx, at, path, rec)
			continue
		}
		for k := range rec.Elements {
			e.step(ctx, at, path+":"+strconv.Itoa(k), &rec.Elements[k])
		}
	}
}

func (e *Exporter) step(ctx context.Context, at *place, path string, rec *executor.StepRecord) {
	if rec.Skipped || rec.StartedAt.IsZero() {
		return
	}
	info := executor.CallInfo{RunID: at.run.ID, TraceID: at.trace, Path: path, StepIndex: rec.StepIndex, StepID: rec.StepID,
		Attempt: rec.RetryCount + 1, Fallback: rec.FallbackUsed}
	name, op := rec.ToolName, opTool
	attrs := []attribute.KeyValue{attribute.String(attrRun, at.run.ID), attribute.String("pave.step.path", path), attribute.Int("pave.step.retries", rec.RetryCount)}
	switch {
	case rec.SubResult != nil:
		name, op = rec.SubResult.FlowName, opFlow
		attrs = append(attrs, attribute.String(attrWorkflow, name), attribute.String(attrFlowVersion, rec.SubResult.FlowVersion))
	default:
		if rec.FallbackUsed && rec.FallbackToolName != nil {
			name, info.Attempt = *rec.FallbackToolName, 1
		}
		attrs = append(attrs, attribute.String(attrTool, name), attribute.String("gen_ai.tool.type", "function"),
			attribute.String("gen_ai.tool.call.id", info.Key()), attribute.Bool("pave.step.cached", rec.Cached), attribute.Bool("pave.step.fallback", rec.FallbackUsed))
		attrs = e.value(attrs, "gen_ai.tool.call.arguments", rec.Inputs)
		if rec.Success {
			attrs = e.value(attrs, "gen_ai.tool.call.result", rec.Outputs)
		}
	}
	attrs = append(attrs, attribute.String(attrOperation, op))
	// The tool was given this span's id as its parent, so that what it exports itself hangs below the step.
	ctx, span := e.tracer.Start(context.WithValue(ctx, spanKey{}, spanOf(info)), op+" "+name, trace.WithTimestamp(rec.StartedAt), trace.WithAttributes(attrs...))
	if rec.SubResult != nil {
		e.steps(ctx, &place{run: at.run, trace: at.trace, path: path + "/"}, rec.SubResult.ExecutionLog)
	}
	if !rec.Success {
		code := "_OTHER"
		if rec.ErrorCode != nil {
			code = *rec.ErrorCode
		}
		fail(span, code)
	}
	span.End(trace.WithTimestamp(rec.EndedAt))
}

// fail marks a span. Messages are left out: they quote values.
func fail(span trace.Span, code string) {
	span.SetAttributes(attribute.String(attrErrorType, code))
	span.SetStatus(codes.Error, code)
}

// value adds a value as JSON where values are exported and it is not too long.
func (e *Exporter) value(attrs []attribute.KeyValue, key string, v map[string]any) []attribute.KeyValue {
	if !e.values || v == nil {
		return attrs
	}
	text := value.Encode(v)
	if len(text) > maxValue {
		return append(attrs, attribute.Bool(attrLeftOut, true))
	}
	return append(attrs, attribute.String(key, string(text)))
}

// parent is a context whose spans belong to the trace, below the caller's span where it is known.
func parent(ctx context.Context, traceID, spanID string) context.Context {
	var c trace.SpanContextConfig
	var err error
	if c.TraceID, err = trace.TraceIDFromHex(strings.ToLower(strings.ReplaceAll(traceID, "-", ""))); err != nil {
		return ctx // the spans make a trace of their own
	}
	if c.SpanID, err = trace.SpanIDFromHex(spanID); err == nil {
		c.Remote = true
	}
	return trace.ContextWithSpanContext(ctx, trace.NewSpanContext(c))
}

// spanOf is the id that the call's traceparent carried; zero for none.
func spanOf(info executor.CallInfo) (id trace.SpanID) {
	if parts := strings.Split(info.Traceparent(), "-"); len(parts) == 4 {
		_, _ = hex.Decode(id[:], []byte(parts[2])) // it is 16 hex digits
	}
	return id
}

// stateOf is the trace state that marks the spans of a run, by which a receiver of pave knows them.
func stateOf(runID string) trace.TraceState {
	state, err := trace.ParseTraceState(executor.CallInfo{RunID: runID}.Tracestate())
	if err != nil {
		return trace.TraceState{}
	}
	return state
}

type (
	stateKey struct{}
	spanKey  struct{}
)

// givenIDs takes the id of a span from its context, where it has one.
type givenIDs struct{}

// NewIDs implements sdktrace.IDGenerator.
func (g givenIDs) NewIDs(ctx context.Context) (id trace.TraceID, span trace.SpanID) {
	_, _ = rand.Read(id[:]) // crypto/rand never fails
	return id, g.NewSpanID(ctx, id)
}

// NewSpanID implements sdktrace.IDGenerator.
func (givenIDs) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	if id, ok := ctx.Value(spanKey{}).(trace.SpanID); ok && id.IsValid() {
		return id
	}
	var id trace.SpanID
	_, _ = rand.Read(id[:])
	return id
}

// all keeps every span, with the trace state of its run.
type all struct{}

// ShouldSample implements sdktrace.Sampler.
func (all) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	state, _ := p.ParentContext.Value(stateKey{}).(trace.TraceState)
	return sdktrace.SamplingResult{Decision: sdktrace.RecordAndSample, Tracestate: state}
}

// Description implements sdktrace.Sampler.
func (all) Description() string { return "all" }
