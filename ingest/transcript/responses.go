package transcript

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"pave/ingest/rawjson"
)

// item is an item of OpenAI's Responses. Its id is not its call's.
type item struct {
	Type      string          `json:"type"`
	ID        string          `json:"id"`
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Namespace string          `json:"namespace"`
	Arguments json.RawMessage `json:"arguments"`
	Input     json.RawMessage `json:"input"`
	Action    json.RawMessage `json:"action"`
	Output    json.RawMessage `json:"output"`
	Error     json.RawMessage `json:"error"`
	Status    string          `json:"status"`
	Queries   json.RawMessage `json:"queries"`
	Code      json.RawMessage `json:"code"`
}

// itemReader turns items into a dialogue: items of the model that follow each other are one answer.
type itemReader struct {
	*dialogue
	answering bool // the items before belong to the current answer
	model     string
	usage     json.RawMessage
	lastTurn  int // place of the model call of the current answer
}

// item adds an item and reports whether it is of a kind that is known.
func (r *itemReader) item(it *item, at time.Time) {
	switch {
	case it.Type == "message" || it.Type == "" && it.Role != "":
		r.said(it, at)
	case it.Type == "reasoning":
		r.answer(at)
	case strings.HasSuffix(it.Type, "_output"):
		r.answering = false
		r.result(it.CallID, outcome{result: outputOf(it.Output), failed: it.Status == "failed", at: at})
	case strings.HasSuffix(it.Type, "_call"):
		r.asked(it, at)
	}
}

func (r *itemReader) answer(at time.Time) {
	if r.answering {
		return
	}
	r.answering = true
	r.lastTurn = r.dialogue.answer(usageOf(r.model, r.usage), at)
	r.usage = nil
}

func (r *itemReader) said(it *item, at time.Time) {
	switch it.Role {
	case "assistant":
		r.answer(at)
	case "user":
		r.answering = false
		if said := text(it.Content); !injected(said) {
			r.user(said, at)
		}
	}
}

// injected reports a message in the user's name that the client wrote.
func injected(said string) bool {
	for _, mark := range []string{"<environment_context>", "<user_instructions>", "<turn_aborted>", "# AGENTS.md instructions"} {
		if strings.HasPrefix(said, mark) {
			return true
		}
	}
	return false
}

// asked adds a call. Calls of tools that the model's server runs carry their result.
func (r *itemReader) asked(it *item, at time.Time) {
	r.answer(at)
	id := cmp.Or(it.CallID, it.ID)
	switch it.Type {
	case "function_call", "custom_tool_call", "local_shell_call", "tool_search_call":
		tool := it.Name
		if it.Type == "local_shell_call" {
			tool = cmp.Or(tool, "local_shell")
		}
		r.call(it.CallID, tool, first(it.Arguments, it.Input, it.Action), at)
		return
	case "mcp_call":
		r.call(id, it.Name, it.Arguments, at)
	default: // web_search_call, file_search_call, code_interpreter_call, computer_call, ...
		r.call(id, strings.TrimSuffix(it.Type, "_call"), first(it.Action, it.Arguments, it.Queries, it.Code), at)
	}
	message := cmp.Or(rawjson.Text(it.Error), rawjson.Text(rawjson.Get(it.Error, "message")))
	failed := rawjson.Kind(it.Error) != 0 && rawjson.Kind(it.Error) != 'n' || it.Status == "failed"
	if it.Output != nil || failed || it.Status == "completed" {
		r.result(id, outcome{result: outputOf(it.Output), failed: failed, message: message, at: at})
	}
}

// outputOf reads an output: text, parts, or an object around either.
func outputOf(raw json.RawMessage) []byte {
	if inner := rawjson.Get(raw, "content"); inner != nil && rawjson.Get(raw, "success") != nil {
		raw = inner
	}
	return resultContent(raw)
}

// responses imports items of OpenAI's Responses: a list of items, response objects with an output (and the input that was
// sent), or both. The session is the response's conversation, else the first of the chain of previous_response_id, else
// the file.
func (s *sink) responses(in *input) error {
	readers := make(map[string]*itemReader)
	chain := make(map[string]string) // response -> session
	var order []*itemReader
	reader := func(session string, line int) *itemReader {
		r := readers[session]
		if r == nil {
			r = &itemReader{dialogue: s.session(in, session, "file/responses")}
			r.template.Metadata = in.provenance(line)
			readers[session] = r
			order = append(order, r)
		}
		return r
	}
	err := s.documents(in, rawjson.Auto, func(raw []byte, _, line int) error {
		if rawjson.Get(raw, "output") == nil || rawjson.Get(raw, "call_id") != nil || rawjson.Kind(rawjson.Get(raw, "output")) != '[' {
			return reader(in.session, line).items(raw)
		}
		session := responseSession(raw, chain, in.session)
		r := reader(session, line)
		r.model, r.usage = rawjson.Text(rawjson.Get(raw, "model")), rawjson.Get(raw, "usage")
		r.answering = false
		if err := r.items(rawjson.Get(raw, "input")); err != nil {
			return err
		}
		return r.items(rawjson.Get(raw, "output"))
	})
	for _, r := range order {
		if err == nil {
			err = r.finish()
		}
	}
	return err
}

// responseSession is the session of a response, and notes it for the responses that follow it.
func responseSession(raw []byte, chain map[string]string, fallback string) string {
	id := rawjson.Text(rawjson.Get(raw, "id"))
	conversation := rawjson.Get(raw, "conversation")
	session := cmp.Or(rawjson.Text(conversation), rawjson.Text(rawjson.Get(conversation, "id")))
	if previous := rawjson.Text(rawjson.Get(raw, "previous_response_id")); session == "" && previous != "" {
		session = cmp.Or(chain[previous], previous)
	}
	session = cmp.Or(session, id, fallback)
	if id != "" {
		chain[id] = session
	}
	return session
}

// items adds a list of items, one item, or a text of the user.
func (r *itemReader) items(raw []byte) (err error) {
	one := func(raw []byte) bool {
		var it item
		if err = json.Unmarshal(raw, &it); err != nil {
			err = fmt.Errorf("%w: %w", errRun, err)
			return false
		}
		r.item(&it, time.Time{})
		return true
	}
	switch rawjson.Kind(bytes.TrimSpace(raw)) {
	case '"':
		r.user(rawjson.Text(raw), time.Time{})
	case '[':
		rawjson.Elements(raw, one)
	case '{':
		one(raw)
	}
	if err == nil {
		err = r.settle()
	}
	if err == nil {
		err = r.named()
	}
	return err
}
