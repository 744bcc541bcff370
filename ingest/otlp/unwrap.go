package otlp

import (
	"bytes"
	"strings"

	"pave/ingest"
	"pave/ingest/python"
	"pave/ingest/rawjson"
)

// unwrapResult takes the framework's envelope off a result, and replaces text that holds JSON by it.
func unwrapResult(raw []byte) []byte {
	switch rawjson.Kind(raw) {
	case '{':
		if bytes.Contains(raw, langChainMark) {
			// LangChain in JavaScript: {"output":{"lc":1,...,"kwargs":{"content":...}}}
			message := firstOf(rawjson.Get(raw, "output"), raw)
			if rawjson.Get(message, "lc") != nil {
				if content := rawjson.Get(rawjson.Get(message, "kwargs"), "content"); content != nil {
					return ingest.NormaliseResult(content)
				}
			}
		}
		if bytes.Contains(raw, toolMessageMark) {
			// LangChain in Python: {"type":"tool","content":...,"tool_call_id":...}, also below "data"
			message := firstOf(rawjson.Get(raw, "output"), raw)
			if rawjson.Text(rawjson.Get(message, "type")) == "tool" {
				if content := rawjson.Get(firstOf(rawjson.Get(message, "data"), message), "content"); content != nil {
					return unwrapContent(ingest.NormaliseResult(content))
				}
			}
		}
		return raw
	case '[':
		return unwrapContent(raw)
	}
	return ingest.NormaliseResult(raw)
}

// langChainMark is in every object that LangChain serialises, toolMessageMark in every message of a tool.
var langChainMark, toolMessageMark = []byte(`"lc"`), []byte(`"tool_call_id"`)

// toolMessageFailed reports a LangChain tool message that says error.
func toolMessageFailed(raw []byte) bool {
	if rawjson.Kind(raw) != '{' || !bytes.Contains(raw, toolMessageMark) {
		return false
	}
	message := firstOf(rawjson.Get(raw, "output"), raw)
	message = firstOf(rawjson.Get(message, "kwargs"), rawjson.Get(message, "data"), message)
	return rawjson.Text(rawjson.Get(message, "status")) == "error"
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
	members := countMembers(parts[0])
	if inner := rawjson.Get(parts[0], "json"); inner != nil && members == 1 {
		return inner
	}
	isText := members == 1 || rawjson.Text(rawjson.Get(parts[0], "type")) == "text"
	if inner := rawjson.Get(parts[0], "text"); isText && rawjson.Kind(inner) == '"' {
		return ingest.NormaliseResult(inner)
	}
	return raw
}

// only returns the value of the object's only member when it has that name, nil otherwise.
func only(raw []byte, name string) []byte {
	if v := rawjson.Get(raw, name); v != nil && countMembers(raw) == 1 {
		return v
	}
	return nil
}

func countMembers(raw []byte) (n int) {
	s := rawjson.Scanner{Data: raw}
	if s.Open('{') != nil {
		return 0
	}
	for {
		if _, more, err := s.Key(); err != nil || !more {
			return n
		}
		if _, err := s.Value(); err != nil {
			return n
		}
		n++
	}
}

// pythonText takes a dict or list that a Python framework wrote for people, as LangChain does with arguments and CrewAI with
// results, for what it says.
func pythonText(raw []byte) []byte {
	if rawjson.Kind(raw) != '"' {
		return raw
	}
	text := strings.TrimSpace(rawjson.Text(raw))
	if !strings.HasPrefix(text, "{") && !strings.HasPrefix(text, "[") {
		return raw
	}
	if _, isJSON := rawjson.Contained(text, rawjson.Limits{}); isJSON {
		return raw
	}
	if value, err := python.JSON(text); err == nil {
		return value
	}
	return raw
}

// unwrapCallArgs takes the positional and named arguments of a Python or JavaScript call, {"args":[..],"kwargs":{..}},
// for the arguments: the named ones; else the only positional one, whose name is lost unless it is an object; else the
// list.
func unwrapCallArgs(raw []byte) []byte {
	kwargs, args := rawjson.Get(raw, "kwargs"), rawjson.Get(raw, "args")
	if kwargs == nil || rawjson.Kind(kwargs) != '{' || args != nil && rawjson.Kind(args) != '[' {
		return raw
	}
	var positional [][]byte
	rawjson.Elements(args, func(v []byte) bool { positional = append(positional, v); return true })
	switch named := countMembers(kwargs); {
	case len(positional) == 0:
		return kwargs
	case named > 0:
		return raw
	case len(positional) == 1:
		return positional[0]
	}
	return args
}
