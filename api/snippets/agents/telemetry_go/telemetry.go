// Package telemetry sends tool calls to pave with the OpenTelemetry SDK, in the GenAI conventions. Run by a test.
package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Provider exports spans to pave. Shut it down at the end, so that the last ones are sent.
func Provider(ctx context.Context, server, key string) (*sdktrace.TracerProvider, error) {
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(server+"/v1/traces"),
		otlptracehttp.WithHeaders(map[string]string{"Authorization": "Bearer " + key}))
	if err != nil {
		return nil, err
	}
	return sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter)), nil
}

// ToolCall records one call of a tool; arguments and result are JSON.
func ToolCall(ctx context.Context, p *sdktrace.TracerProvider, session, tool, arguments, result string) {
	_, span := p.Tracer("my-agent").Start(ctx, "execute_tool "+tool)
	span.SetAttributes(attribute.String("gen_ai.operation.name", "execute_tool"), attribute.String("gen_ai.tool.name", tool),
		attribute.String("gen_ai.conversation.id", session), attribute.String("gen_ai.tool.call.arguments", arguments),
		attribute.String("gen_ai.tool.call.result", result))
	span.End()
}
