package baseline

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"pave/flows"
)

// Step is one observed call: the tool and the names of its arguments and results in the order in which they were
// seen. Values are never looked at. Outputs is nil for a call that failed.
type Step struct {
	Tool    string
	Inputs  []string
	Outputs []string
}

// Trace is one recorded session.
type Trace struct {
	ID    string
	Steps []Step
}

// Observer records calls and proposes flows for what repeats. It is not safe for concurrent use.
type Observer struct {
	max    int // traces kept, 0 for all
	traces []Trace
	open   *Trace
	opened int
}

// NewObserver keeps the newest maxTraces traces; nil keeps all.
func NewObserver(maxTraces *int) (*Observer, error) {
	o := &Observer{}
	if maxTraces != nil {
		if *maxTraces < 1 {
			return nil, invalid("max_traces must be >= 1 or None, got %d.", *maxTraces)
		}
		o.max = *maxTraces
	}
	return o, nil
}

// Record appends a call to the open trace and opens one where none is.
func (o *Observer) Record(s Step) {
	if o.open == nil {
		o.opened++
		o.open = &Trace{ID: fmt.Sprintf("trace-%d", o.opened-1)}
	}
	o.open.Steps = append(o.open.Steps, s)
}

// EndTrace closes the open trace and keeps it.
func (o *Observer) EndTrace() (Trace, error) {
	if o.open == nil {
		return Trace{}, invalid("No open trace to end; call record() before end_trace().")
	}
	t := *o.open
	o.open = nil
	o.Add(t)
	return t, nil
}

// Add keeps complete traces, oldest first; empty ones are dropped.
func (o *Observer) Add(traces ...Trace) {
	for _, t := range traces {
		if len(t.Steps) > 0 {
			o.traces = append(o.traces, t)
		}
	}
	if o.max > 0 && len(o.traces) > o.max {
		o.traces = slices.Clone(o.traces[len(o.traces)-o.max:])
	}
}

// Len is the number of traces kept.
func (o *Observer) Len() int { return len(o.traces) }

// ObserverOptions are the thresholds of Observer.SuggestFlows.
type ObserverOptions struct {
	MinOccurrences int  // at least 1
	MinLength      int  // tools, at least 1
	MaxLength      *int // nil for the longest trace
	KeepSubsumed   bool // keep what only occurs inside of a longer pattern
}

// DefaultObserverOptions are three occurrences of two tools or more.
func DefaultObserverOptions() ObserverOptions {
	return ObserverOptions{MinOccurrences: 3, MinLength: 2}
}

func (opts ObserverOptions) check() error {
	switch {
	case opts.MinOccurrences < 1:
		return invalid("min_occurrences must be >= 1, got %d.", opts.MinOccurrences)
	case opts.MinLength < 1:
		return invalid("min_length must be >= 1, got %d.", opts.MinLength)
	case opts.MaxLength != nil && *opts.MaxLength < opts.MinLength:
		return invalid("max_length must be >= min_length (%d), got %d.", opts.MinLength, *opts.MaxLength)
	}
	return nil
}

// Suggestion is a flow proposed for a repeated sequence of tools.
type Suggestion struct {
	Flow              *flows.Flow
	Tools             []string
	Occurrences       int // overlapping ones count
	TracesWithPattern int
	Confidence        float64 // traces with the pattern per trace with its first tool, six decimals
	Example           Trace   // the trace that the flow was wired from
}

// EstimatedLLMCallsAvoided is one call per step and occurrence.
func (s *Suggestion) EstimatedLLMCallsAvoided() int { return len(s.Tools) * s.Occurrences }

// pattern is what is known of one sequence.
type pattern struct {
	key          string // of the tools' numbers, numberBytes each
	count        int
	traces       int
	last         int // the trace that was counted last
	trace, start int // the first occurrence
}

const numberBytes = 4

// SuggestFlows counts every contiguous sequence of tools and proposes a flow for each that is frequent enough, by
// occurrences, then length, both falling, then name.
func (o *Observer) SuggestFlows(opts ObserverOptions) ([]Suggestion, error) {
	if err := opts.check(); err != nil {
		return nil, err
	}
	patterns, byKey, withTool := o.count(opts)
	kept := patterns[:0]
	for _, p := range patterns {
		if p.count >= opts.MinOccurrences {
			kept = append(kept, p)
		}
	}
	subsumed := map[*pattern]bool{}
	if !opts.KeepSubsumed {
		subsumed = subsumedBy(kept, byKey, opts.MinLength)
	}
	out := make([]Suggestion, 0, len(kept)-len(subsumed))
	for _, p := range kept {
		if !subsumed[p] {
			out = append(out, o.suggest(p, withTool))
		}
	}
	slices.SortStableFunc(out, func(a, b Suggestion) int {
		return cmp.Or(cmp.Compare(b.Occurrences, a.Occurrences), cmp.Compare(len(b.Tools), len(a.Tools)), cmp.Compare(a.Flow.Name, b.Flow.Name))
	})
	return out, nil
}

// count returns all patterns in the order in which they were first seen, and the number of traces with each tool.
func (o *Observer) count(opts ObserverOptions) (patterns []*pattern, byKey map[string]*pattern, withTool map[string]int) {
	byKey, withTool = map[string]*pattern{}, map[string]int{}
	numbers := map[string]uint32{}
	lastWith := map[string]int{}
	var sequence []byte
	for t, trace := range o.traces {
		sequence = sequence[:0]
		for _, s := range trace.Steps {
			n, known := numbers[s.Tool]
			if !known {
				n = uint32(len(numbers))
				numbers[s.Tool] = n
			}
			sequence = binary.BigEndian.AppendUint32(sequence, n)
			if seen, ok := lastWith[s.Tool]; !ok || seen != t {
				withTool[s.Tool]++
				lastWith[s.Tool] = t
			}
		}
		longest := len(trace.Steps)
		if opts.MaxLength != nil {
			longest = min(longest, *opts.MaxLength)
		}
		for start := range trace.Steps {
			for length := opts.MinLength; length <= min(longest, len(trace.Steps)-start); length++ {
				key := sequence[start*numberBytes : (start+length)*numberBytes]
				p := byKey[string(key)]
				if p == nil {
					p = &pattern{key: string(key), trace: t, start: start, last: -1}
					byKey[p.key] = p
					patterns = append(patterns, p)
				}
				p.count++
				if p.last != t {
					p.last = t
					p.traces++
				}
			}
		}
	}
	return patterns, byKey, withTool
}

// subsumedBy finds the patterns that a longer one contains as often. Whatever lies between two patterns of equal
// count has that count too, so the two patterns of one tool less decide.
func subsumedBy(kept []*pattern, byKey map[string]*pattern, minLength int) map[*pattern]bool {
	out := map[*pattern]bool{}
	for _, long := range kept {
		if len(long.key)/numberBytes <= minLength {
			continue
		}
		for _, key := range []string{long.key[numberBytes:], long.key[:len(long.key)-numberBytes]} {
			if short := byKey[key]; short.count == long.count {
				out[short] = true
			}
		}
	}
	return out
}

func (o *Observer) suggest(p *pattern, withTool map[string]int) Suggestion {
	example := o.traces[p.trace]
	window := example.Steps[p.start : p.start+len(p.key)/numberBytes]
	tools := make([]string, len(window))
	for i, s := range window {
		tools[i] = s.Tool
	}
	s := Suggestion{Tools: tools, Occurrences: p.count, TracesWithPattern: p.traces, Example: example,
		Confidence: round(float64(p.traces)/float64(withTool[tools[0]]), 6)}
	s.Flow = &flows.Flow{FormatVersion: flows.FormatVersion1, Type: flows.TypeFlow, Name: suggestedName(tools), Version: draftVersion,
		Description: fmt.Sprintf("Auto-suggested from observed traces: %s (seen %dx, confidence %s).", arrows(tools), p.count, floatText(s.Confidence)),
		Steps:       wire(window, nil), Status: flows.StatusActive,
		Governance: &flows.Governance{Lifecycle: flows.LifecycleSuggested, ReplacesTools: tools, EstimatedModelCallsRemoved: s.EstimatedLLMCallsAvoided()}}
	return s
}

// wire maps arguments by name alone: every argument of the first step to itself, of later steps those that an
// earlier step of the window returned under the same name. unproduced hears of the others.
func wire(window []Step, unproduced func(step int, argument string)) []flows.Step {
	steps := make([]flows.Step, len(window))
	produced := map[string]bool{}
	for i, s := range window {
		var names []string
		for _, name := range s.Inputs {
			switch {
			case i == 0 || produced[name]:
				names = append(names, name)
			case unproduced != nil:
				unproduced(i, name)
			}
		}
		steps[i] = flows.Step{ToolName: s.Tool, InputMapping: identity(names)}
		for _, name := range s.Outputs {
			produced[name] = true
		}
	}
	return steps
}

// Parts of suggested names and descriptions.
const (
	namePrefix    = "suggested__"
	nameSeparator = "__"
	arrow         = " → "
)

func suggestedName(tools []string) string { return namePrefix + strings.Join(tools, nameSeparator) }

func arrows(tools []string) string { return strings.Join(tools, arrow) }
