package ingest

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"pave/flows"
	"pave/ingest/rawjson"
)

// Policy says what of observed calls is kept and what counts as a failure. The zero value keeps everything and looks
// into no result.
type Policy struct {
	Capture  []CaptureRule
	Failures []FailureRule
}

// CaptureRule keeps the content of events away: arguments, results, texts of errors and of users, and metadata. Tool,
// call id, status and times stay, so that sequences are still mined. An event that fits all patterns of a rule is
// without content; an empty pattern fits all, and * any text. The agent is the one that the record itself names.
type CaptureRule struct {
	Tool   string `yaml:"tool"`
	Agent  string `yaml:"agent"`
	Source string `yaml:"source"`
}

// FailureRule makes a call failed whose result has the pattern in its text, where nothing else said so: many tools
// answer "Error: ..." as if it were a result. Source is a pattern as in CaptureRule.
type FailureRule struct {
	Source string         `yaml:"source"`
	Tool   string         `yaml:"tool"`
	Result *regexp.Regexp `yaml:"-"`
}

// NewFailureRule compiles the pattern, a regular expression of RE2.
func NewFailureRule(source, tool, pattern string) (FailureRule, error) {
	re, err := regexp.Compile(pattern)
	if err != nil || pattern == "" {
		return FailureRule{}, &flows.Error{Code: flows.CodeInvalid, Message: fmt.Sprintf("the pattern %.80q of a failure is no regular expression", pattern), Err: err}
	}
	return FailureRule{Source: source, Tool: tool, Result: re}, nil
}

// inspected bounds how much of a result is looked into.
const inspected = 16 << 10

// inspect looks for failures in results, before they are redacted.
func (p *Policy) inspect(e *Event) {
	c := e.Call
	if c == nil || c.Status != StatusOK || c.Result == nil {
		return
	}
	for i := range p.Failures {
		f := &p.Failures[i]
		if fits(f.Source, e.Source) && fits(f.Tool, c.Tool) && f.Result.Match(resultText(c.Result)) {
			c.Status, c.Error = StatusError, cutText(string(resultText(c.Result)), 1<<10)
			return
		}
	}
}

// drop takes the content of events that must have none. Their identities were made with it: two calls without ids are
// two, whatever is kept of them.
func (p *Policy) drop(e *Event) {
	for i := range p.Capture {
		r := &p.Capture[i]
		if fits(r.Agent, e.Agent) && fits(r.Source, e.Source) && (r.Tool == "" || e.Call != nil && fits(r.Tool, e.Call.Tool)) {
			e.dropContent()
			return
		}
	}
}

// resultText is the beginning of what is looked into: the text of a text, JSON otherwise.
func resultText(raw json.RawMessage) []byte {
	if text := rawjson.Text(raw); text != "" {
		raw = []byte(text)
	}
	return raw[:min(len(raw), inspected)]
}

// structural are the members of Metadata that assembly needs.
var structural = []string{MetaService, MetaToolCallIDs, MetaWeakSession}

// dropContent leaves what sequences are made of.
func (e *Event) dropContent() {
	if c := e.Call; c != nil {
		c.Args, c.Result, c.Error = nil, nil, ""
	}
	if e.User != nil {
		e.User.Text = ""
	}
	if e.Metadata == nil {
		return
	}
	kept := []byte{'{'}
	for _, name := range structural {
		if v := rawjson.Get(e.Metadata, name); v != nil {
			if len(kept) > 1 {
				kept = append(kept, ',')
			}
			kept = append(append(rawjson.AppendString(kept, name), ':'), v...)
		}
	}
	if e.Metadata = nil; len(kept) > 1 {
		e.Metadata = append(kept, '}')
	}
}

// fits reports whether the text is what the pattern says; * stands for any text, and "" fits all.
func fits(pattern, text string) bool {
	if pattern == "" || pattern == "*" || pattern == text {
		return true
	}
	head, rest, stars := strings.Cut(pattern, "*")
	if !stars || !strings.HasPrefix(text, head) {
		return false
	}
	text = text[len(head):]
	parts := strings.Split(rest, "*")
	for _, part := range parts[:len(parts)-1] {
		i := strings.Index(text, part)
		if i < 0 {
			return false
		}
		text = text[i+len(part):]
	}
	return strings.HasSuffix(text, parts[len(parts)-1])
}
