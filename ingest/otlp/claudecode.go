package otlp

import (
	"cmp"
	"time"

	"pave/ingest"
)

// Claude Code writes the result of a call as a log record; numbers and flags arrive as text, arguments only where the
// user lets them, results never. Its spans, where they are switched on, have the same names and ids and may carry
// content as events, so that span and record become one call.

func claudeTool(r *record, at time.Time, e *ingest.Event) bool {
	c := claudeCall(r)
	e.RunID = r.str(kLogAgent)
	return logTool(r, at, e, c)
}

func claudeCall(r *record) ingest.ToolCall {
	return ingest.ToolCall{Tool: r.str(kLogTool), CallID: r.str(kLogToolUseID), Status: success(r),
		Args: ingest.NormaliseArgs(r.json(kLogToolInput, kLogToolParameters))}
}

func claudeModel(r *record, at time.Time, e *ingest.Event) bool {
	l := claudeUsage(r)
	l.CostUSD, l.HasCost = r.float(kLogCost)
	return logModel(r, at, e, l)
}

func claudeUsage(r *record) ingest.LLMCall {
	return ingest.LLMCall{Model: r.str(kLogModel, kResponseModel, kRequestModel), Count: 1, InputTokens: r.tokens(kLogInputTokens, kInputTokens),
		OutputTokens: r.tokens(kLogOutputTokens, kOutputTokens), CachedTokens: r.tokens(kLogCacheRead, kCachedTokens)}
}

// claudeSpans: claude_code.interaction > llm_request, tool > tool.blocked_on_user, tool.execution. Only the tool's own
// span is a call.
var claudeSpans = dialect{name: "claude-code-span", role: claudeSpanRole, tool: claudeSpanTool, model: claudeSpanModel}

func claudeSpanRole(r *record) role {
	switch r.name {
	case "claude_code.tool":
		return roleTool
	case "claude_code.llm_request":
		return roleModel
	case "claude_code.interaction", "claude_code.tool.execution", "claude_code.tool.blocked_on_user", "claude_code.hook":
		return roleLink
	}
	return roleNone
}

func claudeSpanTool(r *record, e *ingest.Event) {
	c := claudeCall(r)
	c.Tool = cmp.Or(c.Tool, r.str(kToolName))
	c.CallID = cmp.Or(c.CallID, r.str(kToolCallID))
	if c.Args == nil {
		c.Args = ingest.NormaliseArgs(firstOf(eventJSON(r, "tool.input", "tool_input"), eventJSON(r, "tool.input", "content"), eventJSON(r, "tool.output", "tool_input")))
	}
	c.Result = unwrapResult(firstOf(eventJSON(r, "tool.output", "output"), eventJSON(r, "tool.output", "content"), eventJSON(r, "tool.output", "tool_output"), r.json(kLogOutput)))
	failed := c.Status == ingest.StatusError
	*e.Call, e.RunID = c, r.str(kLogAgent)
	r.finish(e.Call, failed, r.str(kLogError, kLogErrorType))
}

func claudeSpanModel(r *record, m *modelCall) { m.LLMCall = claudeUsage(r) }
