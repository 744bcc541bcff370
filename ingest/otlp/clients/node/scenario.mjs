// What every client here does: two sessions; in each the agent searches orders and asks for the weather in one turn, then
// twice tries a refund that fails. No model is called: each framework is given one that follows this script.
import { NodeTracerProvider, BatchSpanProcessor } from '@opentelemetry/sdk-trace-node';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import { z } from 'zod';

export const sessions = ['sess-A', 'sess-B'];
export const question = 'refund o-1';

export const turns = [
  [
    { id: 'call_1', name: 'search_orders', args: { customer: 'Zoë "Z" 李' } },
    { id: 'call_2', name: 'get_weather', args: { city: 'Paris' } },
  ],
  [{ id: 'call_3', name: 'refund', args: { order: 'o-1', amount: 12.5 } }],
  [{ id: 'call_4', name: 'refund', args: { order: 'o-1', amount: 12.5 } }],
];

export const tools = {
  search_orders: async ({ customer }) => ({ orders: [{ id: 'o-1', customer, total: 12.5 }] }),
  get_weather: async ({ city }) => `Sunny in ${city}`,
  refund: async () => {
    throw new Error('payment gateway timeout');
  },
};

export const schemas = {
  search_orders: z.object({ customer: z.string() }),
  get_weather: z.object({ city: z.string() }),
  refund: z.object({ order: z.string(), amount: z.number() }),
};

// attempt runs a call and gives its failure to nobody, as agents do that go on.
export async function attempt(run) {
  try {
    return await run();
  } catch {
    return undefined;
  }
}

// url is where the receiver of OTLP over HTTP is.
export const url = (path) => process.env.PAVE_OTLP_HTTP + path;

// provider sends spans as protobuf, gzipped.
export function provider(extra = {}) {
  const exporter = new OTLPTraceExporter({ url: url('/v1/traces'), compression: 'gzip' });
  const p = new NodeTracerProvider({ spanProcessors: [new BatchSpanProcessor(exporter)], ...extra });
  p.register();
  return p;
}
