package demo

import (
	"context"
	"encoding/json"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// dialect names the attribute conventions that an agent's telemetry follows.
type dialect int

const (
	genAI         dialect = iota // OpenTelemetry GenAI semantic conventions
	openInference                // OpenInference
)

// telemetry exports one agent's spans with the OpenTelemetry SDK to an OTLP/HTTP receiver.
type telemetry struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	agent    string
	dialect  dialect
}

// newTelemetry exports to endpoint ("http://host:port") with the given API key.
func newTelemetry(ctx context.Context, endpoint, key, agent string, d dialect) (*telemetry, error) {
	exporter, err := otlptracehttp.New(ctx,
		otlptracehttp.WithEndpointURL(endpoint+"/v1/traces"),
		otlptracehttp.WithHeaders(map[string]string{"Authorization": "Bearer " + key}),
		otlptracehttp.WithCompression(otlptracehttp.GzipCompression))
	if err != nil {
		return nil, err
	}
	p := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(exporter, sdktrace.WithBatchTimeout(200*time.Millisecond)),
		sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", agent))))
	return &telemetry{provider: p, tracer: p.Tracer("pave-demo-agent"), agent: agent, dialect: d}, nil
}

// close exports what is left.
func (t *telemetry) close(ctx context.Context) error { return t.provider.Shutdown(ctx) }

// conversation is the telemetry of one ticket: an agent span with model-call and tool-call spans under it. Its
// clock is the ticket's own: model calls take scripted time, tool calls the time they really took.
type conversation struct {
	t       *telemetry
	session string
	ctx     context.Context
	root    trace.Span
	now     time.Time
	prompt  int // tokens of the context so far
}

const model = "gpt-4o"

func (t *telemetry) start(session string, at time.Time) *conversation {
	c := &conversation{t: t, session: session, now: at, prompt: 850}
	attrs := []attribute.KeyValue{attribute.String("openinference.span.kind", "AGENT"), attribute.String("session.id", session), attribute.String("agent.name", t.agent)}
	if t.dialect == genAI {
		attrs = []attribute.KeyValue{attribute.String("gen_ai.operation.name", "invoke_agent"), attribute.String("gen_ai.agent.name", t.agent), attribute.String("gen_ai.conversation.id", session)}
	}
	c.ctx, c.root = t.tracer.Start(context.Background(), "invoke_agent "+t.agent, trace.WithTimestamp(at), trace.WithAttributes(attrs...))
	return c
}

func (c *conversation) end() { c.root.End(trace.WithTimestamp(c.now)) }

// modelCall records one call of the scripted model: what the user said last ("" when nothing new), and what it
// took. The prompt grows with everything the agent has seen.
func (c *conversation) modelCall(userText string, seen int, took time.Duration) {
	c.prompt += seen/4 + len(userText)/4 + 40
	output := 35 + seen%23
	var attrs []attribute.KeyValue
	name := "chat " + model
	if c.t.dialect == genAI {
		attrs = []attribute.KeyValue{
			attribute.String("gen_ai.operation.name", "chat"), attribute.String("gen_ai.provider.name", "openai"),
			attribute.String("gen_ai.request.model", model), attribute.String("gen_ai.response.model", model),
			attribute.Int("gen_ai.usage.input_tokens", c.prompt), attribute.Int("gen_ai.usage.output_tokens", output),
		}
		if userText != "" {
			attrs = append(attrs, attribute.String("gen_ai.input.messages", string(mustJSON([]any{
				map[string]any{"role": "user", "parts": []any{map[string]any{"type": "text", "content": userText}}}}))))
		}
	} else {
		name = "ChatModel"
		attrs = []attribute.KeyValue{
			attribute.String("openinference.span.kind", "LLM"), attribute.String("session.id", c.session), attribute.String("llm.model_name", model),
			attribute.Int("llm.token_count.prompt", c.prompt), attribute.Int("llm.token_count.completion", output), attribute.Int("llm.token_count.total", c.prompt+output),
		}
		if userText != "" {
			attrs = append(attrs,
				attribute.String("llm.input_messages.0.message.role", "user"),
				attribute.String("llm.input_messages.0.message.content", userText))
		}
	}
	_, span := c.t.tracer.Start(c.ctx, name, trace.WithTimestamp(c.now), trace.WithAttributes(attrs...), trace.WithSpanKind(trace.SpanKindClient))
	c.now = c.now.Add(took)
	span.End(trace.WithTimestamp(c.now))
}

// toolCall records one executed tool call that started at c.now. It does not move the clock: calls of one turn
// are parallel.
func (c *conversation) toolCall(call, tool string, args map[string]any, result json.RawMessage, failure string, took time.Duration) {
	input := string(mustJSON(args))
	var attrs []attribute.KeyValue
	name := "execute_tool " + tool
	if c.t.dialect == genAI {
		attrs = []attribute.KeyValue{
			attribute.String("gen_ai.operation.name", "execute_tool"), attribute.String("gen_ai.tool.name", tool), attribute.String("gen_ai.tool.type", "function"),
			attribute.String("gen_ai.tool.call.id", call), attribute.String("gen_ai.tool.call.arguments", input),
		}
		if failure == "" {
			attrs = append(attrs, attribute.String("gen_ai.tool.call.result", string(result)))
		} else {
			attrs = append(attrs, attribute.String("error.type", "tool_error"))
		}
	} else {
		name = tool
		attrs = []attribute.KeyValue{
			attribute.String("openinference.span.kind", "TOOL"), attribute.String("session.id", c.session), attribute.String("tool.name", tool), attribute.String("tool.id", call),
			attribute.String("input.value", input), attribute.String("input.mime_type", "application/json"),
		}
		if failure == "" {
			attrs = append(attrs, attribute.String("output.value", string(result)), attribute.String("output.mime_type", "application/json"))
		}
	}
	_, span := c.t.tracer.Start(c.ctx, name, trace.WithTimestamp(c.now), trace.WithAttributes(attrs...))
	if failure != "" {
		span.SetStatus(codes.Error, failure)
	} else if c.t.dialect == openInference {
		span.SetStatus(codes.Ok, "")
	}
	span.End(trace.WithTimestamp(c.now.Add(took)))
}

// mustJSON encodes values that always encode: strings, numbers, maps and slices of them.
func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
