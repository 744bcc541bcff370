import { OpenAIAgentsInstrumentation } from '@arizeai/openinference-instrumentation-openai-agents';
import { setSession } from '@arizeai/openinference-core';
import * as agents from '@openai/agents';
import { context } from '@opentelemetry/api';
import { sessions, turns, tools, schemas, question, provider } from './scenario.mjs';

const p = provider();
const instrumentation = new OpenAIAgentsInstrumentation({ tracerProvider: p });
instrumentation.manuallyInstrument?.(agents);
const model = {
  async getResponse({ input }) {
    const answered = typeof input === 'string' ? 0 : input.filter((i) => i.type === 'function_call_result').length;
    const turn = turns[{ 0: 0, 2: 1, 3: 2 }[answered]];
    const output = turn
      ? turn.map((c) => ({ type: 'function_call', callId: c.id, name: c.name, arguments: JSON.stringify(c.args), status: 'completed' }))
      : [{ type: 'message', role: 'assistant', status: 'completed', content: [{ type: 'output_text', text: 'done' }] }];
    return { usage: new agents.Usage({ inputTokens: 10, outputTokens: 5, totalTokens: 15, requests: 1 }), output };
  },
  async *getStreamedResponse() {},
};
for (const sessionId of sessions) {
  const agent = new agents.Agent({
    name: 'support',
    model,
    tools: Object.keys(tools).map((name) => agents.tool({ name, description: name, parameters: schemas[name], execute: tools[name] })),
  });
  await context.with(setSession(context.active(), { sessionId }), () => agents.run(agent, question));
}
await agents.getGlobalTraceProvider().forceFlush();
await p.forceFlush();
process.exit(0);
