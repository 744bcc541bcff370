import { sessions, turns, tools, attempt, question, url } from './scenario.mjs';

Object.assign(process.env, {
  LANGSMITH_TRACING: 'true',
  LANGSMITH_OTEL_ENABLED: 'true',
  LANGSMITH_API_KEY: 'none',
  LANGSMITH_PROJECT: 'a-project-is-no-session',
  LANGSMITH_ENDPOINT: process.env.PAVE_OTLP_HTTP,
});
const { initializeOTEL } = await import('langsmith/experimental/otel/setup');
const { DEFAULT_LANGSMITH_SPAN_PROCESSOR: processor } = initializeOTEL({ exporterConfig: { url: url('/v1/traces') } });
const { traceable } = await import('langsmith/traceable');
const { RunTree } = await import('langsmith/run_trees');
for (const session_id of sessions) {
  const agent = async () => {
    for (const turn of turns) {
      await Promise.all(turn.map((c) => attempt(() => traceable(tools[c.name], { name: c.name, run_type: 'tool' })(c.args))));
    }
  };
  await traceable(agent, { name: 'support', run_type: 'chain', metadata: { session_id } })(question);
}
await RunTree.getSharedClient().awaitPendingTraceBatches();
await processor.forceFlush();
