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
	case "chat", "text_completion", "generate_content", "completion":
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
	e.Agent = r.str(kAgentName)
	c.Args, c.Result = ingest.NormaliseArgs(args), unwrapResult(result)
	r.finish(c, r.str(kToolStatus) == "error" || toolMessageFailed(result), "")
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
	switch {
	case r.has[kOutputMessages]:
		m.asked = readMessages(r.json(kOutputMessages))
	case hasEvents:
		m.asked = readMessages(firstOf(eventJSON(r, "gen_ai.choice", "message"), eventJSON(r, detailsEvent, "gen_ai.output.messages")))
	}
	if m.asked == nil || len(m.asked.calls) == 0 {
		m.asked = indexedMessages(r, "gen_ai.completion.")
	}
	input := r.json(kInputMessages)
	if input == nil && hasEvents {
		input = eventJSON(r, detailsEvent, "gen_ai.input.messages")
	}
	switch {
	case input != nil:
		m.history = readMessages(input)
		m.user, m.hasUser = lastUser(input)
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

// eventMessages reads the history from the span events of the older conventions.
func eventMessages(r *record) *conversation {
	c := &conversation{open: make(map[string]int)}
	for i := range r.events.Len() {
		e := r.events.At(i)
		switch e.Name() {
		case "gen_ai.assistant.message", "gen_ai.tool.message":
			attrs := e.Attributes()
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

func genAIAgent(r *record, e *ingest.Event) {
	e.Agent = cmp.Or(r.str(kAgentName), strings.TrimPrefix(r.text(r.name), "invoke_agent "))
	e.RunID = r.str(kAgentRun)
}
