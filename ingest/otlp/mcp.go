package otlp

import (
	"cmp"
	"strings"

	"pave/ingest"
	"pave/ingest/rawjson"
)

// mcp: the conventions of MCP clients and servers, where the span carries no GenAI operation. The id of the request is
// the transport's, not the model's.
var mcp = dialect{name: "mcp", role: mcpRole, tool: mcpTool}

func mcpRole(r *record) role {
	name := strings.TrimPrefix(r.name, "tools/call ")
	switch {
	case r.str(kMCPMethod) == "tools/call" && (r.has[kToolName] || name != r.name), name != r.name && r.has[kMCPMethod]:
		return roleTool
	case r.has[kMCPMethod]:
		return roleLink
	}
	return roleNone
}

func mcpTool(r *record, e *ingest.Event) {
	c := e.Call
	c.Tool = cmp.Or(r.str(kToolName), r.text(strings.TrimPrefix(r.name, "tools/call ")))
	result, isError := mcpResult(r.json(kToolResult))
	c.Args, c.Result = ingest.NormaliseArgs(r.json(kToolArgs)), unwrapResult(result)
	code := r.str(kRPCStatus)
	r.finish(c, isError || code != "" && code != "0" && code != "OK", "")
}

// mcpResult takes the content out of the result of a call, {content, structuredContent, isError}.
func mcpResult(result []byte) (content []byte, isError bool) {
	inner := rawjson.Get(result, "content")
	if inner == nil {
		return result, false
	}
	return firstOf(rawjson.Get(result, "structuredContent"), inner), rawjson.Kind(rawjson.Get(result, "isError")) == 't'
}
