package otlp

import (
	"cmp"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"pave/ingest"
)

// role is what a span is in a dialect.
type role uint8

const (
	roleNone  role = iota // not of this dialect
	roleLink              // of the dialect, but neither call, model call nor agent; children may need it
	roleTool              // one executed tool call
	roleModel             // one model call
	roleAgent             // an agent's run
)

// dialect is one way of telling tool calls in spans. The first dialect that knows a span reads it.
type dialect struct {
	name string // Event.Source is "otlp/" + name
	role func(r *record) role
	tool func(r *record, e *ingest.Event)
	// model fills the model call; agent names the agent of its spans; link notes what a link knows. nil: the GenAI form,
	// and nothing.
	model func(r *record, m *modelCall)
	agent func(r *record, e *ingest.Event)
	link  func(r *record, e *ingest.Event)
	// said is the user's message that a link carries, nil: none does.
	said func(r *record) (text string, ok bool)
}

// dialects in the order of detection: frameworks that follow the GenAI conventions with keys of their own before the
// conventions, these before the conventions of other projects.
var dialects = []*dialect{
	&geminiSpans, &adk, &mastra, &langSmith, &pydanticAI, &springAI, &strands,
	&genAI, &openInference, &langfuse, &openLLMetry, &vercel, &mcp, &claudeSpans,
}

// modelCall is a model call with what its messages tell of others.
type modelCall struct {
	ingest.LLMCall
	asked   *conversation // in the model's answer; nil when it is not captured
	history *conversation // in what it was given; nil when it is not captured
	user    string        // text of the user's message that it answers
	hasUser bool
	run     string // that it names itself, "" for that of the spans around it
	request string // identity by what its sender calls the request, where records of other kinds do too; "" for the span's
}

// failure reads the signs of failure that all dialects share: error status, exception event, error attributes. The
// status may be unset or OK where only an exception was noted.
func (r *record) failure() (failed bool, message string) {
	status := r.span.Status()
	exception := r.eventText("exception", "exception.message")
	_, raised := r.event("exception")
	message = cmp.Or(r.text(status.Message()), exception, r.str(kErrorMessage), r.str(kErrorType))
	return status.Code() == ptrace.StatusCodeError || raised || r.has[kErrorType], message
}

// finish sets status and error of a call whose payloads are read. A failure that the dialect saw itself is given.
func (r *record) finish(c *ingest.ToolCall, failed bool, message string) {
	f, m := r.failure()
	c.Status = ingest.StatusOK
	if f || failed {
		c.Status, c.Error = ingest.StatusError, cmp.Or(message, m)
	}
}
