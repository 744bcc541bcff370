package otlp

import (
	"cmp"
	"time"

	"pave/ingest"
	"pave/ingest/rawjson"
)

// Claude Code writes the result of a call as a log record; numbers and flags arrive as text, arguments only where the
// user lets them, results never. Its spans, where they are switched on, have the same names and ids and may carry
// content as events, so that span and record become one call.

func claudeTool(r *record, at time.Time, e *ingest.Event) bool {
	c := claudeCall(r)
	e.RunID = claudeRun(r)
	return logTool(r, at, e, c)
}

// claudeRun is the run of a call: only agents below the main one have an id.
func claudeRun(r *record) string { return cmp.Or(r.str(kLogAgent), "main") }

// claudeCall: without details the name of an MCP tool is held back; with them, the parameters name it.
func claudeCall(r *record) ingest.ToolCall {
	c := ingest.ToolCall{Tool: r.str(kLogTool), CallID: r.str(kLogToolUseID), Status: success(r),
		Args: ingest.NormaliseArgs(r.json(kLogToolInput, kLogToolParameters))}
	if c.Tool == "mcp_tool" {
		parameters := r.json(kLogToolParameters)
		server, tool := rawjson.Text(rawjson.Get(parameters, "mcp_server_name")), rawjson.Text(rawjson.Get(parameters, "mcp_tool_name"))
		if server != "" && tool != "" {
			c.Tool = "mcp__" + server + "__" + tool
		}
	}
	return c
}

func claudeModel(r *record, at time.Time, e *ingest.Event) bool {
	l := claudeUsage(r)
	l.CostUSD, l.HasCost = r.float(kLogCost)
	e.RunID = r.str(kLogAgent)
	logModel(r, at, e, l)
	e.Identity = cmp.Or(claudeRequest(r), e.Identity)
	return true
}

// claudeRequest is the identity of a model call: its record and its span name the request, "" when they do not.
func claudeRequest(r *record) string {
	if id := r.str(kRequestID); id != "" {
		return ingest.DeriveIdentity("claude request", id)
	}
	return ""
}

// claudeUsage: tokens read from the cache and written to it are not among the input tokens.
func claudeUsage(r *record) ingest.LLMCall {
	l := ingest.LLMCall{Model: r.str(kLogModel, kResponseModel, kRequestModel), Count: 1, InputTokens: r.tokens(kLogInputTokens, kInputTokens),
		OutputTokens: r.tokens(kLogOutputTokens, kOutputTokens), CachedTokens: r.tokens(kLogCacheRead, kCachedTokens)}
	if l.InputTokens >= 0 {
		l.InputTokens += max(l.CachedTokens, 0) + max(r.tokens(kLogCacheWritten), 0)
	}
	return l
}

// claudeSpans: claude_code.interaction > llm_request, tool > tool.blocked_on_user, tool.execution. Only the tool's own
// span is a call; how it ended is on that of its execution.
var claudeSpans = dialect{name: "claude-code-span", role: claudeSpanRole, tool: claudeSpanTool, model: claudeSpanModel, link: claudeSpanLink, said: claudeSpanSaid}

const claudeExecution = "claude_code.tool.execution"

func claudeSpanRole(r *record) role {
	switch r.name {
	case "claude_code.tool":
		return roleTool
	case "claude_code.llm_request":
		return roleModel
	case "claude_code.interaction", claudeExecution, "claude_code.tool.blocked_on_user", "claude_code.hook":
		return roleLink
	}
	return roleNone
}

func claudeSpanTool(r *record, e *ingest.Event) {
	c := claudeCall(r)
	c.Tool = cmp.Or(c.Tool, r.str(kToolName))
	c.CallID = cmp.Or(c.CallID, r.str(kToolCallID))
	content := func(name string) []byte { return eventJSON(r, "tool.output", name) }
	if c.Args == nil {
		c.Args = ingest.NormaliseArgs(firstOf(eventJSON(r, "tool.input", "tool_input"), content("tool_input"), content("input"), claudeTarget(r)))
	}
	if c.Tool != "Write" { // whose content is what it was given
		c.Result = unwrapResult(firstOf(content("output"), content("content"), content("tool_output"), content("diff"), r.json(kLogOutput)))
	}
	*e.Call, e.RunID = c, claudeRun(r)
	if failed, message := r.failure(); failed || c.Status == ingest.StatusError {
		e.Call.Status, e.Call.Error = ingest.StatusError, cmp.Or(r.str(kLogError, kLogErrorType), message)
	}
}

// claudeTarget is the part of a call's arguments that its span names: the command, or the file.
func claudeTarget(r *record) []byte {
	for _, from := range [...]struct{ attribute, argument string }{{"full_command", "command"}, {"bash_command", "command"}, {"file_path", "file_path"}} {
		text := r.named([]string{from.attribute})
		if text == "" {
			text = r.eventText("tool.output", from.attribute)
		}
		if text != "" {
			return append(rawjson.AppendString([]byte(`{"`+from.argument+`":`), text), '}')
		}
	}
	return nil
}

func claudeSpanModel(r *record, m *modelCall) {
	m.LLMCall, m.run, m.request = claudeUsage(r), r.str(kLogAgent), claudeRequest(r)
}

// claudeSpanSaid: the interaction carries the user's text, unless it is held back; its log record tells it again.
func claudeSpanSaid(r *record) (text string, ok bool) {
	if r.name == "claude_code.interaction" {
		text = r.prompt(kUserPrompt)
	}
	return text, text != ""
}

// claudeSpanLink notes how an execution ended.
func claudeSpanLink(r *record, e *ingest.Event) {
	if r.name != claudeExecution {
		return
	}
	outcome := "ok"
	switch success(r) {
	case ingest.StatusUnknown:
		return
	case ingest.StatusError:
		outcome = "error: " + r.str(kLogError, kLogErrorType)
	}
	e.Metadata = append(rawjson.AppendString([]byte(`{"`+ingest.MetaOutcome+`":`), outcome), '}')
}
