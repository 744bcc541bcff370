package otlp

import (
	"cmp"
	"time"

	"pave/ingest"
	"pave/ingest/rawjson"
)

// Gemini CLI writes each call twice: a log record with arguments and success, and a span with the call's id and
// result, whose status stays OK when the tool fails. Every turn is a trace of its own; the session is on the record, on
// the span and on the resource.

// geminiTool reads the log record of a call.
func geminiTool(r *record, at time.Time, e *ingest.Event) bool {
	return logTool(r, at, e, ingest.ToolCall{Tool: r.str(kLogFunction), Status: success(r), Args: ingest.NormaliseArgs(r.json(kLogFunctionArgs))})
}

// geminiModel reads the log record of a model's answer.
func geminiModel(r *record, at time.Time, e *ingest.Event) bool {
	return logModel(r, at, e, ingest.LLMCall{Model: r.str(kLogModel), Count: 1, InputTokens: r.tokens(kLogInputCount),
		OutputTokens: r.tokens(kLogOutputCount), CachedTokens: r.tokens(kLogContentCached)})
}

// geminiSpans: operations tool_call, llm_call, schedule_tool_calls and others. Only the first is read: model calls are in
// the log with their tokens.
var geminiSpans = dialect{name: "gemini-cli-span", role: geminiSpanRole, tool: geminiSpanTool}

func geminiSpanRole(r *record) role {
	switch r.str(kOperation) {
	case "tool_call":
		if r.str(kToolName) != "" {
			return roleTool
		}
		return roleLink
	case "llm_call", "schedule_tool_calls", "agent_call", "user_prompt", "system_prompt":
		return roleLink
	}
	return roleNone
}

func geminiSpanTool(r *record, e *ingest.Event) {
	c := e.Call
	c.Tool, c.CallID = r.str(kToolName), r.str(kToolCallID)
	request := r.json(kInputMessages)
	c.Args = ingest.NormaliseArgs(firstOf(r.json(kToolArgs), rawjson.Get(request, "args")))
	c.CallID = cmp.Or(c.CallID, rawjson.Text(rawjson.Get(request, "callId")))
	e.Agent = r.str(kAgentName)
	done := r.json(kOutputMessages)
	response := rawjson.Get(done, "response")
	status := rawjson.Text(rawjson.Get(done, "status"))
	c.Result = unwrapResult(firstOf(r.json(kToolResult), geminiResult(response)))
	r.finish(c, status == "error" || status == "cancelled", errorMessage(rawjson.Get(response, "error")))
	if status == "" && c.Status == ingest.StatusOK && done == nil {
		c.Status = ingest.StatusUnknown // the span's status says nothing of the tool
	}
}

// geminiResult takes the answer out of the parts that were sent to the model:
// {responseParts: [{functionResponse: {id, name, response: {output}}}]}.
func geminiResult(response []byte) (result []byte) {
	rawjson.Elements(rawjson.Get(response, "responseParts"), func(part []byte) bool {
		answer := rawjson.Get(rawjson.Get(part, "functionResponse"), "response")
		result = firstOf(only(answer, "output"), answer)
		return result == nil
	})
	if result == nil {
		result = rawjson.Get(response, "resultDisplay")
	}
	return result
}

// errorMessage is the text of an error of any form.
func errorMessage(raw []byte) string {
	return cmp.Or(rawjson.Text(raw), rawjson.Text(rawjson.Get(raw, "message")))
}
