// Calls a flow over MCP with the official TypeScript client. Run by a test against the real service.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [server, key, flow, input] = process.argv.slice(2); // http://127.0.0.1:8318 pave_... refund_quote '{"order_id":"W1"}'
const client = new Client({ name: "my-agent", version: "1.0.0" });
await client.connect(new StreamableHTTPClientTransport(new URL(`${server}/mcp`), {
  requestInit: { headers: { Authorization: `Bearer ${key}` } },
}));

const { tools } = await client.listTools(); // give these to the model
const result = await client.callTool({ name: flow, arguments: JSON.parse(input) });
console.log(JSON.stringify({ tools: tools.map((tool) => tool.name), result }));
await client.close();
