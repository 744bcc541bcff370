package otlp

import (
	"strings"

	"pave/ingest"
)

// vercel: the Vercel AI SDK 5 and 6, and the legacy integration of 7.
var vercel = dialect{name: "vercel", role: vercelRole, tool: vercelTool, model: vercelModel, agent: vercelAgent}

func vercelRole(r *record) role {
	op := r.str(kAIOperation)
	switch {
	case op == "ai.toolCall", r.name == "ai.toolCall":
		return roleTool
	case strings.HasSuffix(op, ".doGenerate"), strings.HasSuffix(op, ".doStream"):
		return roleModel
	case op == "ai.generateText", op == "ai.streamText":
		return roleAgent
	case op != "":
		return roleLink
	}
	return roleNone
}

func vercelTool(r *record, e *ingest.Event) {
	c := e.Call
	c.Tool, c.CallID = r.str(kAIToolName), r.str(kAIToolID)
	c.Args, c.Result = ingest.NormaliseArgs(r.json(kAIToolArgs)), ingest.NormaliseResult(r.json(kAIToolResult))
	e.Agent = r.str(kAIFunction)
	r.finish(c, false, "")
}

func vercelModel(r *record, m *modelCall) {
	m.Model = r.str(kAIResponseModel, kAIModel, kResponseModel, kRequestModel)
	m.InputTokens = r.tokens(kAIInputTokens, kAIPromptTokens, kInputTokens)
	m.OutputTokens = r.tokens(kAIOutputTokens, kAICompletionTokens, kOutputTokens)
	m.CachedTokens = r.tokens(kAICachedTokens)
	messages := r.json(kAIMessages)
	m.asked, m.history = readMessages(r.json(kAIToolCalls)), readMessages(messages)
	m.user, m.hasUser = lastUser(messages)
}

func vercelAgent(r *record, e *ingest.Event) { e.Agent = r.str(kAIFunction) }
