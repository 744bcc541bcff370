// Vercel AI SDK: flows as tools over MCP, telemetry over OTLP. NOT RUN by a test: it needs a model.
import { generateText, experimental_createMCPClient as createMCPClient } from "ai";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { openai } from "@ai-sdk/openai";

const pave = await createMCPClient({
  transport: new StreamableHTTPClientTransport(new URL("http://127.0.0.1:8318/mcp"), {
    requestInit: { headers: { Authorization: `Bearer ${process.env.PAVE_KEY}` } },
  }),
});
const { text } = await generateText({
  model: openai("gpt-4o"),
  tools: await pave.tools(), // beside the agent's own
  prompt: "Where is my order W1?",
  experimental_telemetry: { isEnabled: true }, // spans go where the OpenTelemetry SDK of the process sends them
});
console.log(text);
await pave.close();
