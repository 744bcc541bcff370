package replay

import (
	"slices"
	"strings"

	"pave/flows/value"
)

// Limits of the bounds that depend on the training part.
const (
	maxGram     = 8 // longest sequence
	minSessions = 3 // training sessions that must have a sequence, or an argument's value for a constant
	// constantShare is the share of the training sessions with an argument in which a constant of it has its value.
	constantShare = 0.8
)

// Bounds are turns that could be saved at most, as sums over sessions. All but Structural take segments without a
// failed call, as applications do.
type Bounds struct {
	// Structural: each stretch in one go.
	Structural int
	// SequenceOnly: segments of at most eight calls whose tools several training sessions have.
	SequenceOnly int
	// Oracle: segments in which every argument after the first call is a constant of the training part, says
	// nothing, or was there before: in what the user wrote, in results, in arguments.
	Oracle int
	// SupportOracle: both.
	SupportOracle int
}

// Add adds the bounds of other sessions.
func (b *Bounds) Add(c *Bounds) {
	b.Structural += c.Structural
	b.SequenceOnly += c.SequenceOnly
	b.Oracle += c.Oracle
	b.SupportOracle += c.SupportOracle
}

// Training is what the bounds know of the training part: which sequences of tools repeat, and which values an
// argument takes in several sessions. It is read-only once made.
type Training struct {
	grams     map[string]support
	values    map[constant]support
	passed    map[[2]string]support // tool and argument
	sequences map[string][]string
	occurring map[string]int
}

type constant struct {
	tool, arg string
	hash      uint64
}

// support counts distinct sessions, which come one after the other.
type support struct {
	sessions int
	last     int
}

func (s support) seenIn(session int) support {
	if s.last != session {
		s.sessions++
		s.last = session
	}
	return s
}

// NewTraining reads the training sessions.
func NewTraining(sessions []*Session) *Training {
	t := &Training{grams: map[string]support{}, values: map[constant]support{}, passed: map[[2]string]support{}, sequences: map[string][]string{}, occurring: map[string]int{}}
	for n, s := range sessions {
		for _, stretch := range s.stretches {
			for i := range stretch {
				t.addCall(&stretch[i], n+1)
				t.addGrams(stretch[i:], n+1)
			}
		}
	}
	return t
}

func (t *Training) addCall(c *call, session int) {
	for name, v := range c.args {
		key := constant{c.tool, name, value.Hash(value.Key{}, v)}
		t.values[key] = t.values[key].seenIn(session)
		passed := [2]string{c.tool, name}
		t.passed[passed] = t.passed[passed].seenIn(session)
	}
}

func (t *Training) addGrams(calls []call, session int) {
	var tools []string
	for i := range calls[:min(maxGram, len(calls))] {
		if calls[i].failed {
			return
		}
		tools = append(tools, calls[i].tool)
		if i == 0 {
			continue
		}
		key := gramKey(tools)
		if _, known := t.sequences[key]; !known {
			t.sequences[key] = tools[:len(tools):len(tools)]
		}
		t.grams[key] = t.grams[key].seenIn(session)
		t.occurring[key]++
	}
}

func gramKey(tools []string) string { return strings.Join(tools, "\x00") }

// supported reports whether enough training sessions have the calls' sequence of tools.
func (t *Training) supported(calls []call) bool {
	tools := make([]string, len(calls))
	for i := range calls {
		tools[i] = calls[i].tool
	}
	return t.grams[gramKey(tools)].sessions >= minSessions
}

// Bounds computes the bounds of one session of the test part.
func (t *Training) Bounds(s *Session) Bounds {
	var b Bounds
	for _, stretch := range s.stretches {
		derived, frequent := t.conditions(s, stretch)
		b.Structural += turns(stretch) - 1
		b.Oracle += total(mostSaved(stretch, derived))
		b.SequenceOnly += total(mostSaved(stretch, frequent))
		b.SupportOracle += total(mostSaved(stretch, both(derived, frequent)))
	}
	return b
}

// condition says which segments of a stretch a bound takes. What holds for a segment holds for each of its prefixes
// of two or more calls.
type condition func(from, to int) bool

func both(a, b condition) condition {
	return func(from, to int) bool { return a(from, to) && b(from, to) }
}

// conditions are those of the oracle and of the sequence-only bound.
func (t *Training) conditions(s *Session, stretch []call) (derived, frequent condition) {
	derivable := make([]bool, len(stretch))
	for i := range stretch {
		derivable[i] = t.derivable(s, &stretch[i])
	}
	clean := func(from, to int) bool {
		return !slices.ContainsFunc(stretch[from:to], func(c call) bool { return c.failed })
	}
	derived = func(from, to int) bool { return clean(from, to) && !slices.Contains(derivable[from+1:to], false) }
	frequent = func(from, to int) bool {
		return to-from <= maxGram && clean(from, to) && t.supported(stretch[from:to])
	}
	return derived, frequent
}

// segment is a part of a stretch and what it saves as one flow.
type segment struct{ from, to, saved int }

func total(all []segment) int {
	sum := 0
	for _, s := range all {
		sum += s.saved
	}
	return sum
}

// mostSaved chooses the disjoint segments that save the most turns.
func mostSaved(stretch []call, allowed condition) []segment {
	saved := make([]int, len(stretch)+1)
	next := make([]segment, len(stretch)+1) // the segment chosen at a position, saved 0 for none
	for from := len(stretch) - 1; from >= 0; from-- {
		saved[from] = saved[from+1]
		for to := from + 2; to <= len(stretch) && allowed(from, to); to++ {
			s := segment{from, to, turns(stretch[from:to]) - 1}
			if sum := saved[to] + s.saved; sum > saved[from] {
				saved[from], next[from] = sum, s
			}
		}
	}
	var out []segment
	for from := 0; from < len(stretch); {
		if s := next[from]; s.saved > 0 {
			out = append(out, s)
			from = s.to
			continue
		}
		from++
	}
	return out
}

// derivable reports whether every argument of a call could be had without a model.
func (t *Training) derivable(s *Session, c *call) bool {
	for name, v := range c.args {
		if !t.isConstant(c.tool, name, v) && !s.known.there(v, c.at) {
			return false
		}
	}
	return true
}

// isConstant reports whether the training part has one value for an argument, with few exceptions, and this is it.
func (t *Training) isConstant(tool, arg string, v any) bool {
	same, all := t.values[constant{tool, arg, value.Hash(value.Key{}, v)}], t.passed[[2]string{tool, arg}]
	return same.sessions >= minSessions && float64(same.sessions) >= constantShare*float64(all.sessions)
}

// there reports whether a value says nothing, or could be read somewhere before the call at this position, as a whole
// or part by part.
func (h *history) there(v any, before int) bool {
	return trivial(v) || h.returned(v, before) || h.written(v, before) || h.mentioned(v, before) ||
		allParts(v, func(part any) bool { return h.there(part, before) })
}
