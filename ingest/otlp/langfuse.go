package otlp

import (
	"cmp"
	"strconv"
	"strings"

	"pave/ingest"
	"pave/ingest/rawjson"
)

// langfuse: the Langfuse SDK 4 and 5. The span is named as the tool.
var langfuse = dialect{name: "langfuse", role: langfuseRole, tool: langfuseTool, model: langfuseModel, agent: langfuseAgent}

func langfuseRole(r *record) role {
	switch strings.ToLower(r.str(kLfType)) {
	case "tool":
		return roleTool
	case "generation":
		return roleModel
	case "agent":
		return roleAgent
	case "":
		return roleNone
	}
	return roleLink
}

func langfuseTool(r *record, e *ingest.Event) {
	c := e.Call
	c.Tool = r.text(r.name)
	c.Args, c.Result = ingest.NormaliseArgs(unwrapCallArgs(r.json(kLfInput))), unwrapResult(r.json(kLfOutput))
	r.finish(c, r.str(kLfLevel) == "ERROR", r.str(kLfMessage))
}

func langfuseModel(r *record, m *modelCall) {
	m.Model = r.str(kLfModel, kResponseModel, kRequestModel)
	usage := r.json(kLfUsage)
	count := func(name string) int64 {
		n, err := strconv.ParseInt(string(rawjson.Get(usage, name)), 10, 64)
		if err != nil || n < 0 {
			return -1
		}
		return n
	}
	m.InputTokens, m.OutputTokens, m.CachedTokens = count("input"), count("output"), count("input_cached_tokens")
	if cost, err := strconv.ParseFloat(string(rawjson.Get(r.json(kLfCost), "total")), 64); err == nil {
		m.CostUSD, m.HasCost = cost, true
	}
	input := r.json(kLfInput)
	input = firstOf(rawjson.Get(input, "messages"), input)
	m.user, m.hasUser = lastUser(input)
	m.history, m.asked = readMessages(input), readMessages(r.json(kLfOutput))
}

func langfuseAgent(r *record, e *ingest.Event) { e.Agent = cmp.Or(r.str(kAgentName), r.text(r.name)) }
