package otlp

import "pave/ingest"

// springAI: Spring AI's observations. The operation is that of the GenAI conventions, the names are its own, and
// content is there only where it was switched on.
var springAI = dialect{name: "spring-ai", role: springRole, tool: springTool, model: genAIModel, agent: genAIAgent}

func springRole(r *record) role {
	switch {
	case r.has[kSpringTool] && (r.str(kSpringKind) == "tool_call" || r.str(kOperation) == "execute_tool"):
		return roleTool
	case r.has[kSpringKind] && r.str(kOperation) == "":
		return roleLink
	case r.has[kSpringKind]:
		return genAIRole(r)
	}
	return roleNone
}

func springTool(r *record, e *ingest.Event) {
	c := e.Call
	c.Tool, c.CallID = r.str(kSpringTool, kToolName), r.str(kSpringCallID, kToolCallID)
	c.Args, c.Result = ingest.NormaliseArgs(r.json(kSpringArgs, kToolArgs)), unwrapResult(r.json(kSpringResult, kToolResult))
	r.finish(c, false, "")
}
