// Package planted generates logs of agents' tool calls with known flows in them, so that mining can be measured
// against the truth: a background of habits (order-1 Markov over a skewed vocabulary) in which flows of several
// steps are planted, with steps dropped, inserted and repeated by chance. Arguments of planted steps come from
// known sources. Everything follows from the seed.
package planted

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"

	"pave/ingest"
	"pave/ingest/store"
)

// Options of a log. Zero fields mean the value in parentheses.
type Options struct {
	Calls       int     // calls in all, sessions are added until there are at least as many (1,000,000)
	Seed        uint64  // (1)
	Tools       int     // vocabulary (500)
	Flows       int     // planted flows (50)
	MeanSession int     // mean calls of a session, exponential, at most 20 times that (20)
	Noise       float64 // probability of each of drop, insert and repeat per planted step (0; use DefaultNoise)
	// Rich plants every kind of source, loops and optional arguments; without it there are copies, constants and
	// inputs.
	Rich bool
}

const generatorAgent = "generator"

// DefaultNoise is the noise of the published figures.
const DefaultNoise = 0.03

// Shape of the log: how often a planted flow starts, and how often the next call follows the habit of the one
// before; the rest are drawn from the vocabulary.
const (
	flowShare   = 0.08
	habitShare  = 0.52
	habits      = 4   // successors that a tool's habit chooses from
	toolSkew    = 1.2 // Zipf exponents
	flowSkew    = 1.3
	minFlowLen  = 3
	flowLengths = 10 // lengths 3..12
)

func (o Options) withDefaults() Options {
	set := func(field *int, value int) {
		if *field == 0 {
			*field = value
		}
	}
	set(&o.Calls, 1_000_000)
	set(&o.Tools, 500)
	set(&o.Flows, 50)
	set(&o.MeanSession, 20)
	if o.Seed == 0 {
		o.Seed = 1
	}
	return o
}

// Flow is one planted flow: its tools, and for each step the true sources of its arguments.
type Flow struct {
	Tools []string
	Args  [][]Arg
	tools []uint32
}

// Log is a generated log. It can be read as a source of a mining pass. It is safe for concurrent use.
type Log struct {
	Flows []Flow // most used first
	Calls int    // calls in all

	options   Options
	names     []string
	habit     [][habits]uint32
	sequences []ingest.Sequence
	index     func() map[string]int
}

// Generate makes a log.
func Generate(options Options) *Log {
	o := options.withDefaults()
	l := &Log{options: o}
	l.index = sync.OnceValue(func() map[string]int {
		index := make(map[string]int, len(l.sequences))
		for i := range l.sequences {
			index[l.sequences[i].SessionID] = i
		}
		return index
	})
	r := rand.New(rand.NewPCG(o.Seed, 0))
	for t := range o.Tools {
		l.names = append(l.names, fmt.Sprintf("tool_%03d", t))
	}
	for range o.Flows {
		l.Flows = append(l.Flows, l.newFlow(r))
	}
	words := vocabulary(r, o.Tools)
	l.habit = make([][habits]uint32, o.Tools)
	for t := range l.habit {
		for h := range l.habit[t] {
			l.habit[t][h] = uint32(words.Uint64())
		}
	}
	for l.Calls < o.Calls {
		seq := l.sequence(len(l.sequences))
		l.sequences = append(l.sequences, seq)
		l.Calls += len(seq.Tools)
	}
	return l
}

func (l *Log) newFlow(r *rand.Rand) Flow {
	var f Flow
	for range minFlowLen + r.IntN(flowLengths) {
		t := uint32(r.IntN(l.options.Tools))
		f.tools = append(f.tools, t)
		f.Tools = append(f.Tools, l.names[t])
	}
	if l.options.Rich {
		f.Args = plantRich(r, len(f.tools))
	} else {
		f.Args = plantArgs(r, len(f.tools))
	}
	return f
}

func vocabulary(r *rand.Rand, tools int) *rand.Zipf {
	return rand.NewZipf(r, toolSkew, 4, uint64(tools-1))
}

// plannedCall is one call of a session before it has values. flow is -1 outside of planted flows; instance counts the
// uses of flows in the session.
type plannedCall struct {
	tool                 uint32
	flow, step, instance int
	repeat               bool
	items                int // elements of the result's list, 0 to leave it to chance
	element              int // which element of its list a step of a loop is for
}

// plan draws the calls of the session with this index; the same index gives the same calls.
func (l *Log) plan(session int) []plannedCall {
	r := rand.New(rand.NewPCG(l.options.Seed, uint64(session)*2+1))
	words := vocabulary(r, l.options.Tools)
	uses := rand.NewZipf(r, flowSkew, 3, uint64(l.options.Flows-1))
	mean := float64(l.options.MeanSession)
	length := min(max(2, int(r.ExpFloat64()*mean)), 20*l.options.MeanSession)
	var out []plannedCall
	current := uint32(words.Uint64())
	for instance := 0; len(out) < length; {
		switch u := r.Float64(); {
		case u < flowShare:
			out = l.planFlow(r, words, out, int(uses.Uint64()), instance)
			instance++
			if len(out) > 0 {
				current = out[len(out)-1].tool
			}
		case u < flowShare+habitShare:
			current = l.habit[current][r.IntN(habits)]
			out = append(out, plannedCall{tool: current, flow: -1})
		default:
			current = uint32(words.Uint64())
			out = append(out, plannedCall{tool: current, flow: -1})
		}
	}
	return out
}

func (l *Log) planFlow(r *rand.Rand, words *rand.Zipf, out []plannedCall, flow, instance int) []plannedCall {
	noise := l.options.Noise
	items := map[int]int{} // step -> elements of its list
	for step, tool := range l.Flows[flow].tools {
		u := r.Float64()
		if u < noise {
			continue
		}
		call := plannedCall{tool: tool, flow: flow, step: step, instance: instance}
		rounds := 1
		if l.options.Rich {
			call.items = minItems + r.IntN(3)
			items[step] = call.items
			rounds = l.Flows[flow].rounds(step, items)
		}
		for call.element = range rounds {
			out = append(out, call)
		}
		switch {
		case u > 1-noise:
			call.repeat = true
			out = append(out, call)
		case u > 1-2*noise:
			out = append(out, plannedCall{tool: uint32(words.Uint64()), flow: -1})
		}
	}
	return out
}

// Loop is the argument that makes a step one call for each element of a list, nil when the step is no loop.
func (f *Flow) Loop(step int) *Arg {
	for i := range f.Args[step] {
		if f.Args[step][i].Kind == Map {
			return &f.Args[step][i]
		}
	}
	return nil
}

// rounds is the number of calls of a step: one, or one for each element of the list that it loops over, when that was
// made.
func (f *Flow) rounds(step int, items map[int]int) int {
	if loop := f.Loop(step); loop != nil {
		return max(1, items[loop.Step])
	}
	return 1
}

func (l *Log) sequence(session int) ingest.Sequence {
	plan := l.plan(session)
	s := ingest.Sequence{SessionID: fmt.Sprintf("s%08d", session), Agent: generatorAgent,
		Tools: make([]uint32, len(plan)), Turns: make([]int32, len(plan)), Flags: make([]ingest.CallFlag, len(plan))}
	for i, c := range plan {
		s.Tools[i], s.Turns[i], s.Flags[i] = c.tool, int32(i), flags(i, c)
	}
	return s
}

func flags(i int, c plannedCall) ingest.CallFlag {
	switch {
	case i == 0:
		return ingest.FlagBreak
	case c.repeat:
		return ingest.FlagRepeat
	}
	return 0
}

// Sequences calls fn with every sequence. The calls have no times: a filter by time takes none.
func (l *Log) Sequences(ctx context.Context, filter store.SequenceFilter, fn func(*ingest.Sequence) error) error {
	if !filter.From.IsZero() || !filter.To.IsZero() || filter.Agent != "" && filter.Agent != generatorAgent {
		return nil
	}
	for i := range l.sequences {
		if err := ctx.Err(); err != nil {
			return err
		}
		s := l.sequences[i]
		if err := fn(&s); err != nil {
			return err
		}
	}
	return nil
}

// ToolNames returns the vocabulary.
func (l *Log) ToolNames(context.Context) ([]string, error) { return l.names, nil }

// SessionIDs lists the sessions in order.
func (l *Log) SessionIDs() []string {
	ids := make([]string, len(l.sequences))
	for i := range l.sequences {
		ids[i] = l.sequences[i].SessionID
	}
	return ids
}

// Sessions calls fn with the sessions of these ids, their values generated on the way.
func (l *Log) Sessions(ctx context.Context, ids []string, fn func(*ingest.Session) error) error {
	for _, id := range ids {
		if err := ctx.Err(); err != nil {
			return err
		}
		if i, ok := l.index()[id]; ok {
			s := l.session(i)
			if err := fn(&s); err != nil {
				return err
			}
		}
	}
	return nil
}
