package replay

import (
	"strings"

	"pave/flows/value"
)

// Limits of the bounds that depend on the training part.
const (
	maxGram     = 8 // longest sequence
	minSessions = 3 // training sessions that must have a sequence, or an argument's value for a constant
)

// Bounds are turns that could be saved at most, as sums over sessions.
type Bounds struct {
	// Structural: each stretch in one go.
	Structural int
	// SequenceOnly: segments whose tools the training part has in several sessions.
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
	constants map[constant]support
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
	t := &Training{grams: map[string]support{}, constants: map[constant]support{}, sequences: map[string][]string{}, occurring: map[string]int{}}
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
		t.constants[key] = t.constants[key].seenIn(session)
	}
}

func (t *Training) addGrams(calls []call, session int) {
	var tools []string
	for i := range calls[:min(maxGram, len(calls))] {
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
		derivable := make([]bool, len(stretch))
		for i := range stretch {
			derivable[i] = t.derivable(s, &stretch[i])
		}
		b.Structural += turns(stretch) - 1
		all := func(from, to int) bool {
			for i := from + 1; i < to; i++ {
				if !derivable[i] {
					return false
				}
			}
			return true
		}
		frequent := func(from, to int) bool { return to-from <= maxGram && t.supported(stretch[from:to]) }
		b.Oracle += mostSaved(stretch, all)
		b.SequenceOnly += mostSaved(stretch, frequent)
		b.SupportOracle += mostSaved(stretch, func(from, to int) bool { return all(from, to) && frequent(from, to) })
	}
	return b
}

// mostSaved is the largest number of turns that disjoint segments save. allowed must hold for every prefix of two or
// more calls of a segment that it holds for.
func mostSaved(stretch []call, allowed func(from, to int) bool) int {
	saved := make([]int, len(stretch)+1)
	for from := len(stretch) - 1; from >= 0; from-- {
		saved[from] = saved[from+1]
		for to := from + 2; to <= len(stretch) && allowed(from, to); to++ {
			saved[from] = max(saved[from], saved[to]+turns(stretch[from:to])-1)
		}
	}
	return saved[0]
}

// derivable reports whether every argument of a call could be had without a model.
func (t *Training) derivable(s *Session, c *call) bool {
	for name, v := range c.args {
		if t.constants[constant{c.tool, name, value.Hash(value.Key{}, v)}].sessions < minSessions && !s.known.there(v, c.at) {
			return false
		}
	}
	return true
}

// there reports whether a value says nothing, or could be read somewhere before the call at this position, as a whole
// or part by part.
func (h *history) there(v any, before int) bool {
	return trivial(v) || h.returned(v, before) || h.written(v, before) || h.mentioned(v, before) ||
		allParts(v, func(part any) bool { return h.there(part, before) })
}
