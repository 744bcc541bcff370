package otlp

import (
	"time"

	"pave/ingest"
)

// geminiTool reads the Gemini CLI's log record of a call; results are in its spans only.
func geminiTool(r *record, at time.Time, e *ingest.Event) bool {
	return logTool(r, at, e, ingest.ToolCall{Tool: r.str(kLogFunction), Status: success(r), Args: ingest.NormaliseArgs(r.json(kLogFunctionArgs))})
}
