package otlp

import (
	"cmp"

	"pave/ingest"
	"pave/ingest/rawjson"
)

// adk: Google's Agent Development Kit. Payloads are in keys of its own; a failed tool is an error in the result, which
// is not looked into.
var adk = dialect{name: "adk", role: adkRole, tool: adkTool, model: adkModel, agent: adkAgent}

func adkRole(r *record) role {
	switch {
	case r.scope != "gcp.vertex.agent" && !r.has[kAdkArgs] && !r.has[kAdkResponse] && !r.has[kAdkInvocation]:
		return roleNone
	case r.str(kOperation) == "" && r.name == "call_llm":
		return roleModel
	}
	return genAIRole(r)
}

func adkTool(r *record, e *ingest.Event) {
	c := e.Call
	c.Tool, c.CallID = r.str(kToolName), r.str(kToolCallID)
	args, result := r.json(kToolArgs, kAdkArgs), r.json(kToolResult, kAdkResponse)
	if string(args) == "{}" && string(result) == "{}" { // what it writes where content is not captured
		args, result = nil, nil
	}
	c.Args, c.Result = ingest.NormaliseArgs(args), unwrapResult(result)
	e.Agent = r.str(kAgentName)
	r.finish(c, false, "")
}

func adkModel(r *record, m *modelCall) {
	genAIModel(r, m)
	if answer := r.json(kAdkAnswer); len(m.asked.calls) == 0 && answer != nil {
		m.asked = readMessages(answer)
	}
	contents := rawjson.Get(r.json(kAdkRequest), "contents")
	if contents == nil {
		return
	}
	if m.history == nil || len(m.history.calls) == 0 {
		m.history = readMessages(contents)
	}
	if !m.hasUser {
		m.user, m.hasUser = lastUser(contents)
	}
}

func adkAgent(r *record, e *ingest.Event) {
	genAIAgent(r, e)
	e.RunID = cmp.Or(e.RunID, r.str(kAdkInvocation))
}
