// The OpenTelemetry SDK by hand, following the GenAI conventions. The argument is the transport: proto, json or grpc.
import { NodeTracerProvider, BatchSpanProcessor } from '@opentelemetry/sdk-trace-node';
import { trace, context, SpanStatusCode } from '@opentelemetry/api';
import { sessions, turns, tools, attempt, url } from './scenario.mjs';

const transport = process.argv[2];
const packages = {
  proto: '@opentelemetry/exporter-trace-otlp-proto',
  json: '@opentelemetry/exporter-trace-otlp-http',
  grpc: '@opentelemetry/exporter-trace-otlp-grpc',
};
const { OTLPTraceExporter } = await import(packages[transport]);
const target = transport === 'grpc' ? 'http://' + process.env.PAVE_OTLP_GRPC : url('/v1/traces');
const provider = new NodeTracerProvider({
  spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter({ url: target }))],
});
provider.register();
const tracer = trace.getTracer('by-hand');

const span = (name, attributes, parent, run) =>
  tracer.startActiveSpan(name, { attributes }, parent, async (s) => {
    try {
      return await run(s);
    } catch (e) {
      s.recordException(e);
      s.setStatus({ code: SpanStatusCode.ERROR, message: e.message });
      throw e;
    } finally {
      s.end();
    }
  });

for (const id of sessions) {
  const agent = { 'gen_ai.operation.name': 'invoke_agent', 'gen_ai.agent.name': 'support', 'gen_ai.conversation.id': id };
  await span('invoke_agent support', agent, context.active(), async () => {
    for (const turn of turns) {
      const calls = turn.map((c) => ({ type: 'tool_call', id: c.id, name: c.name, arguments: c.args }));
      const chat = {
        'gen_ai.operation.name': 'chat',
        'gen_ai.request.model': 'scripted',
        'gen_ai.usage.input_tokens': 10,
        'gen_ai.usage.output_tokens': 5,
        'gen_ai.output.messages': JSON.stringify([{ role: 'assistant', parts: calls }]),
      };
      await span('chat scripted', chat, context.active(), async () => {});
      await Promise.all(
        turn.map((c) => {
          const tool = {
            'gen_ai.operation.name': 'execute_tool',
            'gen_ai.tool.name': c.name,
            'gen_ai.tool.call.id': c.id,
            'gen_ai.tool.call.arguments': JSON.stringify(c.args),
          };
          return attempt(() =>
            span('execute_tool ' + c.name, tool, context.active(), async (s) => {
              s.setAttribute('gen_ai.tool.call.result', JSON.stringify(await tools[c.name](c.args)));
            }),
          );
        }),
      );
    }
  });
}
await provider.forceFlush();
await provider.shutdown();
