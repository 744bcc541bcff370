package main

// telemetryClient is a client whose telemetry is read, with the settings that make it send all that is needed. In settings,
// {{.URL}} is the receiver and {{.GRPC}} the one over gRPC. content, session and tools say what to do when these are missing.
type telemetryClient struct {
	name, what, settings    string
	content, session, tools string
}

// telemetryClients in the order of the list.
var telemetryClients = []telemetryClient{
	{name: "claude-code", what: "Claude Code: logs, and spans with content",
		content: "OTEL_LOG_TOOL_DETAILS=1 for arguments, the beta spans with OTEL_LOG_TOOL_CONTENT=1 for results", session: "session.id is on every record unless it was switched off",
		tools: "OTEL_LOGS_EXPORTER=otlp, and ask it for something that needs a tool", settings: `export OTEL_EXPORTER_OTLP_ENDPOINT={{.URL}}
export OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf
export OTEL_EXPORTER_OTLP_HEADERS="Authorization=Bearer $INGEST_KEY"
export CLAUDE_CODE_ENABLE_TELEMETRY=1
export OTEL_LOGS_EXPORTER=otlp
export OTEL_LOG_USER_PROMPTS=1
export OTEL_LOG_TOOL_DETAILS=1
# results are only in its spans (beta):
export CLAUDE_CODE_ENHANCED_TELEMETRY_BETA=1
export OTEL_TRACES_EXPORTER=otlp
export OTEL_LOG_TOOL_CONTENT=1
claude
`},
	{name: "codex", what: "Codex CLI: ~/.codex/config.toml",
		content: "", session: "conversation.id is on every record",
		tools: "the exporter of logs; its spans are not needed", settings: `[otel]
environment = "dev"
log_user_prompt = true

[otel.exporter.otlp-http]
endpoint = "{{.URL}}/v1/logs"
protocol = "binary"
headers = { Authorization = "Bearer <INGEST_KEY>" }
`},
	{name: "gemini-cli", what: "Gemini CLI: ~/.gemini/settings.json",
		content: `"traces": true, which carry results; "logPrompts": true`, session: "session.id is on every record",
		tools: "ask it for something that needs a tool", settings: `{
  "telemetry": {
    "enabled": true,
    "traces": true,
    "target": "local",
    "useCollector": false,
    "otlpProtocol": "http",
    "otlpEndpoint": "{{.URL}}",
    "logPrompts": true
  }
}
# it sends no headers: serve with --insecure-no-auth on loopback, or set OTEL_EXPORTER_OTLP_HEADERS
`},
	{name: "opentelemetry", what: "any program with an OpenTelemetry SDK that follows the GenAI conventions",
		content: "gen_ai.tool.call.arguments and gen_ai.tool.call.result are opt-in: see your instrumentation", session: "set gen_ai.conversation.id on the agent's span, or session.id on any of the trace",
		tools: "the spans named execute_tool are switched off, or tools run outside of the instrumented process", settings: `export OTEL_EXPORTER_OTLP_ENDPOINT={{.URL}}
export OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf
export OTEL_EXPORTER_OTLP_HEADERS="Authorization=Bearer $INGEST_KEY"
export OTEL_TRACES_EXPORTER=otlp
export OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true
# or over gRPC: OTEL_EXPORTER_OTLP_PROTOCOL=grpc OTEL_EXPORTER_OTLP_ENDPOINT={{.GRPC}}
`},
	{name: "vercel-ai", what: "Vercel AI SDK 5 and 6, and 7 with @ai-sdk/otel",
		content: "recordInputs and recordOutputs must not be false", session: "metadata: { sessionId } (7: runtimeContext with includeRuntimeContext)",
		tools: "isEnabled: true on each call, and tools with an execute function", settings: `import { NodeTracerProvider, BatchSpanProcessor } from '@opentelemetry/sdk-trace-node';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto';

const exporter = new OTLPTraceExporter({
  url: '{{.URL}}/v1/traces',
  headers: { Authorization: 'Bearer ' + process.env.INGEST_KEY },
});
const provider = new NodeTracerProvider({ spanProcessors: [new BatchSpanProcessor(exporter)] });
provider.register();

// AI SDK 5 and 6
await generateText({ model, tools, prompt, experimental_telemetry: { isEnabled: true, functionId: 'my-agent', metadata: { sessionId } } });
// AI SDK 7
await generateText({ model, tools, prompt, runtimeContext: { sessionId },
  telemetry: { isEnabled: true, includeRuntimeContext: { sessionId: true }, integrations: [new OpenTelemetry({ runtimeContext: true })] } });
await provider.forceFlush();
`},
	{name: "langchain-js", what: "LangChain in JavaScript, through OpenInference",
		content: "OPENINFERENCE_HIDE_INPUTS and _OUTPUTS must not be true", session: "setSession, or metadata: { thread_id } of the run",
		tools: "instrument before the first chain is made", settings: `import { NodeTracerProvider, BatchSpanProcessor } from '@opentelemetry/sdk-trace-node';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto';

const exporter = new OTLPTraceExporter({
  url: '{{.URL}}/v1/traces',
  headers: { Authorization: 'Bearer ' + process.env.INGEST_KEY },
});
const provider = new NodeTracerProvider({ spanProcessors: [new BatchSpanProcessor(exporter)] });
provider.register();

import { LangChainInstrumentation } from '@arizeai/openinference-instrumentation-langchain';
import * as callbacks from '@langchain/core/callbacks/manager';
new LangChainInstrumentation().manuallyInstrument(callbacks);
// the session: context.with(setSession(context.active(), { sessionId }), () => ...) of @arizeai/openinference-core
process.env.LANGCHAIN_CALLBACKS_BACKGROUND = 'false';
`},
	{name: "langchain-python", what: "LangChain and LangGraph in Python, through OpenInference",
		content: "OPENINFERENCE_HIDE_INPUTS and _OUTPUTS must not be true", session: `config={"metadata": {"thread_id": ...}}, or using_session of openinference.instrumentation`,
		tools: "instrument before the first chain is made", settings: `from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
import os

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(
    "{{.URL}}/v1/traces", headers={"Authorization": "Bearer " + os.environ["INGEST_KEY"]})))
trace.set_tracer_provider(provider)

from openinference.instrumentation.langchain import LangChainInstrumentor
LangChainInstrumentor().instrument(tracer_provider=provider)
# the session: graph.invoke(..., config={"metadata": {"thread_id": session}})
`},
	{name: "llama-index", what: "LlamaIndex, through OpenInference",
		content: "OPENINFERENCE_HIDE_INPUTS and _OUTPUTS must not be true", session: "using_session(session) around the agent's run",
		tools: "instrument before the agent is made", settings: `from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
import os

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(
    "{{.URL}}/v1/traces", headers={"Authorization": "Bearer " + os.environ["INGEST_KEY"]})))
trace.set_tracer_provider(provider)

from openinference.instrumentation.llama_index import LlamaIndexInstrumentor
from openinference.instrumentation import using_session
LlamaIndexInstrumentor().instrument(tracer_provider=provider)
with using_session(session):
    ...
`},
	{name: "crewai", what: "CrewAI, through OpenInference",
		content: "OPENINFERENCE_HIDE_INPUTS and _OUTPUTS must not be true", session: "using_session(session) around kickoff",
		tools: "its own telemetry has no tool payloads: the instrumentation is needed, with use_event_listener=True", settings: `from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
import os

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(
    "{{.URL}}/v1/traces", headers={"Authorization": "Bearer " + os.environ["INGEST_KEY"]})))
trace.set_tracer_provider(provider)

from openinference.instrumentation.crewai import CrewAIInstrumentor
from openinference.instrumentation import using_session
CrewAIInstrumentor().instrument(tracer_provider=provider, use_event_listener=True)  # without it, tools have no spans
with using_session(session):
    crew.kickoff()
`},
	{name: "openai-agents", what: "OpenAI Agents SDK, through OpenInference",
		content: "RunConfig(trace_include_sensitive_data=True)", session: "using_session(session): the SDK's group_id is not exported",
		tools: "OPENAI_AGENTS_DISABLE_TRACING must not be set", settings: `from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
import os

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(
    "{{.URL}}/v1/traces", headers={"Authorization": "Bearer " + os.environ["INGEST_KEY"]})))
trace.set_tracer_provider(provider)

from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor
from openinference.instrumentation import using_session
OpenAIAgentsInstrumentor().instrument(tracer_provider=provider)
with using_session(session):
    await Runner.run(agent, text)
`},
	{name: "pydantic-ai", what: "pydantic-ai and Logfire",
		content: "InstrumentationSettings(include_content=True), its default", session: "conversation_id=... of the run",
		tools: "Agent.instrument_all before the run", settings: `from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
import os

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(
    "{{.URL}}/v1/traces", headers={"Authorization": "Bearer " + os.environ["INGEST_KEY"]})))
trace.set_tracer_provider(provider)

from pydantic_ai import Agent
from pydantic_ai.models.instrumented import InstrumentationSettings
Agent.instrument_all(InstrumentationSettings(tracer_provider=provider))
agent.run_sync(text, conversation_id=session)
`},
	{name: "strands", what: "AWS Strands Agents, also in Bedrock AgentCore",
		content: "", session: `trace_attributes={"session.id": ...}`,
		tools: "set up the exporter before the agent is made", settings: `export OTEL_EXPORTER_OTLP_ENDPOINT={{.URL}}
export OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf
export OTEL_EXPORTER_OTLP_HEADERS="Authorization=Bearer $INGEST_KEY"
# Python: StrandsTelemetry().setup_otlp_exporter(); JavaScript: register a NodeTracerProvider
# the session: Agent(..., trace_attributes={"session.id": session})  /  traceAttributes: { 'session.id': session }
`},
	{name: "adk", what: "Google Agent Development Kit",
		content: "ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS=true, and OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY for newer ones in Python", session: "the session of the runner is on its agent spans",
		tools: "a tracer provider must be registered before the runner is made", settings: `export OTEL_EXPORTER_OTLP_ENDPOINT={{.URL}}
export OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf
export OTEL_EXPORTER_OTLP_HEADERS="Authorization=Bearer $INGEST_KEY"
export ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS=true
export OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY
# register a tracer provider with an OTLP exporter before the runner is made
`},
	{name: "agent-framework", what: "Microsoft Agent Framework and Semantic Kernel",
		content: "ENABLE_SENSITIVE_DATA=true", session: "gen_ai.conversation.id is there when the service keeps the thread; else set session.id yourself",
		tools: "the spans named execute_tool are switched off, or tools run outside of the instrumented process", settings: `export OTEL_EXPORTER_OTLP_ENDPOINT={{.URL}}
export OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf
export OTEL_EXPORTER_OTLP_HEADERS="Authorization=Bearer $INGEST_KEY"
export ENABLE_INSTRUMENTATION=true
export ENABLE_SENSITIVE_DATA=true
# Python: from agent_framework.observability import configure_otel_providers; configure_otel_providers()
# Semantic Kernel: SEMANTICKERNEL_EXPERIMENTAL_GENAI_ENABLE_OTEL_DIAGNOSTICS_SENSITIVE=true
`},
	{name: "mastra", what: "Mastra",
		content: "", session: "tracingOptions: { metadata: { sessionId } }",
		tools: "an observability configuration with the OtelExporter", settings: `import { Observability } from '@mastra/observability';
import { OtelExporter } from '@mastra/otel-exporter';

new Mastra({ observability: new Observability({ configs: { otel: { serviceName: 'my-agent', exporters: [new OtelExporter({
  provider: { custom: { endpoint: '{{.URL}}/v1/traces', protocol: 'http/protobuf', headers: { Authorization: 'Bearer ' + process.env.INGEST_KEY } } },
})] } } }) });
// the session: agent.generate(text, { tracingOptions: { metadata: { sessionId } } })
`},
	{name: "langfuse", what: "Langfuse SDK 4 and 5: a second span processor beside Langfuse",
		content: "update({ input, output }) of the tool's observation", session: "propagateAttributes({ sessionId }, ...)",
		tools: "observations of tools need asType: 'tool'", settings: `import { NodeTracerProvider, BatchSpanProcessor } from '@opentelemetry/sdk-trace-node';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto';

const exporter = new OTLPTraceExporter({
  url: '{{.URL}}/v1/traces',
  headers: { Authorization: 'Bearer ' + process.env.INGEST_KEY },
});
const provider = new NodeTracerProvider({ spanProcessors: [new BatchSpanProcessor(exporter)] });
provider.register();

// JavaScript: new LangfuseSpanProcessor({ exporter, publicKey, secretKey }) sends what Langfuse sees to any exporter
// mark tools: startActiveObservation(name, fn, { asType: 'tool' }); the session: propagateAttributes({ sessionId }, fn)
`},
	{name: "langsmith", what: "LangSmith SDK in OpenTelemetry mode",
		content: "LANGSMITH_HIDE_INPUTS and _OUTPUTS must not be true", session: "metadata session_id or thread_id of the run",
		tools: `runs of tools need run_type "tool"`, settings: `export LANGSMITH_TRACING=true
export LANGSMITH_OTEL_ENABLED=true
export OTEL_EXPORTER_OTLP_ENDPOINT={{.URL}}
export OTEL_EXPORTER_OTLP_HEADERS="Authorization=Bearer $INGEST_KEY"
# JavaScript: initializeOTEL() of langsmith/experimental/otel/setup
# the session: metadata: { session_id } or thread_id of the run; a project is no session
`},
	{name: "openllmetry", what: "OpenLLMetry (Traceloop)",
		content: "TRACELOOP_TRACE_CONTENT=true", session: "association property session_id",
		tools: "decorate tools with @tool / withTool; in JavaScript failed calls are never sent", settings: `export TRACELOOP_BASE_URL={{.URL}}
export TRACELOOP_HEADERS="Authorization=Bearer $INGEST_KEY"
export TRACELOOP_TRACE_CONTENT=true
# Python: Traceloop.init(app_name="my-agent"); JavaScript: traceloop.initialize({ appName: 'my-agent' })
# the session: set_association_properties({"session_id": session}) / withAssociationProperties({ session_id }, fn)
`},
	{name: "mcp", what: "MCP clients, through OpenLLMetry",
		content: "TRACELOOP_TRACE_CONTENT must not be false", session: "an MCP connection is no conversation: trace the agent as well",
		tools: "instrument before the client connects", settings: `import { NodeTracerProvider, BatchSpanProcessor } from '@opentelemetry/sdk-trace-node';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto';

const exporter = new OTLPTraceExporter({
  url: '{{.URL}}/v1/traces',
  headers: { Authorization: 'Bearer ' + process.env.INGEST_KEY },
});
const provider = new NodeTracerProvider({ spanProcessors: [new BatchSpanProcessor(exporter)] });
provider.register();

import { McpInstrumentation } from '@traceloop/instrumentation-mcp';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
new McpInstrumentation().manuallyInstrument({ Client });
`},
	{name: "spring-ai", what: "Spring AI: application.properties",
		content: "spring.ai.tools.observations.include-content=true", session: "the advisor's conversation id, ChatMemory.CONVERSATION_ID",
		tools: "spring-boot-starter-actuator and micrometer-tracing-bridge-otel on the class path", settings: `management.otlp.tracing.endpoint={{.URL}}/v1/traces
management.otlp.tracing.headers.Authorization=Bearer ${INGEST_KEY}
management.tracing.sampling.probability=1.0
spring.ai.tools.observations.include-content=true
spring.ai.chat.observations.log-prompt=true
`},
}
