import { LangfuseSpanProcessor } from '@langfuse/otel';
import { startActiveObservation, propagateAttributes } from '@langfuse/tracing';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import { sessions, turns, tools, attempt, provider, url } from './scenario.mjs';

const exporter = new OTLPTraceExporter({ url: url('/v1/traces') });
const p = provider({ spanProcessors: [new LangfuseSpanProcessor({ exporter, publicKey: 'pk', secretKey: 'sk' })] });
for (const sessionId of sessions) {
  await propagateAttributes({ sessionId }, () =>
    startActiveObservation(
      'support',
      async () => {
        for (const turn of turns) {
          await Promise.all(
            turn.map((c) =>
              attempt(() =>
                startActiveObservation(
                  c.name,
                  async (o) => {
                    o.update({ input: c.args });
                    try {
                      o.update({ output: await tools[c.name](c.args) });
                    } catch (e) {
                      o.update({ level: 'ERROR', statusMessage: e.message });
                      throw e;
                    }
                  },
                  { asType: 'tool' },
                ),
              ),
            ),
          );
        }
      },
      { asType: 'agent' },
    ),
  );
}
await p.forceFlush();
