package otlp

import (
	"fmt"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"pave/flows"
	"pave/ingest"
)

// Mapping names a user's own attributes, for telemetry of no known dialect. It is immutable once it is used.
type Mapping struct {
	// Calls are tried in order before the known dialects, on spans and on log records.
	Calls []CallMapping `yaml:"calls"`
	// Sessions are attributes that name the session, in order, before the known ones.
	Sessions []string `yaml:"sessions"`
}

// CallMapping says which spans or log records are tool calls and which of their attributes hold what. Of several
// attributes the first that is there counts.
type CallMapping struct {
	Name string `yaml:"name"` // the source of its calls is otlp/<name>
	// When are attributes that must be there with these values; "*" is any value.
	When      map[string]string `yaml:"when"`
	Tool      []string          `yaml:"tool"` // without any, or where none is there, the span's or record's name
	CallID    []string          `yaml:"call_id"`
	Arguments []string          `yaml:"arguments"`
	Result    []string          `yaml:"result"`
	Error     []string          `yaml:"error"` // a call that has one of them failed, and this is why
	Agent     []string          `yaml:"agent"`
	Run       []string          `yaml:"run"`
}

// Check says what is wrong with the mapping.
func (m *Mapping) Check() error {
	for i := range m.Calls {
		c := &m.Calls[i]
		switch {
		case c.Name == "":
			return flows.NewError(flows.CodeInvalid, fmt.Sprintf("mapping %d needs a name", i+1))
		case len(c.When) == 0:
			return flows.NewError(flows.CodeInvalid, fmt.Sprintf("mapping %q needs a condition in \"when\", or every span would be a call", c.Name))
		}
	}
	return nil
}

// attribute returns the first of the attributes that is there.
func (r *record) attribute(names []string) (pcommon.Value, bool) {
	for _, name := range names {
		if v, ok := r.all.Get(name); ok && v.Type() != pcommon.ValueTypeEmpty {
			return v, true
		}
	}
	return pcommon.Value{}, false
}

// named returns the first of the attributes as text.
func (r *record) named(names []string) string {
	if v, ok := r.attribute(names); ok {
		return r.text(v.AsString())
	}
	return ""
}

// mapped is the mapping that the record fits, nil for none.
func (m *Mapping) mapped(r *record) *CallMapping {
	for i := range m.Calls {
		c, fits := &m.Calls[i], true
		for name, want := range c.When {
			v, ok := r.all.Get(name)
			if !ok || want != "*" && v.AsString() != want {
				fits = false
				break
			}
		}
		if fits {
			return c
		}
	}
	return nil
}

// call reads the record as a tool call.
func (c *CallMapping) call(r *record, e *ingest.Event) {
	e.Kind, e.Source, e.Call = ingest.KindToolCall, "otlp/"+c.Name, &ingest.ToolCall{Tool: r.named(c.Tool), CallID: r.named(c.CallID), Status: ingest.StatusOK}
	if e.Call.Tool == "" {
		e.Call.Tool = r.text(r.name)
	}
	if v, ok := r.attribute(c.Arguments); ok {
		e.Call.Args = ingest.NormaliseArgs(r.value(v))
	}
	if v, ok := r.attribute(c.Result); ok {
		e.Call.Result = unwrapResult(r.value(v))
	}
	e.Agent, e.RunID = r.named(c.Agent), r.named(c.Run)
	message := r.named(c.Error)
	if r.isSpan {
		r.finish(e.Call, message != "", message)
	} else if message != "" {
		e.Call.Status, e.Call.Error = ingest.StatusError, message
	}
}
