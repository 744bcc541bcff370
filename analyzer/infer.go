package analyzer

import (
	"encoding/json"

	"pave/flows"
	"pave/flows/value"
	"pave/ingest"
)

// Limits of inference. What lies beyond them is described as "anything".
const (
	maxInferDepth   = 6    // levels of a value that are described
	maxInferFields  = 64   // names of one object; more are taken for keys of a map
	maxInferNodes   = 2000 // described places of one tool's arguments or results
	maxInferSamples = 1000 // calls of one tool that are looked at
	maxInferTools   = 20_000
)

// Sample is one observed call: arguments and result as recorded, nil when not captured.
type Sample struct {
	Args, Result json.RawMessage
	Failed       bool
}

// Infer describes a tool from observed calls. See Inferrer.
func Infer(tool string, samples []Sample) *flows.Tool {
	inf := NewInferrer()
	for _, s := range samples {
		inf.Observe(tool, s)
	}
	t, ok := inf.Tool(tool)
	if !ok {
		t = &flows.Tool{Name: tool, Origin: flows.ToolInferred}
	}
	return t
}

// Inferrer describes tools from a stream of observed calls: types, which fields are always there, nested objects
// and lists. What was observed is not what is allowed, so objects stay open (additionalProperties), enums are
// never inferred, and absent fields stay absent ("x-absent": "omit"). A result that is no object is described
// under "result", where flows find it. Memory is bounded per tool. Not safe for concurrent use.
type Inferrer struct {
	tools map[string]*observed
	key   value.Key
}

// observed is what was seen of one tool.
type observed struct {
	args, objects, others *shape
	values                valueSets
	samples               int
}

// NewInferrer returns an Inferrer that has seen nothing.
func NewInferrer() *Inferrer { return &Inferrer{tools: map[string]*observed{}} }

// Observe adds one call. Values that do not decode are skipped; results of failed calls are not results.
func (inf *Inferrer) Observe(tool string, s Sample) {
	o := inf.tools[tool]
	if o == nil {
		if len(inf.tools) >= maxInferTools {
			return
		}
		budgetArgs, budgetResults := maxInferNodes, maxInferNodes
		o = &observed{args: newShape(&budgetArgs), objects: newShape(&budgetResults), others: newShape(&budgetResults), values: valueSets{}}
		inf.tools[tool] = o
	}
	if o.samples++; o.samples > maxInferSamples {
		return
	}
	if args, ok := decodeObject(s.Args); ok {
		o.args.observe(args, maxInferDepth)
		o.values.add(inf.key, sideInput, args)
	}
	if s.Failed || len(s.Result) == 0 {
		return
	}
	result, err := value.Decode(s.Result)
	if err != nil {
		return
	}
	if m, ok := result.(map[string]any); ok {
		o.objects.observe(m, maxInferDepth)
		o.values.add(inf.key, sideOutput, m)
		return
	}
	wrapped := map[string]any{wrapKey: result}
	o.others.observe(wrapped, maxInferDepth)
	o.values.add(inf.key, sideOutput, wrapped)
}

// wrapKey holds results that are no objects.
const wrapKey = "result"

func decodeObject(raw json.RawMessage) (map[string]any, bool) {
	if len(raw) == 0 {
		return nil, false
	}
	v, err := value.Decode(raw)
	m, ok := v.(map[string]any)
	return m, ok && err == nil
}

// ObserveSession adds the agents' own calls of a session.
func (inf *Inferrer) ObserveSession(s *ingest.Session) {
	for r := range s.Runs {
		for i := range s.Runs[r].Calls {
			call := &s.Runs[r].Calls[i]
			if call.Flags&ingest.FlagNotAgent == 0 {
				inf.Observe(call.Tool, Sample{Args: call.Args, Result: call.Result, Failed: call.Status == ingest.StatusError || call.Flags&ingest.FlagError != 0})
			}
		}
	}
}

// Tools describes every tool seen, sorted by name. Safety and binding are unknown.
func (inf *Inferrer) Tools() []*flows.Tool {
	out := make([]*flows.Tool, 0, len(inf.tools))
	for _, name := range sortedKeys(inf.tools) {
		if t, ok := inf.Tool(name); ok {
			out = append(out, t)
		}
	}
	return out
}

// Tool describes one tool; ok is false when it was never seen.
func (inf *Inferrer) Tool(name string) (t *flows.Tool, ok bool) {
	o, ok := inf.tools[name]
	if !ok {
		return nil, false
	}
	t = &flows.Tool{Name: name, Origin: flows.ToolInferred}
	if o.args.count > 0 {
		t.InputSchema = o.args.document(len(o.args.fields) > 0 || o.args.extra != nil)
	}
	if results := o.results(); results != nil {
		t.OutputSchema = results.document(true)
	}
	return t, true
}

// minObjects is the share from which on results that are no objects are taken for error texts.
const minObjects = 0.9

// results joins both kinds of results; nil when none was seen.
func (o *observed) results() *shape {
	total := o.objects.count + o.others.count
	switch {
	case total == 0:
		return nil
	case o.others.count == 0 || float64(o.objects.count) >= minObjects*float64(total):
		return o.objects
	case o.objects.count == 0:
		return o.others
	}
	budget := maxInferNodes
	both := newShape(&budget)
	both.merge(o.objects)
	both.merge(o.others)
	return both
}

// document is the schema of an object, as declared at the root of a tool. open keeps unknown keys; a tool that
// was never given an argument takes none.
func (s *shape) document(open bool) flows.RawSchema {
	root := s.objectSchema()
	if !open {
		root = value.Members{{Key: "type", Value: "object"}, {Key: "properties", Value: value.Members{}}}
	}
	root = append(root, value.Member{Key: "x-absent", Value: "omit"})
	return flows.RawSchema(value.Encode(root))
}
