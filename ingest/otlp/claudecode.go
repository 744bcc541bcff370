package otlp

import (
	"time"

	"pave/ingest"
)

// Claude Code writes the result of a call as a log record; numbers and flags arrive as text, arguments only where the
// user lets them.

func claudeTool(r *record, at time.Time, e *ingest.Event) bool {
	c := ingest.ToolCall{Tool: r.str(kLogTool), CallID: r.str(kLogToolUseID), Status: success(r),
		Args: ingest.NormaliseArgs(r.json(kLogToolInput, kLogToolParameters))}
	e.RunID = r.str(kLogAgent)
	return logTool(r, at, e, c)
}

func claudeModel(r *record, at time.Time, e *ingest.Event) bool {
	l := ingest.LLMCall{Model: r.str(kLogModel), Count: 1,
		InputTokens: r.tokens(kLogInputTokens), OutputTokens: r.tokens(kLogOutputTokens), CachedTokens: r.tokens(kLogCacheRead)}
	l.CostUSD, l.HasCost = r.float(kLogCost)
	return logModel(r, at, e, l)
}
