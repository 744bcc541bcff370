package otlp

import (
	"bytes"
	"cmp"
	"strings"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"pave/ingest"
	"pave/ingest/rawjson"
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
	// model fills the model call; agent names the agent of its spans. nil: the GenAI form.
	model func(r *record, m *modelCall)
	agent func(r *record, e *ingest.Event)
}

// dialects in the order of detection.
var dialects = []*dialect{&genAI, &openInference, &langfuse, &traceloop, &vercel, &mcp}

// modelCall is a model call with what its messages tell of others.
type modelCall struct {
	ingest.LLMCall
	callIDs []string // tool calls that it asked for
	user    string   // text of the user's message that it answers
	hasUser bool
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

// unwrapResult takes the framework's envelope off a result, and replaces text that holds JSON by it.
func unwrapResult(raw []byte) []byte {
	switch rawjson.Kind(raw) {
	case '{':
		if !bytes.Contains(raw, langChainMark) {
			return raw
		}
		// LangChain: {"output":{"lc":1,...,"kwargs":{"content":...}}}
		output := rawjson.Get(raw, "output")
		if message := cmpRaw(output, raw); rawjson.Get(message, "lc") != nil {
			if content := rawjson.Get(rawjson.Get(message, "kwargs"), "content"); content != nil {
				return ingest.NormaliseResult(content)
			}
		}
	case '[':
		return unwrapContent(raw)
	}
	return ingest.NormaliseResult(raw)
}

// langChainMark is in every object that LangChain serialises.
var langChainMark = []byte(`"lc"`)

func cmpRaw(a, b []byte) []byte {
	if a != nil {
		return a
	}
	return b
}

// unwrapContent takes a content list of one part, such as [{"json":{..}}] or [{"text":".."}] or MCP's
// [{"type":"text","text":".."}], for its content.
func unwrapContent(raw []byte) []byte {
	var parts [][]byte
	rawjson.Elements(raw, func(part []byte) bool {
		parts = append(parts, part)
		return len(parts) < 2
	})
	if len(parts) != 1 || rawjson.Kind(parts[0]) != '{' {
		return raw
	}
	members := 0
	s := rawjson.Scanner{Data: parts[0]}
	if s.Open('{') == nil {
		for {
			if _, more, err := s.Key(); err != nil || !more {
				break
			}
			members++
			if _, err := s.Value(); err != nil {
				break
			}
		}
	}
	if inner := rawjson.Get(parts[0], "json"); inner != nil && members == 1 {
		return inner
	}
	isText := members == 1 || members == 2 && rawjson.Text(rawjson.Get(parts[0], "type")) == "text"
	if inner := rawjson.Get(parts[0], "text"); isText && rawjson.Kind(inner) == '"' {
		return ingest.NormaliseResult(inner)
	}
	return raw
}

// lastUser returns the text of the list's last message when the user wrote it. Messages with the results of tools
// in the user's name are not the user's.
func lastUser(messages []byte) (text string, isUser bool) {
	var last []byte
	rawjson.Elements(messages, func(m []byte) bool { last = m; return true })
	if role := rawjson.Text(rawjson.Get(last, "role")); role != "user" && role != "human" {
		return "", false
	}
	content := rawjson.Get(last, "parts")
	if content == nil {
		content = rawjson.Get(last, "content")
	}
	return contentText(content)
}

// contentText joins the text of a message's content: text, or a list of parts. It is not the user's when a part
// is the result of a tool.
func contentText(content []byte) (text string, isUser bool) {
	switch rawjson.Kind(content) {
	case '"':
		return rawjson.Text(content), true
	case '[':
		var parts []string
		isUser = true
		rawjson.Elements(content, func(part []byte) bool {
			if t := rawjson.Text(part); t != "" {
				parts = append(parts, t)
				return true
			}
			kind := rawjson.Text(rawjson.Get(part, "type"))
			if strings.HasPrefix(kind, "tool") || rawjson.Get(part, "toolResult") != nil {
				isUser = false
				return false
			}
			if t := cmp.Or(rawjson.Text(rawjson.Get(part, "content")), rawjson.Text(rawjson.Get(part, "text"))); t != "" {
				parts = append(parts, t)
			}
			return true
		})
		if !isUser {
			return "", false
		}
		return strings.Join(parts, "\n"), true
	}
	return "", content != nil
}

// requestedIDs collects the ids of tool calls in the parts of the model's messages: each element of the list is a
// message with parts or content, or itself a part.
func requestedIDs(messages []byte) (ids []string) {
	var visit func(part []byte, depth int) bool
	visit = func(part []byte, depth int) bool {
		if inner := rawjson.Get(part, "toolUse"); inner != nil {
			part = inner
		}
		for _, name := range []string{"toolUseId", "toolCallId", "id"} {
			id := rawjson.Text(rawjson.Get(part, name))
			if id == "" {
				continue
			}
			kind := rawjson.Text(rawjson.Get(part, "type"))
			if name != "id" || strings.HasPrefix(kind, "tool_call") || kind == "tool_use" || kind == "function" || kind == "tool-call" {
				ids = append(ids, id)
				return true
			}
		}
		if depth < 2 {
			for _, list := range []string{"parts", "content", "tool_calls"} {
				rawjson.Elements(rawjson.Get(part, list), func(p []byte) bool { return visit(p, depth+1) })
			}
		}
		return true
	}
	rawjson.Elements(messages, func(m []byte) bool { return visit(m, 0) })
	return ids
}
