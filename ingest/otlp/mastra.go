package otlp

import (
	"cmp"
	"strings"

	"pave/ingest"
)

// mastra: the GenAI conventions with marks of its own. Its chunks and steps repeat the calls of others.
var mastra = dialect{name: "mastra", role: mastraRole, tool: mastraTool, model: genAIModel, agent: mastraAgent}

func mastraRole(r *record) role {
	if !r.has[kMastraType] && !r.has[kMastraRun] && !strings.HasPrefix(r.scope, "@mastra/") {
		return roleNone
	}
	switch r.str(kMastraType) {
	case "tool_call", "mcp_tool_call":
		return roleTool
	case "model_generation":
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
