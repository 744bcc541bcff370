package transcript

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"pave/ingest"
	"pave/ingest/rawjson"
)

// message is a message of a conversation in any of the forms of chat completions and of Anthropic's messages.
type message struct {
	Role         string          `json:"role"`
	Content      json.RawMessage `json:"content"`
	ToolCalls    []toolCall      `json:"tool_calls"`
	FunctionCall *functionCall   `json:"function_call"` // before tools had ids
	ToolCallID   string          `json:"tool_call_id"`
	ToolCallIDs  []string        `json:"tool_call_ids"`
	ID           string          `json:"id"` // of a tool's message in tau2-bench: the call's
	Name         string          `json:"name"`
	Error        json.RawMessage `json:"error"`
	Requestor    string          `json:"requestor"`
	Valid        *bool           `json:"valid"` // false: written by the harness of ToolBench
	Model        string          `json:"model"`
	Usage        json.RawMessage `json:"usage"`
	Timestamp    json.RawMessage `json:"timestamp"`
}

type functionCall struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

type toolCall struct {
	ID        string          `json:"id"`
	Function  functionCall    `json:"function"`
	Name      string          `json:"name"` // tau2-bench: not below "function"
	Arguments json.RawMessage `json:"arguments"`
	Requestor string          `json:"requestor"`
}

// text joins the text of a content of any form: a string, or a list of parts.
func text(content json.RawMessage) string {
	switch rawjson.Kind(content) {
	case '"':
		return rawjson.Text(content)
	case '[':
		var parts []string
		rawjson.Elements(content, func(part []byte) bool {
			if t := cmp.Or(rawjson.Text(part), rawjson.Text(rawjson.Get(part, "text"))); t != "" {
				parts = append(parts, t)
			}
			return true
		})
		return strings.Join(parts, "\n")
	}
	return ""
}

// block is a part of an Anthropic message.
type block struct {
	Type      string          `json:"type"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
	IsError   bool            `json:"is_error"`
}

// blocks are the tool parts of a content: requests of the model, results in the user's name.
func blocks(content json.RawMessage) (uses, results []block) {
	rawjson.Elements(content, func(part []byte) bool {
		switch kind := rawjson.Text(rawjson.Get(part, "type")); {
		case kind == "tool_use" || kind == "server_tool_use" || kind == "mcp_tool_use":
			var b block
			if json.Unmarshal(part, &b) == nil {
				uses = append(uses, b)
			}
		case strings.HasSuffix(kind, "tool_result"):
			var b block
			if json.Unmarshal(part, &b) == nil {
				results = append(results, b)
			}
		}
		return true
	})
	return uses, results
}

// outcome reads the block's content: text, or parts, of which several or structured ones are kept as they are.
func (b *block) outcome(at time.Time) outcome {
	return outcome{result: resultContent(b.Content), failed: b.IsError, at: at}
}

// resultContent is text where the content is text only, and the content otherwise.
func resultContent(content json.RawMessage) []byte {
	switch rawjson.Kind(content) {
	case 0, 'n':
		return nil
	case '"':
		return resultOf(rawjson.Text(content))
	case '[':
		onlyText := true
		rawjson.Elements(content, func(part []byte) bool {
			onlyText = rawjson.Get(part, "text") != nil || rawjson.Kind(part) == '"'
			return onlyText
		})
		if onlyText {
			return resultOf(text(content))
		}
	}
	return content
}

// message adds a message; a result that answers no call is not one.
func (d *dialogue) message(m *message) {
	at := timeOf(m.Timestamp)
	uses, results := blocks(m.Content)
	for i := range results {
		if m.Role != "assistant" {
			d.result(results[i].ToolUseID, results[i].outcome(at))
		}
	}
	switch m.Role {
	case "user", "human":
		if said := text(m.Content); (said != "" || len(results) == 0) && (m.Valid == nil || *m.Valid) {
			d.user(said, at)
		}
	case "assistant", "ai", "model":
		d.answer(usageOf(m.Model, m.Usage), at)
		for _, use := range uses {
			d.call(use.ID, use.Name, use.Input, at)
		}
		for i := range results { // tools that the model's server runs answer in the same message
			d.result(results[i].ToolUseID, results[i].outcome(at))
		}
		for _, c := range m.ToolCalls {
			d.call(c.ID, cmp.Or(c.Function.Name, c.Name), first(c.Function.Arguments, c.Arguments), at)
		}
		if f := m.FunctionCall; f != nil && len(m.ToolCalls) == 0 {
			d.call("", f.Name, f.Arguments, at)
		}
	case "tool", "function":
		id := m.ToolCallID
		if id == "" && len(m.ToolCallIDs) > 0 {
			id = m.ToolCallIDs[0]
		}
		d.result(id, outcome{result: resultOf(text(m.Content)), failed: rawjson.Kind(m.Error) == 't' || rawjson.Text(m.Error) != "", message: rawjson.Text(m.Error), at: at})
	}
}

func first(values ...json.RawMessage) json.RawMessage {
	for _, v := range values {
		if v != nil {
			return v
		}
	}
	return nil
}

// usageOf reads the tokens of a model call in the forms of OpenAI and Anthropic; the latter counts cached ones apart.
func usageOf(model string, usage json.RawMessage) ingest.LLMCall {
	l := unknownUsage()
	l.Model = model
	if rawjson.Kind(usage) != '{' {
		return l
	}
	number := func(names ...string) int64 {
		for _, name := range names {
			if n := count(rawjson.Get(usage, name)); n >= 0 {
				return n
			}
		}
		return -1
	}
	l.InputTokens, l.OutputTokens = number("input_tokens", "prompt_tokens"), number("output_tokens", "completion_tokens")
	l.CachedTokens = number("cached_input_tokens", "cached_tokens")
	for _, details := range []string{"prompt_tokens_details", "input_tokens_details"} {
		if n := count(rawjson.Get(rawjson.Get(usage, details), "cached_tokens")); n >= 0 {
			l.CachedTokens = n
		}
	}
	if read, written := number("cache_read_input_tokens"), number("cache_creation_input_tokens"); read >= 0 || written >= 0 {
		l.InputTokens = max(l.InputTokens, 0) + max(read, 0) + max(written, 0)
		l.CachedTokens = read
	}
	return l
}

// errRun marks a conversation that has not the form of one.
var errRun = errors.New("not a conversation")

// messages adds the messages of a list.
func (d *dialogue) messages(list json.RawMessage) (err error) {
	i := 0
	rawjson.Elements(list, func(raw []byte) bool {
		var m message
		if err = json.Unmarshal(raw, &m); err != nil {
			err = fmt.Errorf("%w: message %d: %w", errRun, i, err)
			return false
		}
		d.message(&m)
		i++
		return true
	})
	if err == nil {
		err = d.named()
	}
	return err
}

// named reports calls without the name of their tool.
func (d *dialogue) named() error {
	if d.nameless > 0 {
		d.nameless = 0
		return fmt.Errorf("%w: a tool call has no name", errRun)
	}
	return nil
}

// chat imports conversations: an object with "messages", or one a line, or a list of them; or one list of messages, which
// is the file's only conversation. The session is the object's own id, else the file and the place in it.
func (s *sink) chat(in *input) error {
	var single *dialogue
	err := s.documents(in, rawjson.Auto, func(raw []byte, index, line int) error {
		if hasKey(raw, "role") {
			if single == nil {
				single = s.session(in, in.session, "file/chat")
				single.template.Metadata = in.provenance(line)
			}
			var m message
			if err := json.Unmarshal(raw, &m); err != nil {
				return fmt.Errorf("%w: %w", errRun, err)
			}
			single.message(&m)
			if err := single.settle(); err != nil {
				return err
			}
			return single.named()
		}
		messages := rawjson.Get(raw, "messages")
		if rawjson.Kind(messages) != '[' {
			return fmt.Errorf("%w: no list of messages", errRun)
		}
		d := s.session(in, rowSession(in, raw, index), "file/chat")
		d.template.Metadata = in.provenance(line)
		if err := d.messages(messages); err != nil {
			return err
		}
		return d.finish()
	})
	if err == nil && single != nil {
		err = single.finish()
	}
	return err
}

// rowSession is the session that a conversation names itself, else the file and the place in it.
func rowSession(in *input, raw []byte, index int) string {
	for _, name := range []string{"session_id", "conversation_id", "thread_id", "id", "uuid"} {
		if id := bare(rawjson.Get(raw, name)); id != "" && id != "null" {
			return id
		}
	}
	if task := bare(rawjson.Get(raw, "task_id")); task != "" {
		id := stem(in) + "/task" + task
		if trial := bare(rawjson.Get(raw, "trial")); trial != "" {
			id += "/trial" + trial
		}
		return id
	}
	return in.session + "#" + strconv.Itoa(index)
}

// stem is the file's name without endings.
func stem(in *input) string { return strings.TrimSuffix(in.name, filepath.Ext(in.name)) }

// bare is the text of a number or string.
func bare(raw json.RawMessage) string {
	switch rawjson.Kind(raw) {
	case '"':
		return rawjson.Text(raw)
	case '0':
		return string(raw)
	}
	return ""
}
