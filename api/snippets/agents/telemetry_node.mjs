// Sends a tool call to pave as an OpenTelemetry span over OTLP/HTTP, with fetch only, in the GenAI conventions. With the
// OpenTelemetry SDK the same attributes go on a span of your tracer. Run by a test.
import { randomBytes } from "node:crypto";

const [server, key] = process.argv.slice(2);
const attribute = (name, text) => ({ key: name, value: { stringValue: text } });
const now = BigInt(Date.now()) * 1_000_000n;
const span = {
  traceId: randomBytes(16).toString("hex"), spanId: randomBytes(8).toString("hex"), name: "execute_tool get_order", kind: 1,
  startTimeUnixNano: String(now - 10_000_000n), endTimeUnixNano: String(now),
  attributes: [attribute("gen_ai.operation.name", "execute_tool"), attribute("gen_ai.tool.name", "get_order"),
    attribute("gen_ai.conversation.id", "snippet"), attribute("gen_ai.tool.call.arguments", JSON.stringify({ order_id: "W1" })),
    attribute("gen_ai.tool.call.result", JSON.stringify({ status: "delivered" }))],
};
const body = { resourceSpans: [{ resource: { attributes: [attribute("service.name", "support")] }, scopeSpans: [{ spans: [span] }] }] };
const response = await fetch(`${server}/v1/traces`, {
  method: "POST", headers: { authorization: `Bearer ${key}`, "content-type": "application/json" }, body: JSON.stringify(body),
});
console.log(response.status);
