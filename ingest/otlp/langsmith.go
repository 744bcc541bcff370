package otlp

import (
	"cmp"

	"pave/ingest"
	"pave/ingest/rawjson"
)

// langSmith: its runs as spans. Arguments and result of a tool are where a model's prompt and answer are; a failed run
// has an exception and the status OK.
var langSmith = dialect{name: "langsmith", role: langSmithRole, tool: langSmithTool, model: genAIModel, agent: genAIAgent}

func langSmithRole(r *record) role {
	switch r.str(kLsKind) {
	case "":
		return roleNone
	case "tool":
		return roleTool
	case "llm":
		return roleModel
	}
	return cmp.Or(genAIRole(r), roleLink)
}

func langSmithTool(r *record, e *ingest.Event) {
	c := e.Call
	c.Tool, c.CallID = cmp.Or(r.str(kToolName), r.text(r.name)), r.str(kToolCallID)
	args, result := r.json(kToolArgs, kPrompt), r.json(kToolResult, kCompletion)
	if text := only(args, "input"); rawjson.Kind(text) == '"' { // LangChain gives tools their arguments as text
		args = pythonText(text)
	}
	raw := result
	for _, envelope := range []string{"output", "outputs"} {
		if inner := only(result, envelope); inner != nil {
			result = inner
		}
	}
	c.Args, c.Result = ingest.NormaliseArgs(args), unwrapResult(result)
	e.Agent = r.str(kAgentName)
	r.finish(c, toolMessageFailed(raw), "")
}
