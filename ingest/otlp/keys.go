package otlp

// key is an attribute that some dialect reads. Attributes of a span are sorted into an array by key once, so that
// dialects look nothing up by name.
type key uint8

const (
	// GenAI semantic conventions, their ages side by side, and frameworks that follow them with keys of their own.
	kOperation key = iota
	kToolName
	kToolArgs
	kToolResult
	kToolCallID
	kToolStatus
	kProvider
	kAgentName
	kAgentID
	kAgentRun
	kRequestModel
	kResponseModel
	kInputTokens
	kOutputTokens
	kPromptTokens
	kCompletionTokens
	kCachedTokens
	kInputMessages
	kOutputMessages
	kPrompt
	kCompletion
	kErrorType
	kErrorMessage
	kRPCStatus
	kAdkArgs
	kAdkResponse
	kAdkInvocation
	kAdkRequest
	kAdkAnswer
	kPydanticArgs
	kPydanticResponse
	kPydanticAgent
	kPydanticFailure
	kPydanticEvents
	kSpringKind
	kSpringTool
	kSpringArgs
	kSpringResult
	kSpringCallID
	kMCPMethod
	kPaveRun
	// OpenInference
	kOIKind
	kOIToolName
	kOIToolID
	kOIParameters
	kInputValue
	kOutputValue
	kOIAgent
	kOINode
	kOIRole
	kOIModel
	kOIPromptTokens
	kOICompletionTokens
	kOICacheRead
	kOICost
	kOIMetadata
	// Vercel AI SDK
	kAIOperation
	kAIToolName
	kAIToolID
	kAIToolArgs
	kAIToolResult
	kAIFunction
	kAIModel
	kAIResponseModel
	kAIInputTokens
	kAIOutputTokens
	kAIPromptTokens
	kAICompletionTokens
	kAICachedTokens
	kAIToolCalls
	kAIMessages
	// Langfuse, LangSmith, Mastra, OpenLLMetry
	kLfType
	kLfInput
	kLfOutput
	kLfLevel
	kLfMessage
	kLfModel
	kLfUsage
	kLfCost
	kLsKind
	kMastraType
	kMastraRun
	kMastraStepInput
	kMastraStepOutput
	kTlKind
	kTlName
	kTlInput
	kTlOutput
	kLLMRequestType
	// log records of coding agents
	kEventName
	kLogTool
	kLogFunction
	kLogCallID
	kLogToolUseID
	kLogArguments
	kLogToolInput
	kLogToolParameters
	kLogFunctionArgs
	kLogOutput
	kLogSuccess
	kLogError
	kLogErrorType
	kLogDuration
	kLogTimestamp
	kLogResultSeq
	kLogSequence
	kLogAgent
	kLogPrompt
	kUserPrompt
	kRequestID
	kLogModel
	kLogInputCount
	kLogOutputCount
	kLogCachedCount
	kLogContentCached
	kLogInputTokens
	kLogOutputTokens
	kLogCacheRead
	kLogCacheWritten
	kLogCost
	// sessions, in the order of preference
	kSessionFirst
)

// sessionKeys name the session, first hit wins. The order is that of how surely each is the conversation.
var sessionKeys = [...]string{
	"gen_ai.conversation.id", "session.id", "langfuse.session.id", "langfuse.trace.metadata.langfuse_session_id", "conversation.id",
	"ai.telemetry.metadata.sessionId", "ai.telemetry.metadata.threadId", "ai.telemetry.metadata.chatId", "ai.telemetry.metadata.conversationId",
	"ai.telemetry.metadata.session_id", "ai.telemetry.metadata.thread_id", "ai.telemetry.metadata.chat_id",
	"ai.settings.context.sessionId", "ai.settings.context.threadId", "ai.settings.context.chatId", "ai.settings.context.conversationId",
	"traceloop.association.properties.session_id", "traceloop.association.properties.thread_id",
	"traceloop.association.properties.chat_id", "traceloop.association.properties.conversation_id",
	"langsmith.metadata.session_id", "langsmith.metadata.thread_id", "langsmith.metadata.conversation_id",
	"gcp.vertex.agent.session_id", "mastra.metadata.sessionId", "mastra.metadata.threadId", "spring.ai.chat.client.conversation.id", "mcp.session.id",
}

// kMCPSession is the last of them: a transport's session, which is the conversation only where nothing better is known.
const kMCPSession = kSessionFirst + key(len(sessionKeys)) - 1

// numKeys is the number of keys, sessions included.
const numKeys = int(kSessionFirst) + len(sessionKeys)

// keyOf finds the key of an attribute's name.
var keyOf = func() map[string]key {
	m := map[string]key{
		"gen_ai.operation.name": kOperation, "gen_ai.tool.name": kToolName, "gen_ai.tool.call.arguments": kToolArgs,
		"gen_ai.tool.call.result": kToolResult, "gen_ai.tool.call.id": kToolCallID, "gen_ai.tool.call_id": kToolCallID,
		"gen_ai.tool.status": kToolStatus, "gen_ai.provider.name": kProvider, "gen_ai.system": kProvider, "gen_ai.agent.name": kAgentName, "gen_ai.agent.id": kAgentID, "gen_ai.agent.call.id": kAgentRun,
		"gen_ai.request.model": kRequestModel, "gen_ai.response.model": kResponseModel,
		"gen_ai.usage.input_tokens": kInputTokens, "gen_ai.usage.output_tokens": kOutputTokens,
		"gen_ai.usage.prompt_tokens": kPromptTokens, "gen_ai.usage.completion_tokens": kCompletionTokens,
		"gen_ai.response.prompt_tokens": kPromptTokens, "gen_ai.response.completion_tokens": kCompletionTokens,
		"gen_ai.usage.cache_read.input_tokens": kCachedTokens, "gen_ai.usage.cache_read_input_tokens": kCachedTokens,
		"gen_ai.input.messages": kInputMessages, "gen_ai.output.messages": kOutputMessages,
		"gen_ai.prompt": kPrompt, "gen_ai.completion": kCompletion, "error.type": kErrorType, "error.message": kErrorMessage,
		"rpc.response.status_code":        kRPCStatus,
		"gcp.vertex.agent.tool_call_args": kAdkArgs, "gcp.vertex.agent.tool_response": kAdkResponse, "gcp.vertex.agent.invocation_id": kAdkInvocation,
		"gcp.vertex.agent.llm_request": kAdkRequest, "gcp.vertex.agent.llm_response": kAdkAnswer,
		"tool_arguments": kPydanticArgs, "tool_response": kPydanticResponse, "agent_name": kPydanticAgent, "pydantic_ai.tool.failure_stage": kPydanticFailure, "events": kPydanticEvents,
		"spring.ai.kind": kSpringKind, "spring.ai.tool.definition.name": kSpringTool, "spring.ai.tool.call.arguments": kSpringArgs,
		"spring.ai.tool.call.result": kSpringResult, "spring.ai.tool.call.id": kSpringCallID, "mcp.method.name": kMCPMethod, "pave.run.id": kPaveRun,

		"openinference.span.kind": kOIKind, "tool.name": kOIToolName, "tool.id": kOIToolID, "tool_call.id": kOIToolID, "tool.parameters": kOIParameters, "input.value": kInputValue, "output.value": kOutputValue,
		"agent.name": kOIAgent, "graph.node.id": kOINode, "tool.agent_role": kOIRole, "llm.model_name": kOIModel,
		"llm.token_count.prompt": kOIPromptTokens, "llm.token_count.completion": kOICompletionTokens,
		"llm.token_count.prompt_details.cache_read": kOICacheRead, "llm.cost.total": kOICost, "metadata": kOIMetadata,

		"ai.operationId": kAIOperation, "ai.toolCall.name": kAIToolName, "ai.toolCall.id": kAIToolID, "ai.toolCall.args": kAIToolArgs,
		"ai.toolCall.result": kAIToolResult, "ai.telemetry.functionId": kAIFunction, "ai.model.id": kAIModel, "ai.response.model": kAIResponseModel,
		"ai.usage.inputTokens": kAIInputTokens, "ai.usage.outputTokens": kAIOutputTokens, "ai.usage.promptTokens": kAIPromptTokens,
		"ai.usage.completionTokens": kAICompletionTokens, "ai.usage.cachedInputTokens": kAICachedTokens,
		"ai.response.toolCalls": kAIToolCalls, "ai.prompt.messages": kAIMessages,

		"langfuse.observation.type": kLfType, "langfuse.observation.input": kLfInput, "langfuse.observation.output": kLfOutput,
		"langfuse.observation.level": kLfLevel, "langfuse.observation.status_message": kLfMessage,
		"langfuse.observation.model.name": kLfModel, "langfuse.observation.usage_details": kLfUsage, "langfuse.observation.cost_details": kLfCost,
		"langsmith.span.kind": kLsKind, "mastra.span.type": kMastraType, "mastra.metadata.runId": kMastraRun,
		"mastra.model_step.input": kMastraStepInput, "mastra.model_step.output": kMastraStepOutput,
		"traceloop.span.kind": kTlKind, "traceloop.entity.name": kTlName, "traceloop.entity.input": kTlInput, "traceloop.entity.output": kTlOutput,
		"llm.request.type": kLLMRequestType,

		"event.name": kEventName, "tool_name": kLogTool, "function_name": kLogFunction, "call_id": kLogCallID, "tool_use_id": kLogToolUseID,
		"arguments": kLogArguments, "tool_input": kLogToolInput, "tool_parameters": kLogToolParameters, "function_args": kLogFunctionArgs,
		"output": kLogOutput, "success": kLogSuccess, "error": kLogError, "error_type": kLogErrorType, "duration_ms": kLogDuration, "event.timestamp": kLogTimestamp,
		"tool_result_seq": kLogResultSeq, "event.sequence": kLogSequence, "agent_id": kLogAgent, "prompt": kLogPrompt, "user_prompt": kUserPrompt, "request_id": kRequestID, "model": kLogModel,
		"input_token_count": kLogInputCount, "output_token_count": kLogOutputCount, "cached_token_count": kLogCachedCount, "cached_content_token_count": kLogContentCached,
		"input_tokens": kLogInputTokens, "output_tokens": kLogOutputTokens, "cache_read_tokens": kLogCacheRead, "cache_creation_tokens": kLogCacheWritten, "cost_usd": kLogCost,
	}
	for i, name := range sessionKeys {
		m[name] = kSessionFirst + key(i)
	}
	return m
}()
