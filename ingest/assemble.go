package ingest

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// AssembleOptions configure assembly; the zero value is the default.
type AssembleOptions struct {
	// Gap between the end of a call and the start of the next above which a stretch ends; 30 minutes when zero.
	Gap time.Duration
}

const defaultGap = 30 * time.Minute

// Assemble makes the session from every stored event of every origin bound to it, given in arrival order, copies
// and events of other sessions of a shared origin included. It is pure: the same events give the same session, and
// so do the same spans in any order and any number of copies, save where two copies are equally rich and differ (the
// first received is kept), or events have neither time, turn nor seq, or start in one millisecond by a clock that knows
// no finer and nothing else tells (they keep their arrival order).
//
//   - Session of an event: its own id (unless it is weak and its trace has a better one), else that of the nearest ancestor span, else the one session its origin is
//     bound to, else (several) the session of the latest event of the trace that started before it, else the origin.
//   - Copies of one call (see mergeCalls) collapse to the richest.
//   - Run of an event: its own, else that of the nearest ancestor span.
//   - Order in a run: turn, when every event has one (a counter that began anew goes on, see renumberRestarts); else time, with ties broken by what caused what; nothing comes before
//     what caused it, whatever the clock of another machine says; calls with an explicit seq keep the order of their seq
//     among each other.
//
// The events are not changed; payloads are shared with them.
func Assemble(tenant, sessionID string, events []Event, opts AssembleOptions) *Session {
	if opts.Gap == 0 {
		opts.Gap = defaultGap
	}
	tree := newSpanTree(events)
	s := &Session{Tenant: tenant, ID: sessionID}
	items, room := make([]*item, 0, len(events)), make([]item, 0, len(events)) // of the right size: room must not move
	for i := range events {
		if tree.session(i) != sessionID {
			continue
		}
		switch events[i].Kind {
		case KindSessionEnd:
			s.Ended = true
		case KindToolCall, KindLLMCall, KindUserMessage:
			room = append(room, item{})
			items = append(items, tree.item(i, &room[len(room)-1]))
		}
	}
	items = mergeUsers(mergeLLM(items, tree))
	items, s.Conflicts = mergeCalls(items, tree)
	s.Runs = buildRuns(items, tree, opts)
	return s
}

// Belongs says of each event whether Assemble would take it into the session, given the same events.
func Belongs(sessionID string, events []Event) []bool {
	tree := newSpanTree(events)
	own := make([]bool, len(events))
	for i := range events {
		own[i] = tree.session(i) == sessionID
	}
	return own
}

// AssembleAll assembles every session that the events make, in order of their first event; those without anything are
// left out. It completes Origin and
// Identity as Identify does, taking the events as one request.
func AssembleAll(tenant string, events []Event, opts AssembleOptions) []*Session {
	Identify(events)
	bound := make(map[string][]string) // origin -> explicit sessions
	for i := range events {
		if e := &events[i]; e.SessionID != "" && !slices.Contains(bound[e.Origin], e.SessionID) {
			bound[e.Origin] = append(bound[e.Origin], e.SessionID)
		}
	}
	var ids []string
	members := make(map[string][]int)
	join := func(id string, i int) {
		if members[id] == nil {
			ids = append(ids, id)
		}
		members[id] = append(members[id], i)
	}
	for i := range events {
		sessions := bound[events[i].Origin]
		if len(sessions) == 0 {
			join(events[i].Origin, i)
		}
		for _, id := range sessions {
			join(id, i)
		}
	}
	sessions := make([]*Session, 0, len(ids))
	for _, id := range ids {
		own := make([]Event, 0, len(members[id]))
		for _, i := range members[id] {
			own = append(own, events[i])
		}
		s := Assemble(tenant, id, own, opts)
		if len(s.Runs) > 0 || s.Ended {
			sessions = append(sessions, s)
		}
	}
	return sessions
}

// item is one event of the session on its way into a run.
type item struct {
	e     Event // a copy; its parts are copied before they are changed
	index int   // arrival
	span  int   // index of the event that stands for it in the span tree
	run   string
	agent string

	turn     int32     // assistant turn it belongs to, once known
	when     time.Time // Start, or that of the item before when it has none, or of what caused it when a clock is behind
	caused   time.Time // the latest start of the spans around it
	model    int       // number of the model call that it is, or that asked for it, once known
	position int       // of its call id among the calls that this model call asked for
	callIDs  []string  // of an LLM call: ids of the calls it asked for

	inner      bool     // a span inside the span of the call that it stands for
	identities []string // of all copies, its own included
}

func (it *item) end() time.Time { return it.e.Start.Add(it.e.Duration) }

// told reports a call that only messages of model calls tell of.
func (it *item) told() bool {
	return it.e.Call != nil && strings.HasSuffix(it.e.Source, SourceTold)
}

// rank orders what happens at one moment: the user speaks, the model answers, the call runs.
func (it *item) rank() int {
	switch it.e.Kind {
	case KindUserMessage:
		return 0
	case KindLLMCall:
		return 1
	}
	return 2
}

// aggregate reports an LLM call that stands for many and has no place among the calls.
func (it *item) aggregate() bool {
	return it.e.LLM != nil && it.e.LLM.Count > 1 && !it.e.HasTurn
}

// buildRuns divides the items into agent runs, orders each and numbers its turns.
func buildRuns(items []*item, tree *spanTree, opts AssembleOptions) []AgentRun {
	var order []string
	byRun := make(map[string][]*item)
	for _, it := range placeRunless(items, tree) {
		if byRun[it.run] == nil {
			order = append(order, it.run)
		}
		byRun[it.run] = append(byRun[it.run], it)
	}
	type built struct {
		run   AgentRun
		first *item
	}
	runs := make([]built, 0, len(order))
	for _, id := range order {
		members := byRun[id]
		sortRun(members)
		assignTurns(members)
		run := buildRun(members, opts)
		run.ID, run.Agent, run.ParentCall = id, runAgent(members), tree.parentCall(id, members, items)
		runs = append(runs, built{run, firstOf(members)})
	}
	slices.SortStableFunc(runs, func(a, b built) int {
		if c := cmp.Compare(min(1, len(b.run.Calls)), min(1, len(a.run.Calls))); c != 0 {
			return c
		}
		return compareFirst(a.first, b.first)
	})
	out := make([]AgentRun, len(runs))
	for i := range runs {
		out[i] = runs[i].run
	}
	return out
}

// firstOf is the first call of the run, or its first item when it has none.
func firstOf(members []*item) *item {
	for _, it := range members {
		if it.e.Call != nil {
			return it
		}
	}
	return members[0]
}

func compareFirst(a, b *item) int {
	if a.e.Start.IsZero() || b.e.Start.IsZero() {
		return cmp.Compare(a.index, b.index)
	}
	return cmp.Or(a.e.Start.Compare(b.e.Start), cmp.Compare(a.run, b.run), compareTime(a, b), cmp.Compare(a.index, b.index))
}

// placeRunless gives items without a run one: the session's only run, else, for messages and model calls, the run of
// the call after them (before them, at the end). Where a call without a run started another, those without one are the
// run of the agent above.
func placeRunless(items []*item, tree *spanTree) []*item {
	named := make(map[string]bool)
	missing := false
	for _, it := range items {
		if it.run == "" {
			missing = true
		} else if it.e.Call != nil {
			named[it.run] = true
		}
	}
	if !missing || len(named) == 0 || slices.ContainsFunc(items, tree.startedByRunless) {
		return items
	}
	if len(named) == 1 {
		for _, it := range items {
			if it.run == "" {
				for it.run = range named {
				}
			}
		}
		return items
	}
	sorted := slices.Clone(items)
	sortRun(sorted)
	for pass := range 2 {
		if pass == 0 {
			slices.Reverse(sorted)
		}
		run, seen := "", false
		for _, it := range sorted {
			switch {
			case it.e.Call != nil:
				run, seen = it.run, true
			case it.run == "" && seen:
				it.run = run
			}
		}
		if pass == 0 {
			slices.Reverse(sorted)
		}
	}
	return items
}

// buildRun lists the calls, model calls and messages of an ordered run, and flags the calls.
func buildRun(members []*item, opts AssembleOptions) AgentRun {
	var run AgentRun
	calls := 0
	for _, it := range members {
		calls += b2i(it.e.Call != nil)
	}
	if calls > 0 {
		run.Calls = make([]Call, 0, calls)
	}
	var previous *item
	spoken := false // a user message came since the last call
	for _, it := range members {
		switch it.e.Kind {
		case KindUserMessage:
			if !retold(&run, it) {
				run.Users = append(run.Users, UserTurn{Before: len(run.Calls), Text: it.e.User.Text})
			}
			spoken = true
		case KindLLMCall:
			run.LLM = append(run.LLM, LLMStep{Turn: it.turn, Start: it.e.Start, Duration: it.e.Duration, LLMCall: *it.e.LLM})
		case KindToolCall:
			run.Calls = append(run.Calls, Call{
				Seq: len(run.Calls), Turn: it.turn, Flags: flags(previous, it, spoken, opts.Gap), Start: it.e.Start, Duration: it.e.Duration,
				Source: it.e.Source, Origin: it.e.OriginKind, Identity: it.e.Identity, TraceID: it.e.TraceID, SpanID: it.e.SpanID, Metadata: it.e.Metadata,
				ToolCall: *it.e.Call,
			})
			previous, spoken = it, false
		}
	}
	return run
}

// retold reports whether telemetry tells the last message again: model calls repeat the history, so a model call that
// was repeated before any tool ran tells the user's message twice.
func retold(run *AgentRun, it *item) bool {
	n := len(run.Users)
	return n > 0 && strings.HasPrefix(it.e.Source, "otlp/") && it.e.User.Text != "" &&
		run.Users[n-1] == UserTurn{Before: len(run.Calls), Text: it.e.User.Text}
}

// flags marks the call after previous (nil: the first of the run).
func flags(previous, it *item, spoken bool, gap time.Duration) CallFlag {
	var f CallFlag
	if it.e.Call.Status == StatusError {
		f |= FlagError
	}
	if it.e.Call.Status == StatusRequested {
		f |= FlagRequested
	}
	if it.e.OriginKind != OriginAgent {
		f |= FlagNotAgent
	}
	if previous == nil || spoken || f&FlagNotAgent != 0 || previous.e.OriginKind != OriginAgent ||
		it.turn-previous.turn > 1 || it.turn < previous.turn || longGap(previous, it, gap) {
		return f | FlagBreak
	}
	if it.turn == previous.turn {
		f |= FlagParallel
	}
	a, b := previous.e.Call, it.e.Call
	if a.Tool == b.Tool && a.Args != nil && sameJSON(a.Args, b.Args) {
		f |= FlagRepeat
	}
	return f
}

func longGap(a, b *item, gap time.Duration) bool {
	return !a.e.Start.IsZero() && !b.e.Start.IsZero() && b.e.Start.Sub(a.end()) > gap
}
