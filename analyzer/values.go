package analyzer

import (
	"pave/flows/value"
)

// side is where a value was seen.
type side bool

const (
	sideInput  side = false
	sideOutput side = true
)

// Limits of the values kept per field.
const (
	maxValueSet    = 1000
	maxValueFields = 64
	maxValueDepth  = 3
	minValueLength = 3 // shorter texts match by chance
)

// valueSets holds, per field, keyed hashes of the values seen there: enough to see whether what one tool returns
// is what another is given. Numbers and short texts are left out.
type valueSets map[place]map[uint64]struct{}

type place struct {
	side    side
	pointer string
}

func (v valueSets) add(key value.Key, s side, m map[string]any) { v.walk(key, s, "", m, maxValueDepth) }

func (v valueSets) walk(key value.Key, s side, pointer string, m map[string]any, depth int) {
	for _, name := range sortedKeys(m) {
		at := pointer + "/" + value.Escape(name)
		switch e := m[name].(type) {
		case string:
			if len(e) >= minValueLength {
				v.put(place{s, at}, value.Hash(key, e))
			}
		case map[string]any:
			if depth > 1 {
				v.walk(key, s, at, e, depth-1)
			}
		}
	}
}

func (v valueSets) put(p place, hash uint64) {
	set := v[p]
	if set == nil {
		if len(v) >= 2*maxValueFields {
			return
		}
		set = map[uint64]struct{}{}
		v[p] = set
	}
	if len(set) < maxValueSet {
		set[hash] = struct{}{}
	}
}

// Overlap is the share of the values given to the consumer's argument that the producer's output was seen to
// have; known is false unless both fields were seen with values that tell something.
func (inf *Inferrer) Overlap(producer, outputPointer, consumer, argument string) (share float64, known bool) {
	from, to := inf.tools[producer], inf.tools[consumer]
	if from == nil || to == nil {
		return 0, false
	}
	out := from.values[place{sideOutput, outputPointer}]
	in := to.values[place{sideInput, "/" + value.Escape(argument)}]
	if len(out) == 0 || len(in) == 0 {
		return 0, false
	}
	both := 0
	for hash := range in {
		if _, ok := out[hash]; ok {
			both++
		}
	}
	return float64(both) / float64(len(in)), true
}
