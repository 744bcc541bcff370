package otlp

import (
	"cmp"
	"strings"

	"pave/ingest"
	"pave/ingest/rawjson"
)

// adk: Google's Agent Development Kit. Payloads are in keys of its own; a tool's failure is an error in its result, which
// is not looked into, or, where the tool threw in JavaScript, a span that has its name only.
var adk = dialect{name: "adk", role: adkRole, tool: adkTool, model: adkModel, agent: adkAgent}

func adkRole(r *record) role {
	switch {
	case r.scope != "gcp.vertex.agent" && !r.has[kAdkArgs] && !r.has[kAdkResponse] && !r.has[kAdkInvocation]:
		return roleNone
	case r.str(kOperation) == "" && r.name == "call_llm":
		return roleModel
	case adkThrew(r):
		return roleTool
	}
	return genAIRole(r)
}

const adkToolSpan = "execute_tool "

// adkThrew reports the span of a tool that threw.
func adkThrew(r *record) bool {
	return r.scope == "gcp.vertex.agent" && r.str(kOperation, kToolName) == "" && strings.HasPrefix(r.name, adkToolSpan) && r.name != adkToolSpan+"(merged)"
}

// adkNothing is what it writes where there is no id, or no response yet.
const adkNothing = "<not specified>"

func adkTool(r *record, e *ingest.Event) {
	c := e.Call
	if adkThrew(r) {
		c.Tool = strings.TrimPrefix(r.text(r.name), adkToolSpan)
		_, message := r.failure()
		r.finish(c, true, cmp.Or(message, "the tool threw an error"))
		return
	}
	c.Tool, c.CallID = r.str(kToolName), r.str(kToolCallID)
	args, result := r.json(kToolArgs, kAdkArgs), r.json(kToolResult, kAdkResponse)
	if string(args) == "{}" && string(result) == "{}" { // what it writes where content is not captured
		args, result = nil, nil
	}
	if c.CallID == adkNothing {
		c.CallID = ""
	}
	if rawjson.Text(firstOf(only(result, "result"), result)) == adkNothing { // the tool goes on, or failed
		result = nil
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
