package otlp

import (
	"cmp"
	"strings"

	"pave/ingest"
	"pave/ingest/rawjson"
)

// mastra: the GenAI conventions with marks of its own. A generation is the whole loop of an agent: its steps are the model
// calls, and the inference in a step, where there is one, has the model and the tokens. Older versions write the generation
// as a chat with the tokens of all its steps. Chunks repeat the calls of others.
var mastra = dialect{name: "mastra", role: mastraRole, tool: mastraTool, model: mastraModel, agent: mastraAgent}

func mastraRole(r *record) role {
	if !r.has[kMastraType] && !r.has[kMastraRun] && !strings.HasPrefix(r.scope, "@mastra/") {
		return roleNone
	}
	switch r.str(kMastraType) {
	case "tool_call", "mcp_tool_call":
		return roleTool
	case "model_generation", "llm_generation":
		if r.str(kOperation) == "chat" {
			return roleModel
		}
		return roleLink
	case "model_step", "llm_step", "model_inference":
		return roleModel
	case "agent_run":
		return roleAgent
	case "":
		return cmp.Or(genAIRole(r), roleLink)
	}
	return roleLink
}

func mastraTool(r *record, e *ingest.Event) {
	genAITool(r, e)
	if e.Call.Tool == "" {
		e.Call.Tool = strings.TrimPrefix(r.text(r.name), "execute_tool ")
	}
}

func mastraAgent(r *record, e *ingest.Event) {
	genAIAgent(r, e)
	e.RunID = cmp.Or(e.RunID, r.str(kMastraRun))
}

// mastraModel: what a step was given and answered is in keys of its own, with the calls it asked for.
func mastraModel(r *record, m *modelCall) {
	genAIModel(r, m)
	if input := r.json(kMastraStepInput); input != nil && !m.hasUser {
		m.user, m.hasUser = lastUser(firstOf(rawjson.Get(input, "messages"), input))
	}
	if output := r.json(kMastraStepOutput); output != nil && len(m.asked.calls) == 0 {
		m.asked = readMessages(output)
	}
}
