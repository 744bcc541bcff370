package otlp

import (
	"time"

	"pave/ingest"
)

// Codex CLI writes the result of a call as a log record; its spans are internal noise. A command that exits with an
// error is a success to it.

func codexTool(r *record, at time.Time, e *ingest.Event) bool {
	c := ingest.ToolCall{Tool: r.str(kLogTool), CallID: r.str(kLogCallID), Status: success(r),
		Args: ingest.NormaliseArgs(r.json(kLogArguments)), Result: ingest.NormaliseResult(r.json(kLogOutput))}
	e.Agent = r.str(kPydanticAgent)
	return logTool(r, at, e, c)
}

// codexModel takes the record that carries tokens; another one of the same response does not.
func codexModel(r *record, at time.Time, e *ingest.Event) bool {
	if !r.has[kLogInputCount] {
		return false
	}
	return logModel(r, at, e, ingest.LLMCall{Model: r.str(kLogModel), Count: 1,
		InputTokens: r.tokens(kLogInputCount), OutputTokens: r.tokens(kLogOutputCount), CachedTokens: r.tokens(kLogCachedCount)})
}
