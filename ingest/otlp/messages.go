package otlp

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"pave/ingest"
	"pave/ingest/rawjson"
)

// Messages of model calls tell what the model asked for, what tools answered and what the user said. Every framework
// has a form of its own; they are read by what a part carries, not by who sent it.

// asked is a tool call that a message asks for, with the answer when a later message has one.
type asked struct {
	id, tool     string
	args, result []byte
	failed       bool
}

// conversation is what a list of messages tells of tools.
type conversation struct {
	calls    []asked // of all assistant messages, in order
	answered []asked // with a result, since the last assistant message
	open     map[string]int
}

// maxMessageDepth bounds how deep messages are nested in envelopes: generations, messages, kwargs, parts.
const maxMessageDepth = 10

// part is a message, a part of one, or an envelope around them: the members that some framework uses, in one pass.
type part struct {
	kind, role                                    string
	id, callID                                    []byte
	name                                          []byte
	args, result                                  []byte
	function                                      []byte // OpenAI: {name, arguments}
	toolUse, toolResult, toolCall, answer         []byte // Bedrock and Google: the part is named by its member
	content, parts, calls, message, kwargs, batch []byte
	isError, status                               []byte
}

func readPart(raw []byte) (p part) {
	s := rawjson.Scanner{Data: raw}
	if s.Open('{') != nil {
		return p
	}
	for {
		k, more, err := s.Key()
		if err != nil || !more {
			return p
		}
		v, err := s.Value()
		if err != nil {
			return p
		}
		switch string(k) {
		case "type":
			p.kind = rawjson.Text(v)
		case "role":
			p.role = rawjson.Text(v)
		case "id":
			p.id = v
		case "tool_call_id", "toolCallId", "toolUseId", "tool_use_id", "call_id":
			p.callID = v
		case "name", "toolName", "tool_name":
			p.name = v
		case "arguments", "args", "input":
			p.args = v
		case "result", "response", "output":
			p.result = v
		case "function":
			p.function = v
		case "toolUse":
			p.toolUse = v
		case "toolResult":
			p.toolResult = v
		case "functionCall", "function_call":
			p.toolCall = v
		case "functionResponse", "function_response":
			p.answer = v
		case "content":
			p.content = v
		case "parts":
			p.parts = v
		case "tool_calls", "toolCalls":
			p.calls = v
		case "message":
			p.message = v
		case "kwargs":
			p.kwargs = v
		case "messages", "choices", "generations", "candidates":
			p.batch = v
		case "is_error", "isError":
			p.isError = v
		case "status":
			p.status = v
		}
	}
}

// readMessages reads a list of messages, a single one, or an envelope around either.
func readMessages(raw []byte) *conversation {
	c := &conversation{open: make(map[string]int)}
	c.visit(raw, "", 0)
	return c
}

func (c *conversation) visit(raw []byte, role string, depth int) {
	if depth > maxMessageDepth {
		return
	}
	switch rawjson.Kind(raw) {
	case '[':
		rawjson.Elements(raw, func(element []byte) bool { c.visit(element, role, depth+1); return true })
	case '{':
		c.part(readPart(raw), role, depth)
	}
}

func (c *conversation) part(p part, role string, depth int) {
	role = cmp.Or(p.role, role)
	switch {
	case p.toolUse != nil:
		p = readPart(p.toolUse)
		c.ask(cmp.Or(rawjson.Text(p.callID), rawjson.Text(p.id)), rawjson.Text(p.name), p.args)
		return
	case p.toolCall != nil && rawjson.Kind(p.toolCall) == '{':
		call := readPart(p.toolCall)
		c.ask(rawjson.Text(call.id), rawjson.Text(call.name), call.args)
	case p.toolResult != nil:
		p = readPart(p.toolResult)
		c.answer(rawjson.Text(p.callID), p.content, rawjson.Text(p.status) == "error")
		return
	case p.answer != nil:
		p = readPart(p.answer)
		c.answer(cmp.Or(rawjson.Text(p.id), rawjson.Text(p.callID)), p.result, false)
		return
	case p.function != nil && rawjson.Kind(p.function) == '{':
		f := readPart(p.function)
		c.ask(cmp.Or(rawjson.Text(p.id), rawjson.Text(p.callID)), rawjson.Text(f.name), f.args)
		return
	case isAnswer(p.kind) || (role == "tool" || p.kind == "tool") && (p.callID != nil || c.asked(rawjson.Text(p.id))) && !isRequest(p.kind):
		c.answer(cmp.Or(rawjson.Text(p.callID), rawjson.Text(p.id)), firstOf(p.result, p.content), rawjson.Kind(p.isError) == 't' || rawjson.Text(p.status) == "error")
		return
	case isRequest(p.kind) || p.callID != nil && p.name != nil && p.content == nil:
		c.ask(cmp.Or(rawjson.Text(p.callID), rawjson.Text(p.id)), rawjson.Text(p.name), p.args)
		return
	}
	if p.kwargs != nil && p.kind == "constructor" { // LangChain's serialised messages
		c.visit(p.kwargs, role, depth+1)
		return
	}
	for _, inner := range [][]byte{p.batch, p.message, p.content, p.parts, p.calls} {
		c.visit(inner, role, depth+1)
	}
}

func isRequest(kind string) bool {
	switch kind {
	case "tool_call", "tool-call", "tool_use", "toolUse", "function_call", "server_tool_use", "mcp_tool_use":
		return true
	}
	return false
}

func isAnswer(kind string) bool {
	switch kind {
	case "tool_call_response", "tool-result", "tool_result", "function_call_output", "mcp_tool_result":
		return true
	}
	return false
}

func firstOf(values ...[]byte) []byte {
	for _, v := range values {
		if v != nil {
			return v
		}
	}
	return nil
}

func (c *conversation) ask(id, tool string, args []byte) {
	if tool == "" && id == "" {
		return
	}
	c.answered = nil
	if id != "" {
		c.open[id] = len(c.calls)
	}
	c.calls = append(c.calls, asked{id: id, tool: tool, args: args})
}

// asked reports whether a call of the id was asked for.
func (c *conversation) asked(id string) bool {
	_, known := c.open[id]
	return known
}

// answer notes the result of the call of the id that was asked for last.
func (c *conversation) answer(id string, result []byte, failed bool) {
	at, known := c.open[id]
	if !known || id == "" {
		return
	}
	call := c.calls[at]
	if value := rawjson.Get(result, "value"); value != nil && rawjson.Get(result, "type") != nil { // Vercel: {type, value}
		failed = failed || strings.HasPrefix(rawjson.Text(rawjson.Get(result, "type")), "error")
		result = value
	}
	call.result, call.failed = unwrapResult(result), failed
	c.answered = append(c.answered, call)
}

// ids lists the ids of the calls that were asked for.
func (c *conversation) ids() (ids []string) {
	for _, call := range c.calls {
		if call.id != "" {
			ids = append(ids, call.id)
		}
	}
	return ids
}

// indexedMessages rebuilds messages from attributes that hold lists as numbered keys:
//
//	llm.output_messages.<n>.message.{role, content, tool_call_id, tool_calls.<m>.tool_call.{id, function.name, function.arguments}}
//	gen_ai.completion.<n>.{role, content, tool_call_id, tool_calls.<m>.{id, name, arguments}}
func indexedMessages(r *record, prefix string) *conversation {
	type message struct {
		role, content, answers string
		calls                  map[int]*asked
	}
	messages := make(map[int]*message)
	for name, v := range r.all.All() {
		n, field, ok := cutNumber(name, prefix)
		if !ok {
			continue
		}
		m := messages[n]
		if m == nil {
			m = &message{calls: make(map[int]*asked)}
			messages[n] = m
		}
		field = strings.TrimPrefix(field, "message.")
		switch field {
		case "role":
			m.role = v.AsString()
		case "content":
			m.content = r.text(v.AsString())
		case "tool_call_id":
			m.answers = r.text(v.AsString())
		}
		i, field, ok := cutNumber(field, "tool_calls.")
		if !ok {
			continue
		}
		call := m.calls[i]
		if call == nil {
			call = &asked{}
			m.calls[i] = call
		}
		switch strings.TrimPrefix(strings.TrimPrefix(field, "tool_call."), "function.") {
		case "id":
			call.id = r.text(v.AsString())
		case "name":
			call.tool = r.text(v.AsString())
		case "arguments":
			call.args = r.value(v)
		}
	}
	c := &conversation{open: make(map[string]int)}
	for _, n := range sortedKeys(messages) {
		m := messages[n]
		for _, i := range sortedKeys(m.calls) {
			c.ask(m.calls[i].id, m.calls[i].tool, m.calls[i].args)
		}
		if m.answers != "" && m.role == "tool" {
			c.answer(m.answers, jsonText(m.content), false)
		}
	}
	return c
}

// cutNumber splits prefix + "<n>." + rest.
func cutNumber(name, prefix string) (n int, rest string, ok bool) {
	rest, ok = strings.CutPrefix(name, prefix)
	if !ok {
		return 0, "", false
	}
	number, rest, ok := strings.Cut(rest, ".")
	if !ok {
		return 0, "", false
	}
	n, err := strconv.Atoi(number)
	return n, rest, err == nil && n >= 0
}

func sortedKeys[V any](m map[int]V) []int {
	keys := make([]int, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// lastUser returns the text of the list's last message when the user wrote it. Messages with the results of tools
// in the user's name are not the user's.
func lastUser(messages []byte) (text string, isUser bool) {
	last := messages
	for depth := 0; rawjson.Kind(last) == '[' && depth < maxMessageDepth; depth++ { // LangChain: a list of conversations
		list := last
		rawjson.Elements(list, func(m []byte) bool { last = m; return true })
		if len(last) == len(list) {
			return "", false
		}
	}
	return userText(last)
}

// userText returns the text of a message when the user wrote it.
func userText(message []byte) (text string, isUser bool) {
	role := rawjson.Text(rawjson.Get(message, "role"))
	if kwargs := rawjson.Get(message, "kwargs"); kwargs != nil && rawjson.Get(message, "lc") != nil { // LangChain's serialised messages
		rawjson.Elements(rawjson.Get(message, "id"), func(name []byte) bool { role = rawjson.Text(name); return true })
		message = kwargs
	}
	switch cmp.Or(role, rawjson.Text(rawjson.Get(message, "type"))) {
	case "user", "human", "HumanMessage":
		return contentText(firstOf(rawjson.Get(message, "parts"), rawjson.Get(message, "content")))
	}
	return "", false
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
			if strings.HasPrefix(kind, "tool") || rawjson.Get(part, "toolResult") != nil || rawjson.Get(part, "functionResponse") != nil ||
				rawjson.Get(part, "function_response") != nil {
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

// lastUserIndexed finds the message of the highest number among <prefix><n>.message.role and .content.
func lastUserIndexed(r *record, prefix string) (text string, isUser bool) {
	last, role, content := -1, "", ""
	for name, v := range r.all.All() {
		n, field, ok := cutNumber(name, prefix)
		if !ok || n < last {
			continue
		}
		if n > last {
			last, role, content = n, "", ""
		}
		switch field = strings.TrimPrefix(field, "message."); {
		case field == "role":
			role = v.AsString()
		case field == "content", content == "" && strings.HasSuffix(field, ".message_content.text"):
			content = r.text(v.AsString())
		}
	}
	if role != "user" && role != "human" {
		return "", false
	}
	return content, true
}

// toolCall is the call as an event's part: it was asked for, and its execution not observed.
func (a *asked) toolCall() *ingest.ToolCall {
	c := &ingest.ToolCall{Tool: a.tool, CallID: a.id, Args: ingest.NormaliseArgs(a.args), Result: a.result, Status: ingest.StatusRequested}
	if a.failed {
		c.Error = "the answer in the conversation says that the call failed"
	}
	return c
}
