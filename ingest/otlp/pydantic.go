package otlp

import (
	"cmp"
	"strings"

	"pave/ingest"
	"pave/ingest/rawjson"
)

// pydanticAI: pydantic-ai and Logfire. From version 3 of its instrumentation it follows the GenAI conventions; before,
// tools had keys of their own, and before mid-2025 no operation. A span "running 2 tools" is only a parent.
var pydanticAI = dialect{name: "pydantic-ai", role: pydanticRole, tool: pydanticTool, model: pydanticModel, agent: pydanticAgent}

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

// pydanticModel: before it followed the conventions for messages, all of a model call's, the answer last, were events in one
// attribute.
func pydanticModel(r *record, m *modelCall) {
	genAIModel(r, m)
	events := r.json(kPydanticEvents)
	if events == nil || r.has[kInputMessages] {
		return
	}
	var last []byte
	m.asked, m.history = readMessages(nil), readMessages(nil)
	rawjson.Elements(events, func(event []byte) bool {
		if answer := rawjson.Get(event, "message"); answer != nil {
			m.asked.visit(answer, "", 0)
			return true
		}
		m.history.visit(event, "", 0)
		last = event
		return true
	})
	m.user, m.hasUser = userText(last)
}

func pydanticAgent(r *record, e *ingest.Event) {
	e.Agent = cmp.Or(r.str(kAgentName, kPydanticAgent), strings.TrimPrefix(r.text(r.name), "invoke_agent "))
	e.RunID = r.str(kAgentRun)
}
