package otlp

import (
	"cmp"
	"strings"

	"pave/ingest"
	"pave/ingest/rawjson"
)

// traceloop: OpenLLMetry's decorators and its MCP instrumentation; LangSmith's and Mastra's own marks of tools, which
// name them by the span.
var traceloop = dialect{name: "traceloop", role: traceloopRole, tool: traceloopTool, agent: traceloopAgent}

func traceloopRole(r *record) role {
	switch kind := r.str(kTlKind); {
	case kind == "tool", r.str(kLsKind) == "tool", r.str(kMastraType) == "tool_call":
		return roleTool
	case kind == "agent":
		return roleAgent
	case kind != "", r.has[kTlInput], r.has[kLsKind], r.has[kMastraType]:
		return roleLink
	}
	return roleNone
}

func traceloopTool(r *record, e *ingest.Event) {
	c := e.Call
	c.Tool = cmp.Or(r.str(kTlName, kToolName), strings.TrimSuffix(r.text(r.name), ".tool"))
	args, result := r.json(kTlInput, kToolArgs, kPrompt), r.json(kTlOutput, kToolResult, kCompletion)
	switch {
	case rawjson.Get(args, "tool_name") != nil: // MCP: {tool_name, arguments}
		args = rawjson.Get(args, "arguments")
	case rawjson.Get(args, "kwargs") != nil: // decorators: {args, kwargs}
		if positional := rawjson.Get(args, "args"); len(positional) == 0 || string(positional) == "[]" {
			args = rawjson.Get(args, "kwargs")
		}
	}
	failed := rawjson.Kind(rawjson.Get(result, "is_error")) == 't'
	if inner := rawjson.Get(result, "result"); inner != nil && (failed || strings.HasSuffix(r.name, ".tool")) {
		result = inner
	}
	c.Args, c.Result = ingest.NormaliseArgs(args), unwrapResult(result)
	r.finish(c, failed, "")
}

func traceloopAgent(r *record, e *ingest.Event) {
	e.Agent = cmp.Or(r.str(kAgentName, kTlName), r.text(r.name))
}
