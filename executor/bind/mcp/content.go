package mcp

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"pave/executor"
	"pave/executor/bind"
	"pave/flows"
	"pave/flows/value"
)

// answer is the value of a result: the structured content, else what the text says, parsed where it is JSON, else the
// list of the parts.
func answer(tool *flows.Tool, res *mcp.CallToolResult) (any, error) {
	if res.IsError {
		said := bind.OneLine(texts(res.Content))
		if said == "" {
			said = fmt.Sprintf("tool '%s' reported an error without a text", tool.Name)
		}
		return nil, &executor.ToolError{Class: executor.ClassOther, Code: "tool_error", Message: said}
	}
	if res.StructuredContent != nil {
		return exact(res), nil
	}
	if len(res.Content) == 0 {
		return nil, nil
	}
	if len(res.Content) == 1 {
		return part(res.Content[0])
	}
	parts := make([]any, len(res.Content))
	for i, c := range res.Content {
		p, err := part(c)
		if err != nil {
			return nil, err
		}
		parts[i] = p
	}
	return parts, nil
}

// exact is the structured content with its numbers as they were written. The library reads them as doubles; servers
// repeat the content as text for older clients, where every digit is.
func exact(res *mcp.CallToolResult) any {
	if len(res.Content) == 1 {
		if text, ok := res.Content[0].(*mcp.TextContent); ok {
			var same any
			if json.Unmarshal([]byte(text.Text), &same) == nil && reflect.DeepEqual(same, res.StructuredContent) {
				if v, err := value.Decode([]byte(text.Text)); err == nil {
					return v
				}
			}
		}
	}
	return whole(res.StructuredContent)
}

// maxWhole is the largest whole number that a double holds exactly, with all below it.
const maxWhole = 1 << 53

// whole makes whole doubles integers, in place.
func whole(v any) any {
	switch v := v.(type) {
	case float64:
		if n := int64(v); float64(n) == v && n <= maxWhole && n >= -maxWhole {
			return n
		}
	case []any:
		for i := range v {
			v[i] = whole(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = whole(v[k])
		}
	}
	return v
}

// part is the value of one content part. Text that is JSON counts as what it says, as it does in recorded calls.
func part(c mcp.Content) (any, error) {
	text, ok := c.(*mcp.TextContent)
	if !ok {
		raw, err := json.Marshal(c)
		if err != nil {
			return nil, &executor.ToolError{Class: executor.ClassOther, Code: "invalid_answer", Message: "the tool answered with a content part that is not JSON"}
		}
		return value.Decode(raw)
	}
	trimmed := strings.TrimSpace(text.Text)
	if trimmed != "" && strings.ContainsAny(trimmed[:1], "{[") {
		if v, err := value.Decode([]byte(trimmed)); err == nil {
			return v, nil
		}
	}
	return text.Text, nil
}

func texts(parts []mcp.Content) string {
	var said []string
	for _, c := range parts {
		if text, ok := c.(*mcp.TextContent); ok {
			said = append(said, text.Text)
		}
	}
	return strings.Join(said, " ")
}
