package otlp

import (
	"cmp"
	"strings"

	"pave/ingest"
	"pave/ingest/rawjson"
)

// genAI: the OpenTelemetry GenAI semantic conventions, any age, and frameworks that follow them with a few keys of
// their own: Vercel AI SDK 7, Strands, ADK, Mastra, LangSmith, pydantic-ai, Semantic Kernel, Spring AI, OpenLLMetry's
// newer form.
var genAI = dialect{name: "genai", role: genAIRole, tool: genAITool, model: genAIModel, agent: genAIAgent}

func genAIRole(r *record) role {
	tool := r.str(kToolName, kSpringTool)
	switch r.str(kOperation) {
	case "execute_tool":
		if tool == "" || tool == "(merged tools)" {
			return roleLink
		}
		return roleTool
	case "chat", "text_completion", "generate_content", "completion":
		return roleModel
	case "invoke_agent":
		return roleAgent
	case "":
	default:
		return roleLink
	}
	switch {
	case r.str(kSpringKind) == "tool_call" && tool != "", r.name == "running tool" && tool != "":
		return roleTool
	case r.str(kLLMRequestType) == "chat", r.str(kLLMRequestType) == "completion":
		return roleModel
	}
	return roleNone
}

func genAITool(r *record, e *ingest.Event) {
	c := e.Call
	c.Tool = r.str(kToolName, kSpringTool)
	c.CallID = r.str(kToolCallID, kSpringCallID)
	args := r.json(kToolArgs, kPydanticArgs, kAdkArgs, kSpringArgs)
	result := r.json(kToolResult, kPydanticResponse, kAdkResponse, kSpringResult)
	if r.str(kLsKind) == "tool" { // LangSmith puts them where prompts are
		args, result = cmpRaw(args, r.json(kPrompt)), cmpRaw(result, r.json(kCompletion))
	}
	if args == nil {
		args = eventJSON(r, "gen_ai.tool.message", "content")
	}
	if result == nil {
		result = eventJSON(r, "gen_ai.choice", "message")
	}
	c.Args, c.Result = ingest.NormaliseArgs(args), unwrapResult(result)
	e.Agent = r.str(kAgentName, kPydanticAgent)
	r.finish(c, r.str(kToolStatus) == "error", "")
}

func eventJSON(r *record, event, attribute string) []byte {
	if text := r.eventText(event, attribute); text != "" {
		return jsonText(text)
	}
	return nil
}

func genAIModel(r *record, m *modelCall) {
	m.Model = r.str(kResponseModel, kRequestModel)
	m.InputTokens, m.OutputTokens = r.tokens(kInputTokens, kPromptTokens), r.tokens(kOutputTokens, kCompletionTokens)
	m.CachedTokens = r.tokens(kCachedTokens)
	switch {
	case r.has[kOutputMessages]:
		m.callIDs = requestedIDs(r.json(kOutputMessages))
	case r.isSpan && r.events.Len() > 0:
		m.callIDs = requestedIDs(eventJSON(r, "gen_ai.choice", "message"))
	}
	if m.callIDs == nil {
		m.callIDs = indexedIDs(r, "gen_ai.completion.", ".id")
	}
	switch {
	case r.has[kInputMessages]:
		m.user, m.hasUser = lastUser(r.json(kInputMessages))
	case r.isSpan && r.events.Len() > 0:
		m.user, m.hasUser = lastUserEvent(r)
	}
}

// lastUserEvent returns the user's text when the last message that span events tell of, before the model's answer,
// is the user's.
func lastUserEvent(r *record) (string, bool) {
	for i := r.events.Len() - 1; i >= 0; i-- {
		e := r.events.At(i)
		switch e.Name() {
		case "gen_ai.user.message":
			v, ok := e.Attributes().Get("content")
			if !ok {
				return "", true // content is not captured; the boundary is
			}
			return contentText(jsonText(r.text(v.AsString())))
		case "gen_ai.assistant.message", "gen_ai.tool.message":
			return "", false
		}
	}
	return "", false
}

// indexedIDs collects ids from attributes that hold lists as numbered keys, such as
// gen_ai.completion.0.tool_calls.1.id, in the order of the attributes.
func indexedIDs(r *record, prefix, suffix string) (ids []string) {
	for name, v := range r.all.All() {
		if strings.HasPrefix(name, prefix) && strings.HasSuffix(name, suffix) && strings.Contains(name, "tool_call") {
			ids = append(ids, r.text(v.AsString()))
		}
	}
	return ids
}

func genAIAgent(r *record, e *ingest.Event) {
	e.Agent = cmp.Or(r.str(kAgentName, kPydanticAgent), strings.TrimPrefix(r.text(r.name), "invoke_agent "))
	e.RunID = r.str(kAgentRun, kAdkInvocation, kMastraRun)
}

// mcp: spans of MCP clients and servers that carry no GenAI operation.
var mcp = dialect{name: "mcp", role: mcpRole, tool: mcpTool}

func mcpRole(r *record) role {
	name := strings.TrimPrefix(r.name, "tools/call ")
	switch {
	case r.str(kMCPMethod) == "tools/call" && (r.has[kToolName] || name != r.name), name != r.name && r.has[kMCPMethod]:
		return roleTool
	case r.has[kMCPMethod]:
		return roleLink
	}
	return roleNone
}

func mcpTool(r *record, e *ingest.Event) {
	c := e.Call
	c.Tool = cmp.Or(r.str(kToolName), r.text(strings.TrimPrefix(r.name, "tools/call ")))
	result := r.json(kToolResult)
	isError := false
	if content := rawjson.Get(result, "content"); content != nil {
		isError = rawjson.Kind(rawjson.Get(result, "isError")) == 't'
		result = cmpRaw(rawjson.Get(result, "structuredContent"), content)
	}
	c.Args, c.Result = ingest.NormaliseArgs(r.json(kToolArgs)), unwrapResult(result)
	r.finish(c, isError, "")
}
