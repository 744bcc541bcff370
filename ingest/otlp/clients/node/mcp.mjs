// An MCP client and server in one process; the session of OpenLLMetry's instrumentation is the connection's trace.
import { McpInstrumentation } from '@traceloop/instrumentation-mcp';
import { sessions, turns, tools, schemas, attempt, provider } from './scenario.mjs';

const p = provider();
const instrumentation = new McpInstrumentation();
instrumentation.setTracerProvider(p);
const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
const { McpServer } = await import('@modelcontextprotocol/sdk/server/mcp.js');
const { InMemoryTransport } = await import('@modelcontextprotocol/sdk/inMemory.js');

instrumentation.manuallyInstrument({ Client });
for (const _ of sessions) {
  const server = new McpServer({ name: 'shop', version: '1' });
  for (const name of Object.keys(tools)) {
    server.registerTool(name, { inputSchema: schemas[name].shape }, async (args) => ({
      content: [{ type: 'text', text: JSON.stringify(await tools[name](args)) }],
    }));
  }
  const client = new Client({ name: 'agent', version: '1' });
  const [a, b] = InMemoryTransport.createLinkedPair();
  await Promise.all([server.connect(a), client.connect(b)]);
  for (const turn of turns) for (const c of turn) await attempt(() => client.callTool({ name: c.name, arguments: c.args }));
  await client.close();
}
await p.forceFlush();
