package transcript

import (
	"encoding/json"
	"strconv"
	"strings"

	"pave/ingest"
	"pave/ingest/rawjson"
)

// message is a chat-completions message.
type message struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	ToolCalls  []toolCall      `json:"tool_calls"`
	ToolCallID string          `json:"tool_call_id"`
	Name       string          `json:"name"`
}

type toolCall struct {
	ID       string `json:"id"`
	Function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
}

// text joins the text of a content of any form: a string, or a list of parts.
func text(content json.RawMessage) string {
	switch rawjson.Kind(content) {
	case '"':
		return rawjson.Text(content)
	case '[':
		var parts []string
		rawjson.Elements(content, func(part []byte) bool {
			if t := rawjson.Text(rawjson.Get(part, "text")); t != "" {
				parts = append(parts, t)
			}
			return true
		})
		return strings.Join(parts, "\n")
	}
	return ""
}

// chat turns the messages of one conversation into events. Every assistant message is a model call, numbered from 1;
// results are paired by call id among the messages up to the next assistant message, else by position.
type chat struct {
	template ingest.Event // header of every event
	failed   func(text string) bool
	events   []ingest.Event
	turn     int32
	open     []int // events of the current turn's calls without a result
	n        int   // events so far, for identities
}

func (c *chat) event(kind ingest.Kind) *ingest.Event {
	e := c.template
	e.Kind = kind
	e.Turn, e.HasTurn = c.turn, true
	e.Identity = ingest.DeriveIdentity("file", e.Origin, "message", strconv.Itoa(c.n))
	c.n++
	c.events = append(c.events, e)
	return &c.events[len(c.events)-1]
}

func (c *chat) add(m *message) {
	switch m.Role {
	case "user":
		e := c.event(ingest.KindUserMessage)
		e.Turn++ // the turn that answers it
		e.User = &ingest.UserMessage{Text: text(m.Content)}
	case "assistant":
		c.turn++
		c.open = c.open[:0]
		c.event(ingest.KindLLMCall).LLM = &ingest.LLMCall{Count: 1, InputTokens: -1, OutputTokens: -1, CachedTokens: -1}
		for _, call := range m.ToolCalls {
			e := c.event(ingest.KindToolCall)
			e.Call = &ingest.ToolCall{Tool: call.Function.Name, CallID: call.ID, Args: ingest.NormaliseArgs(call.Function.Arguments), Status: ingest.StatusUnknown}
			c.open = append(c.open, len(c.events)-1)
		}
	case "tool", "function":
		c.result(m)
	}
}

// result completes the call that the message answers; a message that answers none is not a call.
func (c *chat) result(m *message) {
	at := -1
	for i, index := range c.open {
		if id := c.events[index].Call.CallID; id == m.ToolCallID || at < 0 && (id == "" || m.ToolCallID == "") {
			if at = i; id == m.ToolCallID {
				break
			}
		}
	}
	if at < 0 {
		return
	}
	call := c.events[c.open[at]].Call
	c.open = append(c.open[:at], c.open[at+1:]...)
	content := text(m.Content)
	call.Status, call.Result = ingest.StatusOK, resultOf(content)
	if c.failed(content) {
		call.Status, call.Error = ingest.StatusError, content
	}
}

// resultOf reads a tool message: these files hold JSON of any kind as text, numbers included.
func resultOf(content string) json.RawMessage {
	trimmed := strings.TrimSpace(content)
	if k := rawjson.Kind([]byte(trimmed)); k != 0 && k != '"' && rawjson.Valid([]byte(trimmed), rawjson.Limits{}) == nil {
		return json.RawMessage(trimmed)
	}
	return rawjson.Quote(content)
}
