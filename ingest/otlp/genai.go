package otlp

import (
	"cmp"
	"strings"

	"pave/ingest"
	"pave/ingest/rawjson"
)

// genAI: the OpenTelemetry GenAI semantic conventions of any age. Vercel AI SDK 7, Microsoft's Agent Framework and
// Semantic Kernel, and OpenLLMetry's newer form follow them.
var genAI = dialect{name: "genai", role: genAIRole, tool: genAITool, model: genAIModel, agent: genAIAgent}

// mergedTools is the tool's name of a span that the ADK writes around parallel calls.
const mergedTools = "(merged tools)"

func genAIRole(r *record) role {
	switch r.str(kOperation) {
	case "execute_tool":
		if tool := r.str(kToolName); tool == "" || tool == mergedTools {
			return roleLink
		}
		return roleTool
	case "chat", "text_completion", "generate_content", "completion", "chat.completions", "text.completions":
		return roleModel
	case "invoke_agent":
		return roleAgent
	case "":
	default:
		return roleLink
	}
	switch r.str(kLLMRequestType) {
	case "chat", "completion":
		return roleModel
	}
	return unnamedRole(r)
}

// unnamedRole is the role of a span of before operations were named: its name says it, and an attribute that only such a
// span has.
func unnamedRole(r *record) role {
	operation, _, _ := strings.Cut(r.name, " ")
	switch tool := r.str(kToolName); {
	case operation == "execute_tool" && tool != "" && tool != mergedTools:
		return roleTool
	case operation == "invoke_agent" && (r.has[kAgentName] || r.has[kAgentID]):
		return roleAgent
	case operation == "chat" && r.has[kProvider] && r.has[kRequestModel]:
		return roleModel
	}
	return roleNone
}

func genAITool(r *record, e *ingest.Event) {
	c := e.Call
	c.Tool, c.CallID = r.str(kToolName), r.str(kToolCallID)
	args, result := openLLMetryArgs(r.json(kToolArgs, kTlInput)), r.json(kToolResult) // OpenLLMetry writes both forms side by side
	if result == nil && r.has[kTlOutput] {
		result, _ = openLLMetryResult(r)
	}
	told := toldByMessages(r)
	args, result = firstOf(args, told.args), firstOf(result, told.result)
	failed := r.str(kToolStatus) == "error" || toolMessageFailed(result)
	if r.has[kMCPMethod] { // a span of an MCP client or server that names its operation too
		content, isError := mcpResult(result)
		result, failed = content, failed || isError
	}
	e.Agent = r.str(kAgentName)
	c.Args, c.Result = ingest.NormaliseArgs(args), unwrapResult(result)
	r.finish(c, failed, "")
}

// toldByMessages reads arguments and result from where content was kept before there were attributes for them: span
// events of the older conventions, and of the newer ones as messages in an event.
func toldByMessages(r *record) (told asked) {
	if !r.isSpan || r.events.Len() == 0 {
		return told
	}
	told.args = eventJSON(r, "gen_ai.tool.message", "content")
	told.result = eventJSON(r, "gen_ai.choice", "message")
	if input := eventJSON(r, detailsEvent, "gen_ai.input.messages"); input != nil && told.args == nil {
		if calls := readMessages(input).calls; len(calls) == 1 {
			told.args = calls[0].args
		}
	}
	if output := eventJSON(r, detailsEvent, "gen_ai.output.messages"); output != nil && told.result == nil {
		told.result = toolAnswer(output)
	}
	return told
}

// toolAnswer is the result in a list of one message of a tool with one part.
func toolAnswer(messages []byte) (result []byte) {
	rawjson.Elements(messages, func(m []byte) bool {
		rawjson.Elements(firstOf(rawjson.Get(m, "parts"), rawjson.Get(m, "content")), func(p []byte) bool {
			if part := readPart(p); isAnswer(part.kind) {
				result = firstOf(part.result, part.content)
			}
			return true
		})
		return true
	})
	return result
}

// eventJSON is the attribute in the last span event of the name that has it: question and answer may be events of one name.
func eventJSON(r *record, event, attribute string) []byte {
	if !r.isSpan {
		return nil
	}
	for i := r.events.Len() - 1; i >= 0; i-- {
		if e := r.events.At(i); e.Name() == event {
			if v, ok := e.Attributes().Get(attribute); ok {
				return r.value(v)
			}
		}
	}
	return nil
}

func genAIModel(r *record, m *modelCall) {
	m.Model = r.str(kResponseModel, kRequestModel)
	m.InputTokens, m.OutputTokens = r.tokens(kInputTokens, kPromptTokens), r.tokens(kOutputTokens, kCompletionTokens)
	m.CachedTokens = r.tokens(kCachedTokens)
	hasEvents := r.isSpan && r.events.Len() > 0
	output, input := r.json(kOutputMessages, kCompletion), r.json(kInputMessages, kPrompt)
	if output == nil && hasEvents {
		output = firstOf(eventJSON(r, "gen_ai.choice", "message"), eventJSON(r, "gen_ai.choice", eventContent),
			eventJSON(r, detailsEvent, "gen_ai.output.messages"), eventJSON(r, "gen_ai.content.completion", "gen_ai.completion"))
	}
	if m.asked = readMessages(output); len(m.asked.calls) == 0 {
		m.asked = indexedMessages(r, "gen_ai.completion.")
	}
	if input == nil && hasEvents {
		input = firstOf(eventJSON(r, detailsEvent, "gen_ai.input.messages"), eventJSON(r, "gen_ai.content.prompt", "gen_ai.prompt"))
	}
	switch {
	case input != nil:
		m.history = readMessages(input)
		m.user, m.hasUser = lastUser(firstOf(rawjson.Get(input, "messages"), input))
	case hasEvents:
		m.history = eventMessages(r)
		m.user, m.hasUser = lastUserEvent(r)
	}
	if m.history == nil && !m.hasUser {
		m.history = indexedMessages(r, "gen_ai.prompt.")
		m.user, m.hasUser = lastUserIndexed(r, "gen_ai.prompt.")
	}
}

// detailsEvent carries messages as attributes of an event.
const detailsEvent = "gen_ai.client.inference.operation.details"

// eventContent is the attribute of a span event that holds its whole message, where the message has no attributes of its own.
const eventContent = "gen_ai.event.content"

// eventMessages reads the history from the span events of the older conventions.
func eventMessages(r *record) *conversation {
	c := &conversation{open: make(map[string]int)}
	for i := range r.events.Len() {
		e := r.events.At(i)
		switch e.Name() {
		case "gen_ai.assistant.message", "gen_ai.tool.message":
			attrs := e.Attributes()
			if message, ok := attrs.Get(eventContent); ok {
				c.visit(r.value(message), "", 0)
				continue
			}
			if calls, ok := attrs.Get("tool_calls"); ok {
				c.visit(r.value(calls), "assistant", 0)
			}
			content, ok := attrs.Get("content")
			if !ok {
				continue
			}
			if id, ok := attrs.Get("id"); ok && e.Name() == "gen_ai.tool.message" {
				c.answer(r.text(id.AsString()), r.value(content), false)
			} else {
				c.visit(r.value(content), "", 0)
			}
		}
	}
	return c
}

// lastUserEvent returns the user's text when the last message that span events tell of, before the model's answer,
// is the user's.
func lastUserEvent(r *record) (string, bool) {
	for i := r.events.Len() - 1; i >= 0; i-- {
		e := r.events.At(i)
		switch e.Name() {
		case "gen_ai.user.message":
			var content []byte
			if v, ok := e.Attributes().Get("content"); ok {
				content = jsonText(r.text(v.AsString()))
			} else if v, ok := e.Attributes().Get(eventContent); ok {
				content = rawjson.Get(r.value(v), "content")
			}
			if content == nil {
				return "", true // content is not captured; the boundary is
			}
			return contentText(content)
		case "gen_ai.assistant.message", "gen_ai.tool.message":
			return "", false
		}
	}
	return "", false
}

func genAIAgent(r *record, e *ingest.Event) {
	e.Agent = cmp.Or(r.str(kAgentName), strings.TrimPrefix(r.text(r.name), "invoke_agent "))
	e.RunID = r.str(kAgentRun)
}
