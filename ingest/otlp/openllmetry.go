package otlp

import (
	"cmp"
	"strings"

	"pave/ingest"
	"pave/ingest/rawjson"
)

// openLLMetry: OpenLLMetry's decorators and its MCP instrumentation. In JavaScript a span ends only where its call
// succeeded, so failed calls are never seen and rates of success from it say nothing.
var openLLMetry = dialect{name: "traceloop", role: openLLMetryRole, tool: openLLMetryTool, agent: openLLMetryAgent}

func openLLMetryRole(r *record) role {
	switch kind := r.str(kTlKind); {
	case kind == "tool":
		return roleTool
	case kind == "agent":
		return roleAgent
	case kind != "", r.has[kTlInput]:
		return roleLink
	}
	return roleNone
}

func openLLMetryTool(r *record, e *ingest.Event) {
	c := e.Call
	c.Tool, c.CallID = cmp.Or(r.str(kToolName, kTlName), strings.TrimSuffix(r.text(r.name), ".tool")), r.str(kToolCallID)
	args := openLLMetryArgs(r.json(kToolArgs, kTlInput))
	result, failed := openLLMetryResult(r)
	if own := r.json(kToolResult); own != nil {
		result = own
	}
	c.Args, c.Result = ingest.NormaliseArgs(args), unwrapResult(pythonText(result))
	e.Agent = r.str(kAgentName)
	r.finish(c, failed || toolMessageFailed(result), "")
}

// openLLMetryArgs unwraps the entity's input: of a decorator {args, kwargs}, of an MCP request {tool_name, arguments}, of
// a LangChain callback {input_str, inputs, tags, metadata, kwargs}. Arguments of no such form are left as they are.
func openLLMetryArgs(input []byte) []byte {
	switch {
	case rawjson.Kind(input) != '{':
		return input
	case rawjson.Get(input, "tool_name") != nil && rawjson.Get(input, "arguments") != nil && countMembers(input) == 2:
		return rawjson.Get(input, "arguments")
	case rawjson.Get(input, "input_str") != nil && rawjson.Get(input, "tags") != nil:
		if inputs := rawjson.Get(input, "inputs"); rawjson.Kind(inputs) == '{' {
			return inputs
		}
		return pythonText(rawjson.Get(input, "input_str"))
	}
	return unwrapCallArgs(input)
}

// openLLMetryResult unwraps the entity's output: of an MCP request {result, is_error}, of a LangChain callback {output, kwargs}.
func openLLMetryResult(r *record) (result []byte, failed bool) {
	result = r.json(kTlOutput)
	failed = rawjson.Kind(rawjson.Get(result, "is_error")) == 't'
	if inner := rawjson.Get(result, "result"); inner != nil && (failed || strings.HasSuffix(r.name, ".tool") && countMembers(result) <= 2) {
		result = inner
	}
	if output := rawjson.Get(result, "output"); output != nil && rawjson.Get(result, "kwargs") != nil && countMembers(result) == 2 {
		result = ingest.NormaliseResult(output)
	}
	return result, failed
}

func openLLMetryAgent(r *record, e *ingest.Event) {
	e.Agent = cmp.Or(r.str(kAgentName, kTlName), r.text(r.name))
}
