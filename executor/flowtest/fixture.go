package flowtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"pave/executor"
	"pave/flows"
	"pave/flows/value"
)

// fixtureVersion is the version of the fixture file.
const fixtureVersion = 1

// Fixture is a record of tool calls that answers the same calls again.
type Fixture struct {
	Version      int           `json:"version"`
	Interactions []Interaction `json:"interactions"`
}

// Interaction is one recorded call: the validated input that the tool got, and what it answered.
type Interaction struct {
	ToolName string       `json:"tool_name"`
	Input    Value        `json:"input"`
	Output   Value        `json:"output"`
	Error    *AnswerError `json:"error,omitempty"`
}

// MarshalJSON writes the value, null when it is not set.
func (v Value) MarshalJSON() ([]byte, error) { return value.Encode(v.V), nil }

// ParseFixture reads a fixture file. The error is a *flows.Error that names it.
func ParseFixture(data []byte, path string) (*Fixture, error) {
	var f Fixture
	if err := strictly(data, &f); err != nil {
		return nil, invalid(path, "%v", err)
	}
	if f.Version != fixtureVersion {
		return nil, invalid(path, "fixtures of version %d cannot be read, only %d", f.Version, fixtureVersion)
	}
	for i := range f.Interactions {
		if f.Interactions[i].ToolName == "" {
			return nil, invalid(path, "/interactions/%d: needs tool_name", i)
		}
	}
	return &f, nil
}

// ReadFixture reads a fixture file.
func ReadFixture(path string) (*Fixture, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, invalid(path, "%v", err)
	}
	return ParseFixture(data, path)
}

// Encode writes the fixture file.
func (f *Fixture) Encode() ([]byte, error) {
	f.Version = fixtureVersion
	out, err := json.MarshalIndent(f, "", "  ")
	return append(out, '\n'), err
}

// FixtureOf makes a fixture of the records of a run, with those of sub-flows and loops: for each step the errors of its
// attempts and what came in the end. Steps that were skipped or answered by a cache have no interaction. What the run's
// record redacted stays redacted. Of a flow that is given, capability steps go by their capability's id, which records
// do not have; those of its sub-flows, and of a nil flow, by their tool's name.
func FixtureOf(result *executor.RunResult, flow *flows.Flow) *Fixture {
	f := &Fixture{Version: fixtureVersion}
	capabilities := map[string]string{}
	if flow != nil {
		for i := range flow.Steps {
			if s := &flow.Steps[i]; s.CapabilityID != "" {
				capabilities[s.StepID] = s.CapabilityID
			}
		}
	}
	for _, r := range result.ExecutionLog {
		if id := capabilities[r.StepID]; id != "" {
			r = asCapability(r, id)
		}
		f.add([]executor.StepRecord{r})
	}
	return f
}

// asCapability is the record, with those of its elements, as one of a capability.
func asCapability(r executor.StepRecord, id string) executor.StepRecord {
	r.ToolName = id
	r.Elements = slices.Clone(r.Elements)
	for i := range r.Elements {
		r.Elements[i].ToolName = id
	}
	return r
}

func (f *Fixture) add(records []executor.StepRecord) {
	for i := range records {
		r := &records[i]
		switch {
		case r.SubResult != nil:
			f.add(r.SubResult.ExecutionLog)
		case r.Elements != nil:
			f.add(r.Elements)
		case r.FlowName == nil && !r.Cached && (!r.Skipped || r.ErrorCode != nil):
			f.addStep(r)
		}
	}
}

func (f *Fixture) addStep(r *executor.StepRecord) {
	input := Value{V: r.Inputs, Set: true}
	answered := r.ToolName
	failed := r.RetryErrors
	if r.Success && !r.Skipped && !r.FallbackUsed && len(failed) > r.RetryCount {
		failed = failed[:r.RetryCount]
	}
	for _, message := range failed {
		f.Interactions = append(f.Interactions, Interaction{ToolName: r.ToolName, Input: input, Output: Value{Set: true}, Error: &AnswerError{Message: message}})
	}
	if r.FallbackUsed && r.FallbackToolName != nil {
		answered = *r.FallbackToolName
	}
	switch {
	case r.Success && r.Outputs != nil && !r.Skipped:
		f.Interactions = append(f.Interactions, Interaction{ToolName: answered, Input: input, Output: Value{V: r.Outputs, Set: true}})
	case !r.Success && r.FallbackUsed && r.ErrorMessage != nil:
		f.Interactions = append(f.Interactions, Interaction{ToolName: answered, Input: input, Output: Value{Set: true}, Error: &AnswerError{Message: *r.ErrorMessage}})
	}
}

// Player answers calls from a fixture. It is an executor.Invoker, safe for concurrent use.
type Player struct {
	// Loop starts over when the interactions of a call are used up, for flows that are run several times.
	Loop bool

	mu     sync.Mutex
	queues map[string]*queue // by tool and canonical input
	tools  map[string]bool
	stale  []error
}

// queue are the interactions of one call.
type queue struct {
	list []*Interaction
	next int
}

var (
	_ executor.PromptInvoker = (*Player)(nil)
	_ executor.Kernel        = (*Player)(nil)
)

// NewPlayer plays a fixture from its beginning.
func NewPlayer(f *Fixture) *Player {
	p := &Player{queues: map[string]*queue{}, tools: map[string]bool{}}
	for i := range f.Interactions {
		in := &f.Interactions[i]
		key := callKey(in.ToolName, in.Input.V)
		if p.queues[key] == nil {
			p.queues[key] = &queue{}
		}
		p.queues[key].list = append(p.queues[key].list, in)
		p.tools[in.ToolName] = true
	}
	return p
}

func callKey(tool string, input any) string { return tool + "\x00" + string(value.Canonical(input)) }

// Invoke implements executor.Invoker. A call that was not recorded, or not this often, is a *executor.ToolError with
// the code CW-E040.
func (p *Player) Invoke(_ context.Context, tool *flows.Tool, input map[string]any, _ executor.CallInfo) (any, error) {
	return p.play(tool.Name, input)
}

// InvokeCapability implements executor.Kernel. Interactions of a capability carry its id, or else the name of the
// step's tool, in place of a tool's name.
func (p *Player) InvokeCapability(_ context.Context, c executor.CapabilityCall) (map[string]any, error) {
	name := c.CapabilityID
	if !p.knows(name) {
		name = c.ToolName
	}
	return outputsOf(p.play(name, c.Inputs))
}

// outputsOf is what a capability gave, which is an object.
func outputsOf(answer any, err error) (map[string]any, error) {
	if err != nil {
		return nil, err
	}
	outputs, ok := answer.(map[string]any)
	if !ok {
		return nil, &executor.ToolError{Class: executor.ClassValidation, Message: "a capability answers with an object"}
	}
	return outputs, nil
}

func (p *Player) play(name string, input map[string]any) (any, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.queues[callKey(name, input)]
	if q != nil && p.Loop && q.next == len(q.list) {
		q.next = 0
	}
	if q == nil || q.next == len(q.list) {
		err := stale(name, input, "the fixtures have no call of it with this input, or no further one")
		p.stale = append(p.stale, err)
		return nil, err
	}
	answer := q.list[q.next]
	q.next++
	if answer.Error != nil {
		return nil, answer.Error.tool()
	}
	return answer.Output.V, nil
}

// Prompt implements executor.PromptInvoker.
func (p *Player) Prompt(*flows.Tool) bool { return true }

// Stale lists the calls that nothing was recorded for.
func (p *Player) Stale() []error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]error(nil), p.stale...)
}

const maxShownInput = 300

// stale is CW-E040: a call that nothing answers.
func stale(tool string, input any, reason string) *executor.ToolError {
	text := string(value.Encode(input))
	if len(text) > maxShownInput {
		text = text[:maxShownInput] + "..."
	}
	return &executor.ToolError{Class: executor.ClassOther, Code: flows.CWFixtureStale.Code, Type: flows.CWFixtureStale.Class,
		Message: fmt.Sprintf("tool '%s' was called with %s, and %s", tool, text, reason)}
}

// Recorder passes calls on and keeps them as a fixture. It is safe for concurrent use.
type Recorder struct {
	next executor.Invoker
	mu   sync.Mutex
	kept Fixture
}

var _ executor.Invoker = (*Recorder)(nil)

// NewRecorder records the calls that go through it to next.
func NewRecorder(next executor.Invoker) *Recorder { return &Recorder{next: next} }

// Invoke implements executor.Invoker.
func (r *Recorder) Invoke(ctx context.Context, tool *flows.Tool, input map[string]any, call executor.CallInfo) (any, error) {
	kept := Interaction{ToolName: tool.Name, Input: Value{Set: true}, Output: Value{Set: true}}
	var err error
	if kept.Input.V, err = value.Of(input); err != nil {
		return nil, fmt.Errorf("record the input of '%s': %w", tool.Name, err)
	}
	out, err := r.next.Invoke(ctx, tool, input, call)
	if err != nil {
		kept.Error = &AnswerError{Message: err.Error()}
		if known := new(executor.ToolError); errors.As(err, &known) {
			kept.Error = &AnswerError{Class: known.Class, Code: known.Code, Message: known.Message, Type: known.Type}
		}
	} else if kept.Output.V, err = value.Of(out); err != nil {
		return nil, fmt.Errorf("record the answer of '%s': %w", tool.Name, err)
	}
	r.mu.Lock()
	r.kept.Interactions = append(r.kept.Interactions, kept)
	r.mu.Unlock()
	if kept.Error != nil {
		return nil, err
	}
	return out, nil
}

// Fixture is what was recorded so far, in the order in which the calls ended.
func (r *Recorder) Fixture() *Fixture {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &Fixture{Version: fixtureVersion, Interactions: append([]Interaction(nil), r.kept.Interactions...)}
}
