package observer

import (
	"context"
	"hash/maphash"
	"slices"
)

// inference reads sampled occurrences and explains the arguments of patterns.
type inference struct {
	options Options
	log     *calls
	seed    maphash.Seed // of this pass: hashes are compared inside a pass only
	paths   *pathTable
	forms   *derivedTable // of the chunk, as paths
	dropped int           // values of results over the limit
	kept    *keptSessions
	judged  map[shown]bool
	flat    flattener
}

// flatten makes the node set of a result.
func (m *inference) flatten(result any) *nodeSet {
	return m.flat.flatten(result, m.seed, m.paths, m.options.MaxLeaves)
}

// sample is a pattern with the occurrences to examine.
type sample struct {
	tools    []string
	each     []bool // steps that run once per element; nil for none
	windows  []window
	optional int      // a step that agents leave out in the windows short, 0 for none; the result before it is kept
	kept     bool     // of one step: its result is kept
	short    []window // without it
}

// length is the number of occurrences.
func (s *sample) length() int { return len(s.windows) + len(s.short) }

// window is the i-th occurrence, those without the optional step last.
func (s *sample) window(i int) window {
	if i < len(s.windows) {
		return s.windows[i]
	}
	return s.short[i-len(s.windows)]
}

// occurrence names the calls of the i-th occurrence.
func (s *sample) occurrence(log *calls, i int) (window, Occurrence) {
	w := s.window(i)
	if i < len(s.windows) {
		return w, log.occurrence(w, len(s.tools))
	}
	return w, log.without(w, len(s.tools), s.optional)
}

// evidence is what the examined occurrences of one pattern say.
type evidence struct {
	windows  []window  // occurrences with values
	guard    *Guard    // of the optional step
	variants []variant // flows, the one for all occurrences first unless the model chooses an argument
	turns    float64   // mean turns saved
	// cut is the first step with an argument that the model chooses, 0 when there is none.
	cut     int
	blocker *ArgFlow
	// clear is set when no source came near to explaining the blocker, unlinked when a later step has no argument that
	// any source came near to explaining: more occurrences would not change that.
	clear, unlinked bool
	// always is set where the blocker is nearly always the same and may be no constant.
	always bool
	// mapped is set when an argument of a later step has a source, so that callers would not have to give them all.
	mapped bool
}

// clearMiss is the rate below which a source is not near.
const clearMiss = 0.5

// chunkOccurrences bounds the occurrences whose values are held at once.
const chunkOccurrences = 8192

// examine infers the data flow of the samples, reading every session once per chunk.
func (m *inference) examine(ctx context.Context, src Source, samples []sample) ([]evidence, error) {
	out := make([]evidence, len(samples))
	err := m.inChunks(len(samples), func(i int) int { return samples[i].length() }, func(from, to int) error {
		records, err := m.readRecords(ctx, src, samples[from:to])
		for i := from; i < to && err == nil; i++ {
			out[i] = m.decide(samples[i], records[i-from])
		}
		return err
	})
	return out, err
}

// inChunks calls fn with [from, to) of n samples at a time, as many as have chunkOccurrences together, one at least, each
// with tables of its own.
func (m *inference) inChunks(n int, occurrences func(i int) int, fn func(from, to int) error) error {
	for from := 0; from < n; {
		to, together := from, 0
		for to < n && (to == from || together+occurrences(to) <= chunkOccurrences) {
			together += occurrences(to)
			to++
		}
		m.paths, m.forms = newPathTable(), newDerivedTable()
		if err := fn(from, to); err != nil {
			return err
		}
		from = to
	}
	return nil
}

// request is one occurrence wanted from a session.
type request struct {
	sample, place int
}

func (m *inference) readRecords(ctx context.Context, src Source, samples []sample) ([][]record, error) {
	wanted := map[string][]request{}
	var ids []string
	slots := make([][]*record, len(samples))
	for s := range samples {
		slots[s] = make([]*record, samples[s].length())
		for i := range slots[s] {
			w := samples[s].window(i)
			id := m.log.sessions[m.log.session(w.stretch)]
			if len(wanted[id]) == 0 {
				ids = append(ids, id)
			}
			wanted[id] = append(wanted[id], request{s, i})
		}
	}
	slices.Sort(ids)
	err := m.kept.read(ctx, src, ids, func(t *keptSession) {
		view := m.view(t)
		for _, r := range wanted[t.id] {
			w, o := samples[r.sample].occurrence(m.log, r.place)
			if rec, ok := view.record(o, w, &samples[r.sample]); ok {
				slots[r.sample][r.place] = &rec
			}
		}
	})
	if err != nil {
		return nil, err
	}
	records := make([][]record, len(samples))
	for s := range slots {
		for _, rec := range slots[s] {
			if rec != nil {
				records[s] = append(records[s], *rec)
			}
		}
	}
	return records, nil
}
