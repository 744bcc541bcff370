// OpenAI Agents SDK for JavaScript: flows as tools over MCP. Run by a test of make test-clients, with a stand-in for the model.
import { Agent, MCPServerStreamableHttp, run } from "@openai/agents";

const pave = new MCPServerStreamableHttp({
  name: "pave", url: (process.env.PAVE_URL ?? "http://127.0.0.1:8318") + "/mcp",
  requestInit: { headers: { Authorization: `Bearer ${process.env.PAVE_KEY}` } },
});
await pave.connect();
const agent = new Agent({ name: "support", instructions: "Prefer a flow to its single steps.", mcpServers: [pave] });
console.log((await run(agent, "Where is my order W1?")).finalOutput);
await pave.close();
