package otlp

import (
	"cmp"
	"strings"

	"pave/ingest"
	"pave/ingest/rawjson"
)

// openInference: the conventions of Phoenix and Arize, written by instrumentations of LangChain, LlamaIndex, CrewAI,
// the OpenAI Agents SDK and others.
var openInference = dialect{name: "openinference", role: openInferenceRole, tool: openInferenceTool,
	model: openInferenceModel, agent: openInferenceAgent}

func openInferenceRole(r *record) role {
	switch strings.ToUpper(r.str(kOIKind)) { // a copy only where people wrote it in small letters
	case "TOOL":
		return roleTool
	case "LLM":
		if strings.HasSuffix(r.name, "._prepare_chat_with_tools") { // LlamaIndex: what comes before its model call
			return roleLink
		}
		return roleModel
	case "AGENT":
		// A node of a LangGraph is called an agent when its name says so; it is a step of the agent's run.
		if meta := r.json(kOIMetadata); meta != nil && rawjson.Text(rawjson.Get(meta, "langgraph_node")) == r.name {
			return roleLink
		}
		return roleAgent
	case "":
		return roleNone
	}
	return roleLink
}

// openInferenceTool: a tool with exactly one text argument may be given the bare text, its name is lost. The parameters
// of a tool are its schema in most instrumentations and its arguments in some.
func openInferenceTool(r *record, e *ingest.Event) {
	c := e.Call
	c.Tool, c.CallID = cmp.Or(r.str(kOIToolName), r.text(r.name)), r.str(kOIToolID)
	args := unwrapCallArgs(pythonText(r.json(kInputValue)))
	if parameters := r.json(kOIParameters); args == nil && rawjson.Kind(parameters) == '{' && !isSchema(parameters) {
		args = parameters
	}
	result := r.json(kOutputValue)
	failed := toolMessageFailed(result)
	if raw := rawjson.Get(result, "raw_output"); raw != nil && rawjson.Get(result, "raw_input") != nil { // LlamaIndex's envelope
		failed = rawjson.Kind(rawjson.Get(result, "is_error")) == 't'
		result = raw
	}
	if strings.HasSuffix(r.scope, "instrumentation-langchain") { // in JavaScript objects are in an envelope
		result = firstOf(only(result, "output"), result)
	}
	c.Args, c.Result = ingest.NormaliseArgs(args), unwrapResult(pythonText(result))
	e.Agent = r.str(kOIAgent, kOIRole)
	r.finish(c, failed, "")
}

func isSchema(raw []byte) bool {
	return rawjson.Get(raw, "properties") != nil || rawjson.Get(raw, "$schema") != nil || rawjson.Text(rawjson.Get(raw, "type")) == "object"
}

func openInferenceModel(r *record, m *modelCall) {
	m.Model = r.str(kOIModel, kResponseModel, kRequestModel)
	m.InputTokens, m.OutputTokens = r.tokens(kOIPromptTokens), r.tokens(kOICompletionTokens)
	m.CachedTokens = r.tokens(kOICacheRead)
	m.CostUSD, m.HasCost = r.float(kOICost)
	m.asked = indexedMessages(r, "llm.output_messages.")
	m.history = indexedMessages(r, "llm.input_messages.")
	m.user, m.hasUser = lastUserIndexed(r, "llm.input_messages.")
}

func openInferenceAgent(r *record, e *ingest.Event) {
	e.Agent = cmp.Or(r.str(kOIAgent, kAgentName, kOINode), r.text(r.name))
	e.RunID = r.str(kAgentRun)
}
