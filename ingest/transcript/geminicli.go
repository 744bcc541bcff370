package transcript

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"pave/ingest/rawjson"
)

// geminiMessage is a message of a Gemini CLI chat file.
type geminiMessage struct {
	ID        string          `json:"id"`
	Timestamp json.RawMessage `json:"timestamp"`
	Type      string          `json:"type"`
	Content   json.RawMessage `json:"content"`
	Model     string          `json:"model"`
	ToolCalls []struct {
		ID        string          `json:"id"`
		Name      string          `json:"name"`
		Args      json.RawMessage `json:"args"`
		Result    json.RawMessage `json:"result"`
		Status    string          `json:"status"`
		Timestamp json.RawMessage `json:"timestamp"`
	} `json:"toolCalls"`
	Tokens struct {
		Input, Output, Cached *int64
	} `json:"tokens"`
}

// geminiChat is the chat as the file's lines leave it.
type geminiChat struct {
	session string
	order   []string
	last    map[string][]byte // message id -> its last record
	lines   map[string]int
	size    int64
}

var errChatTooLarge = errors.New("the chat is larger than the limit")

// gemini imports a Gemini CLI chat: a header and records of messages, one a line, where a message is written again when
// its calls are done and {"$set": ...} changes the header; or one object with "messages". The responses of functions in
// the user's name tell results again.
func (s *sink) gemini(in *input) error {
	chat := geminiChat{session: in.session, last: make(map[string][]byte), lines: make(map[string]int)}
	err := s.documents(in, rawjson.Auto, func(raw []byte, index, line int) error {
		if chat.size += int64(len(raw)); chat.size > s.opts.Limits.Inflated {
			return errChatTooLarge
		}
		return chat.record(raw, index, line)
	})
	if err != nil {
		return err
	}
	d := s.session(in, chat.session, "file/gemini-cli")
	for _, id := range chat.order {
		var m geminiMessage
		if err := json.Unmarshal(chat.last[id], &m); err != nil {
			s.reject(rejected(in, 0, chat.lines[id], fmt.Errorf("%w: %w", errRun, err)))
			continue
		}
		d.template.Metadata = in.provenance(chat.lines[id])
		d.gemini(&m)
		if err := d.named(); err != nil {
			s.reject(rejected(in, 0, chat.lines[id], err))
		}
		if err := d.settle(); err != nil {
			return err
		}
	}
	return d.finish()
}

func (c *geminiChat) record(raw []byte, index, line int) error {
	if set := rawjson.Get(raw, "$set"); set != nil {
		raw = set
	}
	if messages := rawjson.Get(raw, "messages"); messages != nil {
		i := 0
		rawjson.Elements(messages, func(m []byte) bool { c.put(m, i, line); i++; return true })
	}
	if session := rawjson.Text(rawjson.Get(raw, "sessionId")); session != "" {
		c.session = session
		return nil
	}
	if kind := rawjson.Text(rawjson.Get(raw, "type")); kind != "" {
		c.put(raw, index, line)
	}
	return nil
}

func (c *geminiChat) put(raw []byte, index, line int) {
	id := cmp.Or(rawjson.Text(rawjson.Get(raw, "id")), fmt.Sprintf("#%d", index))
	if c.last[id] == nil {
		c.order = append(c.order, id)
	}
	c.last[id], c.lines[id] = raw, line
}

func (d *dialogue) gemini(m *geminiMessage) {
	at := timeOf(m.Timestamp)
	switch m.Type {
	case "user":
		said, answers := text(m.Content), false
		rawjson.Elements(m.Content, func(part []byte) bool {
			answers = answers || rawjson.Get(part, "functionResponse") != nil
			return true
		})
		if !answers {
			d.user(said, at)
		}
	case "gemini", "model", "assistant":
		l := unknownUsage()
		l.Model = m.Model
		for from, to := range map[*int64]*int64{m.Tokens.Input: &l.InputTokens, m.Tokens.Output: &l.OutputTokens, m.Tokens.Cached: &l.CachedTokens} {
			if from != nil {
				*to = max(*from, 0)
			}
		}
		d.answer(l, at)
		for _, c := range m.ToolCalls {
			started := timeOf(c.Timestamp)
			if started.IsZero() {
				started = at
			}
			place := d.call(c.ID, c.Name, c.Args, started)
			if place < 0 || c.Status != "success" && c.Status != "error" && c.Status != "cancelled" {
				continue
			}
			result := geminiResult(c.Result)
			message := rawjson.Text(rawjson.Get(result, "error"))
			d.result(c.ID, outcome{result: result, failed: c.Status != "success", message: cmp.Or(message, map[string]string{"cancelled": "cancelled"}[c.Status])})
		}
	}
}

// geminiResult takes the answer out of [{functionResponse: {id, name, response: {output}}}].
func geminiResult(raw []byte) (result []byte) {
	if rawjson.Kind(raw) != '[' {
		return resultContent(raw)
	}
	rawjson.Elements(raw, func(part []byte) bool {
		response := rawjson.Get(rawjson.Get(part, "functionResponse"), "response")
		if output := rawjson.Get(response, "output"); output != nil {
			result = resultContent(output)
		} else {
			result = response
		}
		return result == nil
	})
	return result
}
