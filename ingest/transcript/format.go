// Package transcript reads files of recorded calls, as their tools write them, into events: one file per format.
//
// Importing the same file twice adds nothing: what has no ids of its own is told by its session and position.
package transcript

import (
	"bytes"
	"path/filepath"
	"strings"

	"pave/ingest/rawjson"
)

// Format names a file format.
type Format string

// Formats. Auto is detected from the file's name and first bytes.
const (
	Auto        Format = ""
	Records     Format = "jsonl"              // the records of the JSON ingest API, and recorded sessions: one tool call a line
	ChainWeaver Format = "chainweaver"        // ChainWeaver's records
	Chat        Format = "chat"               // conversations of OpenAI's chat completions or Anthropic's messages
	Responses   Format = "responses"          // items of OpenAI's Responses
	ClaudeCode  Format = "claude-code"        // a Claude Code session log
	Codex       Format = "codex"              // a Codex session log
	GeminiCLI   Format = "gemini-cli"         // a Gemini CLI chat
	LangSmith   Format = "langsmith"          // exported runs
	Langfuse    Format = "langfuse"           // exported traces and observations
	MCP         Format = "mcp"                // a log of JSON-RPC messages
	SWEAgent    Format = "swe-agent"          // a trajectory
	TauBench    Format = "tau-bench"          // a list of runs with chat messages
	Tau2Bench   Format = "tau2-bench"         // tasks and simulations
	ToolBench   Format = "toolbench"          // an answer file
	ATIF        Format = "atif"               // the Agent Trajectory Interchange Format
	Steps       Format = "intermediate-steps" // a CSV of LangChain's intermediate_steps, such as WorkBench's results
	OTLPTraces  Format = "traces"             // OTLP trace requests: one, one a line, or each behind its length
	OTLPLogs    Format = "logs"               // OTLP log requests, likewise
	OTLP        Format = "otlp"               // OTLP requests of any signal
)

// Formats lists what Options.Format takes.
func Formats() []Format {
	return []Format{Records, ChainWeaver, Chat, Responses, ClaudeCode, Codex, GeminiCLI, LangSmith, Langfuse, MCP, SWEAgent,
		TauBench, Tau2Bench, ToolBench, ATIF, Steps, OTLPTraces, OTLPLogs, OTLP}
}

// Detect names the format of a file from its name (compression suffix removed) and its first bytes, "" when it is
// none that is known.
func Detect(name string, head []byte) Format {
	base := strings.ToLower(filepath.Base(name))
	switch filepath.Ext(base) {
	case ".binpb", ".pb":
		return signal(base)
	case ".traj":
		return SWEAgent
	case ".csv":
		return Steps
	}
	head = bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\xEF\xBB\xBF")), " \t\r\n")
	switch {
	case len(head) == 0:
		return Auto
	case head[0] == '[':
		return element(bytes.TrimLeft(head[1:], " \t\r\n"))
	case head[0] != '{':
		return Auto
	}
	return object(membersOf(head))
}

// element names the format of a list by its first element.
func element(head []byte) Format {
	m := membersOf(head)
	switch {
	case m.has("traj"), bytes.Contains(head, []byte(`"traj"`)) && !m.has("tool"):
		return TauBench
	case len(m) == 0:
		return Records
	}
	if f := object(m); f != Auto {
		return f
	}
	return Records
}

// object names the format of an object, the file's only or one of many, by its members.
func object(m members) Format {
	kind := m["type"]
	switch {
	case m.has("resourceSpans", "resource_spans"):
		return OTLPTraces
	case m.has("resourceLogs", "resource_logs"):
		return OTLPLogs
	case m.has("resourceMetrics", "resource_metrics"):
		return OTLP
	case m.has("jsonrpc"), m.has("message", "payload", "data", "body", "msg", "raw", "frame") && strings.Contains(m.any(), `"jsonrpc"`):
		return MCP
	case m.has("run_type"), m.has("runs") && strings.Contains(m["runs"], "run_type"):
		return LangSmith
	case strings.HasPrefix(m["schema_version"], "ATIF"), m.has("steps") && m.has("agent"):
		return ATIF
	case m.has("simulations"), m.has("tasks") && !m.has("messages"):
		return Tau2Bench
	case m.has("answer_generation"), m.has("win") && m.has("tree"):
		return ToolBench
	case m.has("trajectory") && (m.has("environment") || m.has("history") || m.has("info")), m.has("history") && m.has("environment"):
		return SWEAgent
	case m.has("payload") && m.has("type") && m.has("timestamp"):
		return Codex
	case m.has("traceId") && m.has("type", "startTime"), m.has("observations"), m.has("traces"), m.has("sessionId") && m.has("projectId", "htmlPath"):
		return Langfuse
	case m.has("sessionId") && m.has("startTime", "projectHash", "kind", "lastUpdated"):
		return GeminiCLI
	case m.has("uuid") && m.has("message", "sessionId", "parentUuid"), m.has("leafUuid") && kind == "summary", kind == "file-history-snapshot", m.has("sessionId") && m.has("type"):
		return ClaudeCode
	case kind == "function_call", kind == "function_call_output", kind == "message" && m.has("role"), m["object"] == "response", m.has("output") && m.has("previous_response_id"),
		kind == "reasoning", strings.HasSuffix(kind, "_call") && !m.has("tool"):
		return Responses
	case m.has("messages"), m.has("role") && m.has("content", "tool_calls"):
		return Chat
	case m.has("tool", "tool_name") && m.has("inputs", "outputs", "result_status", "output_keys", "turn_id"), m["event"] == "model_call":
		return ChainWeaver
	case m.has("tool", "tool_name", "event"):
		return Records
	}
	return Auto
}

// signal takes the signal from a file's name, as captures are named: 01-traces.binpb.
func signal(base string) Format {
	switch {
	case strings.Contains(base, "log"):
		return OTLPLogs
	case strings.Contains(base, "trace"):
		return OTLPTraces
	}
	return OTLP
}

// members are the keys of an object's first level, as far as the head of a file reaches, with their text or, where they
// are no text, with how they begin.
type members map[string]string

func membersOf(head []byte) members {
	m := make(members)
	s := rawjson.Scanner{Data: head, Limits: rawjson.Limits{Depth: maxFileDepth}}
	if s.Open('{') != nil {
		return m
	}
	for {
		k, more, err := s.Key()
		if err != nil || !more {
			return m
		}
		start := s.Pos
		v, err := s.Value()
		if err != nil { // the head ends here
			m[string(k)] = string(head[start:min(len(head), start+4<<10)])
			return m
		}
		if m[string(k)] = rawjson.Text(v); rawjson.Kind(v) != '"' {
			m[string(k)] = string(v[:min(len(v), 4<<10)])
		}
	}
}

// has reports any of the keys.
func (m members) has(keys ...string) bool {
	for _, k := range keys {
		if _, ok := m[k]; ok {
			return true
		}
	}
	return false
}

// any joins the values.
func (m members) any() string {
	var b strings.Builder
	for _, v := range m {
		b.WriteString(v)
	}
	return b.String()
}

// hasKey reports whether the object that head begins with has the key at its first level, as far as head reaches.
func hasKey(head []byte, key string) bool { return membersOf(head).has(key) }
