import { Agent, Model, tool } from '@strands-agents/sdk';
import { sessions, turns, tools, schemas, question, provider } from './scenario.mjs';

const p = provider();
class Scripted extends Model {
  updateConfig() {}
  getConfig() {
    return { modelId: 'scripted' };
  }
  async *stream(messages) {
    const answered = messages.flatMap((m) => m.content).filter((b) => b.type === 'toolResultBlock').length;
    const turn = turns[{ 0: 0, 2: 1, 3: 2 }[answered]];
    yield { type: 'modelMessageStartEvent', role: 'assistant' };
    for (const c of turn ?? []) {
      yield { type: 'modelContentBlockStartEvent', start: { type: 'toolUseStart', name: c.name, toolUseId: c.id } };
      yield { type: 'modelContentBlockDeltaEvent', delta: { type: 'toolUseInputDelta', input: JSON.stringify(c.args) } };
      yield { type: 'modelContentBlockStopEvent' };
    }
    if (!turn) {
      yield { type: 'modelContentBlockStartEvent' };
      yield { type: 'modelContentBlockDeltaEvent', delta: { type: 'textDelta', text: 'done' } };
      yield { type: 'modelContentBlockStopEvent' };
    }
    yield { type: 'modelMessageStopEvent', stopReason: turn ? 'toolUse' : 'endTurn' };
    yield { type: 'modelMetadataEvent', usage: { inputTokens: 10, outputTokens: 5, totalTokens: 15 } };
  }
}
for (const id of sessions) {
  const agent = new Agent({
    model: new Scripted(),
    printer: false,
    traceAttributes: { 'session.id': id },
    tools: Object.keys(tools).map((name) => tool({ name, description: name, inputSchema: schemas[name], callback: tools[name] })),
  });
  await agent.invoke(question);
}
await p.forceFlush();
