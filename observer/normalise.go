package observer

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"pave/ingest"
)

// calls is the normalised log of one pass as a struct of arrays, one element per kept call. Stretches lie one
// after the other and those of one session are neighbours. Tokens are ranks of the tool names in sorted order,
// so that nothing depends on the ids of a store.
type calls struct {
	tools  []string // token -> name
	tok    []uint32
	pos    []uint32 // position of the call in its run
	failed []bool
	joined []bool   // issued by the same assistant turn as the call before it in the stretch
	starts []uint32 // offsets of the stretches in tok, and len(tok) at the end
	origin []uint32 // stretch -> index into seqs

	base *calls   // loops: the log of which neighbouring calls of one tool are folded here
	head []uint32 // loops: the first call of each group in base, and len(base.tok) at the end

	sessions []string
	order    []uint64 // of the sessions by chance: see sessionOrder
	seqs     []sequenceInfo
	agents   []string // names by number; not of samples
	nameless uint32   // the agent without a name + 1, 0 when all have one

	read, repeats, retries, turns int
	// flowCalls are calls of flows and of their steps: never mined; nor are earlier, calls of tools from before they changed.
	// skipped are calls of tools that the pass leaves out.
	flowCalls, earlier, skipped int
}

// sequenceInfo is where a sequence came from.
type sequenceInfo struct {
	session uint32
	run     int
	agent   uint32
	day     int32 // since 1970 in UTC of its first call, noDay when the time is unknown
}

// noDay is the day of sequences without a time.
const noDay = math.MinInt32

func dayOf(t time.Time) int32 {
	if t.IsZero() {
		return noDay
	}
	return int32(floorDiv(t.Unix(), secondsPerDay))
}

const secondsPerDay = 24 * 60 * 60

// dayStart is when a day began.
func dayStart(day int32) time.Time { return time.Unix(int64(day)*secondsPerDay, 0).UTC() }

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// rawSequences keeps sequences as they were read, until all are there and tools have their final tokens.
type rawSequences struct {
	tools    []uint32
	flags    []ingest.CallFlag
	seqs     []rawSequence
	agents   map[string]uint32
	maxTool  uint32
	inOrder  bool
	previous string
	leftOut  int // calls that were too many
	until    time.Time
}

type rawSequence struct {
	session  string
	run      int
	agent    uint32
	day      int32
	start    int64 // in seconds since 1970, 0 when the time is unknown
	from, to int
}

// readSequences reads what Filter, MaxCalls and Until of the options say.
func readSequences(ctx context.Context, src Source, o Options) (*rawSequences, error) {
	raw := &rawSequences{agents: make(map[string]uint32), inOrder: true, until: o.Until}
	err := src.Sequences(ctx, o.Filter, func(s *ingest.Sequence) error {
		raw.add(s)
		if len(raw.tools)-o.MaxCalls > o.MaxCalls/4 {
			raw.trim(o.MaxCalls)
		}
		return ctx.Err()
	})
	if err != nil {
		return nil, err
	}
	raw.trim(o.MaxCalls)
	if !raw.inOrder {
		slices.SortStableFunc(raw.seqs, func(a, b rawSequence) int {
			return cmp.Or(strings.Compare(a.session, b.session), cmp.Compare(a.run, b.run))
		})
	}
	for _, t := range raw.tools {
		raw.maxTool = max(raw.maxTool, t)
	}
	return raw, nil
}

// add keeps a copy of a sequence.
func (raw *rawSequences) add(s *ingest.Sequence) {
	agent, ok := raw.agents[s.Agent]
	if !ok {
		agent = uint32(len(raw.agents))
		raw.agents[strings.Clone(s.Agent)] = agent
	}
	from := len(raw.tools)
	raw.tools = append(raw.tools, s.Tools...)
	raw.flags = append(raw.flags, s.Flags...)
	id := raw.previous
	if id != s.SessionID {
		id = strings.Clone(s.SessionID)
	}
	if n := len(raw.seqs); n > 0 && (id < raw.previous || id == raw.previous && s.RunIndex < raw.seqs[n-1].run) {
		raw.inOrder = false
	}
	raw.previous = id
	seq := rawSequence{session: id, run: s.RunIndex, agent: agent, day: noDay, from: from, to: len(raw.tools)}
	if !s.Start.IsZero() && (raw.until.IsZero() || !s.Start.After(raw.until)) {
		seq.day, seq.start = dayOf(s.Start), s.Start.Unix()
	}
	raw.seqs = append(raw.seqs, seq)
}

// trim drops sequences until at most maxCalls calls are left, those that began first and those without a time before
// all others; among those of one day the ones that were read first.
func (raw *rawSequences) trim(maxCalls int) {
	drop := len(raw.tools) - maxCalls
	if drop <= 0 {
		return
	}
	order := make([]int, len(raw.seqs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(raw.seqs[a].day, raw.seqs[b].day) })
	gone := make([]bool, len(raw.seqs))
	for _, i := range order {
		if drop <= 0 {
			break
		}
		s := raw.seqs[i]
		gone[i] = true
		drop -= s.to - s.from
		raw.leftOut += s.to - s.from
	}
	at, kept := 0, raw.seqs[:0]
	for i, s := range raw.seqs {
		if gone[i] {
			continue
		}
		n := copy(raw.tools[at:], raw.tools[s.from:s.to])
		copy(raw.flags[at:], raw.flags[s.from:s.to])
		s.from, s.to = at, at+n
		at += n
		kept = append(kept, s)
	}
	raw.seqs, raw.tools, raw.flags = kept, raw.tools[:at], raw.flags[:at]
}

// tokens gives every tool that occurs the rank of its name, and the names in that order.
func (raw *rawSequences) tokens(names []string) (token []uint32, tools []string) {
	seen := make([]bool, raw.maxTool+1)
	for _, t := range raw.tools {
		seen[t] = true
	}
	var used []uint32
	for id, ok := range seen {
		if ok {
			used = append(used, uint32(id))
		}
	}
	slices.SortFunc(used, func(a, b uint32) int { return strings.Compare(names[a], names[b]) })
	token = make([]uint32, len(seen))
	for rank, id := range used {
		token[id] = uint32(rank)
		tools = append(tools, names[id])
	}
	return token, tools
}

// keptCall is a call on its way through folding.
type keptCall struct {
	tok, wave, pos uint32
	failed         bool
}

// normalise cuts sequences into stretches, folds repeats and retries, and orders parallel calls by tool, so that
// permutations of one wave are one pattern. A stretch ends after a failure that nothing made good: what comes
// later is the agent's reaction, not the routine. Calls of the tools to skip are left out and end nothing. Sequences
// without a call that an agent made by itself are no sessions: what only ran flows says nothing of habits.
func normalise(raw *rawSequences, names []string, skip map[string]bool) *calls {
	token, tools := raw.tokens(names)
	skipped := make([]bool, len(tools))
	for i, name := range tools {
		skipped[i] = skip[name]
	}
	n := len(raw.tools)
	log := &calls{tools: tools,
		tok: make([]uint32, 0, n), pos: make([]uint32, 0, n), failed: make([]bool, 0, n), joined: make([]bool, 0, n),
		seqs: make([]sequenceInfo, 0, len(raw.seqs))}
	log.agents = make([]string, len(raw.agents))
	for name, agent := range raw.agents {
		log.agents[agent] = name
	}
	if agent, ok := raw.agents[""]; ok {
		log.nameless = agent + 1
	}
	var buffer []keptCall
	var begun []int64
	for _, s := range raw.seqs {
		if !slices.ContainsFunc(raw.flags[s.from:s.to], func(f ingest.CallFlag) bool { return f&flagNotMined == 0 }) {
			for _, flag := range raw.flags[s.from:s.to] {
				log.notMined(flag)
			}
			continue
		}
		if k := len(log.sessions); k == 0 || log.sessions[k-1] != s.session {
			log.sessions = append(log.sessions, s.session)
			begun = append(begun, s.start)
		}
		log.seqs = append(log.seqs, sequenceInfo{session: uint32(len(log.sessions) - 1), run: s.run, agent: s.agent, day: s.day})
		buffer = log.addSequence(raw, s, token, skipped, buffer)
	}
	log.starts = append(log.starts, uint32(len(log.tok)))
	log.order = sessionOrder(log.sessions, begun)
	return log
}

func (log *calls) addSequence(raw *rawSequences, s rawSequence, token []uint32, skipped []bool, buffer []keptCall) []keptCall {
	buffer = buffer[:0]
	fresh := true // no call of the stretch was read yet
	for i := s.from; i < s.to; i++ {
		flag := raw.flags[i]
		if log.notMined(flag) {
			log.addStretch(buffer)
			buffer, fresh = buffer[:0], true
			continue
		}
		if flag&ingest.FlagBreak != 0 {
			log.addStretch(buffer)
			buffer, fresh = buffer[:0], true
		}
		log.read++
		if fresh || flag&ingest.FlagParallel == 0 {
			log.turns++
		}
		fresh = false
		if skipped[token[raw.tools[i]]] {
			log.skipped++
			continue
		}
		c := keptCall{tok: token[raw.tools[i]], wave: uint32(log.turns), pos: uint32(i - s.from), failed: flag&ingest.FlagError != 0}
		if k := len(buffer); k > 0 && flag&ingest.FlagRepeat != 0 && buffer[k-1].tok == c.tok {
			log.repeats++
			if !c.failed || buffer[k-1].failed {
				buffer[k-1] = c
			}
			continue
		}
		buffer = append(buffer, c)
	}
	log.addStretch(buffer)
	return buffer
}

// notMined reports whether a call is none of an agent's habits of today, and counts it then.
func (log *calls) notMined(flag ingest.CallFlag) bool {
	switch {
	case flag&ingest.FlagNotAgent != 0:
		log.flowCalls++
	case flag&flagEarlier != 0:
		log.earlier++
	}
	return flag&flagNotMined != 0
}

// addStretch folds the retries of one stretch, orders its waves and appends it.
func (log *calls) addStretch(stretch []keptCall) {
	kept := foldRetries(stretch)
	log.retries += len(stretch) - len(kept)
	orderWaves(kept)
	open, last := false, uint32(0)
	for _, c := range kept {
		if !open {
			log.starts = append(log.starts, uint32(len(log.tok)))
			log.origin = append(log.origin, uint32(len(log.seqs)-1))
		}
		log.tok = append(log.tok, c.tok)
		log.joined = append(log.joined, open && c.wave == last)
		log.pos = append(log.pos, c.pos)
		log.failed = append(log.failed, c.failed)
		open, last = !c.failed, c.wave
	}
}

// foldRetries removes, from the last call backwards, each failed call that a success of the same tool follows
// within two kept calls. It works in place and returns the rest.
func foldRetries(stretch []keptCall) []keptCall {
	out := len(stretch) // stretch[out:] is kept
	for i := len(stretch) - 1; i >= 0; i-- {
		c := stretch[i]
		if c.failed && retried(c.tok, stretch[out:]) {
			continue
		}
		out--
		stretch[out] = c
	}
	return stretch[out:]
}

func retried(tok uint32, following []keptCall) bool {
	for _, c := range following[:min(2, len(following))] {
		if c.tok == tok && !c.failed {
			return true
		}
	}
	return false
}

// orderWaves sorts the calls of each wave by tool, keeping the recorded order among calls of one tool.
func orderWaves(stretch []keptCall) {
	for i := 1; i < len(stretch); i++ {
		for j := i; j > 0 && stretch[j].wave == stretch[j-1].wave && stretch[j].tok < stretch[j-1].tok; j-- {
			stretch[j], stretch[j-1] = stretch[j-1], stretch[j]
		}
	}
}

// session is the session of a stretch.
func (log *calls) session(stretch uint32) uint32 { return log.seqs[log.origin[stretch]].session }

// stretches is the number of stretches.
func (log *calls) stretches() int { return len(log.origin) }
