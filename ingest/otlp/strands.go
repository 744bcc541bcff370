package otlp

// strands: AWS Strands, which Bedrock's AgentCore uses: the GenAI conventions with arguments and results in span events,
// or, when the user asked for the newest ones, in attributes; a failed tool sets gen_ai.tool.status.
var strands = dialect{name: "strands", role: strandsRole, tool: genAITool, model: genAIModel, agent: genAIAgent}

func strandsRole(r *record) role {
	if r.str(kProvider) != "strands-agents" {
		return roleNone
	}
	return genAIRole(r)
}
