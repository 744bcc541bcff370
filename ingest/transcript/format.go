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
	Auto       Format = ""
	Records    Format = "jsonl"     // the records of the JSON ingest API, and recorded sessions: one tool call a line
	TauBench   Format = "tau-bench" // a list of runs with chat messages
	OTLPTraces Format = "traces"    // one OTLP trace request, or one a line
	OTLPLogs   Format = "logs"      // one OTLP log request, or one a line
)

// Formats lists what Options.Format takes.
func Formats() []Format { return []Format{Records, TauBench, OTLPTraces, OTLPLogs} }

// Detect names the format of a file from its name (compression suffix removed) and its first bytes, "" when it is
// none that is known.
func Detect(name string, head []byte) Format {
	base := strings.ToLower(filepath.Base(name))
	if strings.HasSuffix(base, ".binpb") || strings.HasSuffix(base, ".pb") {
		return signal(base)
	}
	head = bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\xEF\xBB\xBF")), " \t\r\n")
	switch {
	case len(head) == 0:
		return Auto
	case head[0] == '[':
		element := bytes.TrimLeft(head[1:], " \t\r\n")
		if hasKey(element, "traj") || bytes.Contains(element, []byte(`"traj"`)) && !hasKey(element, "tool") {
			return TauBench
		}
		return Records
	case head[0] != '{':
		return Auto
	}
	for _, k := range []struct {
		key    string
		format Format
	}{{"resourceSpans", OTLPTraces}, {"resource_spans", OTLPTraces}, {"resourceLogs", OTLPLogs}, {"resource_logs", OTLPLogs},
		{"tool", Records}, {"tool_name", Records}, {"event", Records}} {
		if hasKey(head, k.key) {
			return k.format
		}
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
	return Auto
}

// hasKey reports whether the object that head begins with has the key at its first level, as far as head reaches.
func hasKey(head []byte, key string) bool {
	s := rawjson.Scanner{Data: head}
	if s.Open('{') != nil {
		return false
	}
	for {
		k, more, err := s.Key()
		if err != nil || !more {
			return false
		}
		if string(k) == key {
			return true
		}
		if _, err := s.Value(); err != nil {
			return false
		}
	}
}
