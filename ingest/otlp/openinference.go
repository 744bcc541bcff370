package otlp

import (
	"cmp"
	"strconv"
	"strings"

	"pave/ingest"
)

// openInference: the conventions of Phoenix and Arize, written by instrumentations of LangChain, LlamaIndex, CrewAI,
// the OpenAI Agents SDK and others.
var openInference = dialect{name: "openinference", role: openInferenceRole, tool: openInferenceTool,
	model: openInferenceModel, agent: openInferenceAgent}

func openInferenceRole(r *record) role {
	switch r.str(kOIKind) {
	case "TOOL":
		return roleTool
	case "LLM":
		return roleModel
	case "AGENT":
		return roleAgent
	case "":
		return roleNone
	}
	return roleLink
}

// openInferenceTool: a tool with exactly one text argument is given the bare text, its name is lost.
func openInferenceTool(r *record, e *ingest.Event) {
	c := e.Call
	c.Tool, c.CallID = cmp.Or(r.str(kOIToolName), r.text(r.name)), r.str(kOIToolID)
	c.Args, c.Result = ingest.NormaliseArgs(r.json(kInputValue)), unwrapResult(r.json(kOutputValue))
	e.Agent = r.str(kOIAgent, kOIRole)
	r.finish(c, false, "")
}

func openInferenceModel(r *record, m *modelCall) {
	m.Model = r.str(kOIModel, kResponseModel, kRequestModel)
	m.InputTokens, m.OutputTokens = r.tokens(kOIPromptTokens), r.tokens(kOICompletionTokens)
	m.CachedTokens = r.tokens(kOICacheRead)
	m.CostUSD, m.HasCost = r.float(kOICost)
	m.callIDs = indexedIDs(r, "llm.output_messages.", ".tool_call.id")
	m.user, m.hasUser = lastUserIndexed(r, "llm.input_messages.")
}

// lastUserIndexed finds the message of the highest number among llm.input_messages.<n>.message.role and .content.
func lastUserIndexed(r *record, prefix string) (text string, isUser bool) {
	last, role, content := -1, "", ""
	for name, v := range r.all.All() {
		rest, ok := strings.CutPrefix(name, prefix)
		if !ok {
			continue
		}
		number, field, _ := strings.Cut(rest, ".")
		n, err := strconv.Atoi(number)
		if err != nil || n < last {
			continue
		}
		if n > last {
			last, role, content = n, "", ""
		}
		switch {
		case field == "message.role":
			role = v.AsString()
		case field == "message.content", content == "" && strings.HasSuffix(field, ".message_content.text"):
			content = r.text(v.AsString())
		}
	}
	if role != "user" && role != "human" {
		return "", false
	}
	return content, true
}

func openInferenceAgent(r *record, e *ingest.Event) {
	e.Agent = cmp.Or(r.str(kOIAgent, kAgentName, kOINode), r.text(r.name))
	e.RunID = r.str(kAgentRun)
}
