import { LangChainInstrumentation } from '@arizeai/openinference-instrumentation-langchain';
import { setSession } from '@arizeai/openinference-core';
import * as callbacks from '@langchain/core/callbacks/manager';
import { tool } from '@langchain/core/tools';
import { context } from '@opentelemetry/api';
import { sessions, turns, tools, schemas, attempt, provider } from './scenario.mjs';

process.env.LANGCHAIN_CALLBACKS_BACKGROUND = 'false'; // or spans are made in the context of whoever called first
const p = provider();
new LangChainInstrumentation({ tracerProvider: p }).manuallyInstrument(callbacks);
for (const sessionId of sessions) {
  await context.with(setSession(context.active(), { sessionId }), async () => {
    for (const turn of turns) {
      await Promise.all(
        turn.map((c) =>
          attempt(() => tool(tools[c.name], { name: c.name, description: c.name, schema: schemas[c.name] }).invoke(c.args)),
        ),
      );
    }
  });
}
await p.forceFlush();
