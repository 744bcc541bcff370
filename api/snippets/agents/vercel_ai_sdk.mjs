// Vercel AI SDK: flows as tools over MCP (@ai-sdk/mcp), telemetry over OTLP. Run by a test of make test-clients, with a
// stand-in for the model.
import { createMCPClient } from "@ai-sdk/mcp";
import { openai } from "@ai-sdk/openai";
import { generateText, stepCountIs } from "ai";

const pave = await createMCPClient({
  transport: { type: "http", url: (process.env.PAVE_URL ?? "http://127.0.0.1:8318") + "/mcp", headers: { Authorization: `Bearer ${process.env.PAVE_KEY}` } },
});
const { text } = await generateText({
  model: openai("gpt-4o"),
  tools: await pave.tools(), // beside the agent's own
  stopWhen: stepCountIs(5),
  prompt: "Where is my order W1?",
  telemetry: { isEnabled: true }, // spans go where the OpenTelemetry SDK of the process sends them
});
console.log(text);
await pave.close();
