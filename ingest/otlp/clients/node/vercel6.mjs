import { generateText, tool, stepCountIs } from 'ai6';
import { MockLanguageModelV3 } from 'ai6/test';
import { sessions, turns, tools, schemas, question, provider } from './scenario.mjs';

const p = provider();
const usage = { inputTokens: { total: 10, noCache: 10, cacheRead: 0, cacheWrite: 0 }, outputTokens: { total: 5, text: 5, reasoning: 0 } };
const model = new MockLanguageModelV3({
  doGenerate: async ({ prompt }) => {
    const turn = turns[prompt.filter((m) => m.role === 'tool').length];
    const content = turn
      ? turn.map((c) => ({ type: 'tool-call', toolCallId: c.id, toolName: c.name, input: JSON.stringify(c.args) }))
      : [{ type: 'text', text: 'done' }];
    return { content, finishReason: { unified: turn ? 'tool-calls' : 'stop', raw: undefined }, usage, warnings: [] };
  },
});
for (const sessionId of sessions) {
  await generateText({
    model,
    prompt: question,
    stopWhen: stepCountIs(6),
    tools: Object.fromEntries(Object.keys(tools).map((n) => [n, tool({ inputSchema: schemas[n], execute: tools[n] })])),
    experimental_telemetry: { isEnabled: true, functionId: 'support', metadata: { sessionId } },
  });
}
await p.forceFlush();
