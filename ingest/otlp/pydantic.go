package otlp

import (
	"cmp"
	"strings"

	"pave/ingest"
)

// pydanticAI: pydantic-ai and Logfire. From version 3 of its instrumentation it follows the GenAI conventions; before,
// tools had keys of their own, and before mid-2025 no operation. A span "running 2 tools" is only a parent.
var pydanticAI = dialect{name: "pydantic-ai", role: pydanticRole, tool: pydanticTool, model: genAIModel, agent: pydanticAgent}

func pydanticRole(r *record) role {
	own := r.scope == "pydantic-ai" || r.has[kPydanticArgs] || r.has[kPydanticResponse] || r.has[kPydanticFailure]
	switch {
	case r.name == "running tool" && r.has[kToolName]:
		return roleTool
	case !own:
		return roleNone
	case r.str(kOperation) == "" && r.has[kToolName] && (r.has[kPydanticArgs] || r.has[kPydanticResponse]):
		return roleTool
	case r.str(kOperation) == "" && r.has[kPydanticAgent]:
		return roleAgent
	}
	return genAIRole(r)
}

func pydanticTool(r *record, e *ingest.Event) {
	c := e.Call
	c.Tool, c.CallID = r.str(kToolName), r.str(kToolCallID)
	c.Args = ingest.NormaliseArgs(r.json(kToolArgs, kPydanticArgs))
	c.Result = unwrapResult(r.json(kToolResult, kPydanticResponse))
	e.Agent = r.str(kAgentName, kPydanticAgent)
	r.finish(c, r.has[kPydanticFailure], r.str(kPydanticFailure))
}

func pydanticAgent(r *record, e *ingest.Event) {
	e.Agent = cmp.Or(r.str(kAgentName, kPydanticAgent), strings.TrimPrefix(r.text(r.name), "invoke_agent "))
	e.RunID = r.str(kAgentRun)
}
