package ingest

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// mergeUsers drops copies of user messages.
func mergeUsers(items []*item) []*item {
	return dropCopies(items, KindUserMessage, func(kept, copy *item) {})
}

// dropCopies keeps one item of each identity of one kind: the first, but a span before a record without a span of its own.
func dropCopies(items []*item, kind Kind, complete func(kept, copied *item)) []*item {
	seen := make(map[string]*item)
	return slices.DeleteFunc(items, func(it *item) bool {
		if it.e.Kind != kind || it.e.Identity == "" {
			return false
		}
		if kept := seen[it.e.Identity]; kept != nil {
			if kept.e.SpanID == "" && it.e.SpanID != "" {
				*kept, *it = *it, *kept
			}
			complete(kept, it)
			return true
		}
		seen[it.e.Identity] = it
		return false
	})
}

// mergeCalls keeps one copy of each tool call: the richest (has a result, has arguments, neither), among equally rich
// ones the first received, completed with what only the others have. Copies of one call are
//
//   - events of one identity (trace and span id; session, call id, tool and turn);
//   - a span of an MCP client or server and the call of the same tool around it, or spans of two instrumentations, one
//     inside the other, for one tool;
//   - events of one call id and tool: of different sources in any turn, of one source in the same turn, or, where a
//     turn is not known, with equal arguments. Call ids repeat over turns, so the k-th use of an id in one source is
//     the k-th use in the other.
//
// A span and a log record of one sender, of which one has no call id, are copies where tool and arguments are equal and
// no other is nearer in time.
//
// Calls that were only requested are dropped when executed ones are there; those that messages tell of are then not even
// copies. Conflicts counts the different copies that say something else than the kept one.
func mergeCalls(items []*item, tree *spanTree) (kept []*item, conflicts int) {
	var calls, rest []*item
	executed := false
	for _, it := range items {
		if it.e.Call == nil {
			rest = append(rest, it)
			continue
		}
		calls = append(calls, it)
		executed = executed || it.e.Call.Status != StatusRequested
	}
	elsewhere := Executed(nil) // in another session of the trace
	if slices.ContainsFunc(calls, (*item).told) {
		elsewhere = ExecutedCalls(tree.events)
	}
	calls = slices.DeleteFunc(calls, func(it *item) bool { return it.told() && (executed || elsewhere.Told(&it.e)) })
	m := merger{calls: calls, leader: make([]int, len(calls))}
	for i := range m.leader {
		m.leader[i] = i
	}
	m.byIdentity()
	m.byTwin(tree)
	m.byCallID(provisionalTurns(calls, rest))
	m.bySibling()
	groups := make([][]*item, len(calls))
	for i, it := range calls {
		if leader := m.find(i); leader == i {
			groups[i] = calls[i : i+1 : i+1] // most calls have no copy
		} else {
			groups[leader] = append(groups[leader], it)
		}
	}
	for _, group := range groups {
		if group == nil {
			continue // not a leader
		}
		it, n := collapse(group)
		conflicts += n
		if !executed || it.e.Call.Status != StatusRequested {
			rest = append(rest, it)
		}
	}
	return rest, conflicts
}

// merger is a union-find over calls; a leader is the smallest index of its group.
type merger struct {
	calls  []*item
	leader []int
}

func (m *merger) find(i int) int {
	for m.leader[i] != i {
		m.leader[i] = m.leader[m.leader[i]]
		i = m.leader[i]
	}
	return i
}

func (m *merger) join(a, b int) {
	a, b = m.find(a), m.find(b)
	m.leader[max(a, b)] = min(a, b)
}

func (m *merger) byIdentity() {
	first := make(map[string]int, len(m.calls))
	for i, it := range m.calls {
		if it.e.Identity == "" {
			continue
		}
		if j, ok := first[it.e.Identity]; ok {
			m.join(i, j)
		} else {
			first[it.e.Identity] = i
		}
	}
}

// SourceMCP is the prefix of the Source of spans of MCP clients and servers. Client and server share it, so that inside
// a call of the same tool they stand for that call.
const SourceMCP = "otlp/mcp"

// SourceTold ends the Source of calls that messages of model calls tell of. They count only in sessions where no
// execution is seen, and there each call id once: every model call is told the whole history again.
const SourceTold = "/messages"

// Executed are the executed calls of traces, by what a message tells of a call.
type Executed map[executedCall]bool

type executedCall struct{ trace, id, tool string }

// ExecutedCalls finds the executed calls with a trace and a call id.
func ExecutedCalls(events []Event) Executed {
	var found Executed
	for i := range events {
		e := &events[i]
		if e.Call == nil || e.Call.CallID == "" || e.TraceID == "" || e.Call.Status == StatusRequested {
			continue
		}
		if found == nil {
			found = make(Executed)
		}
		found[executedCall{e.TraceID, e.Call.CallID, e.Call.Tool}] = true
	}
	return found
}

// Told reports whether the event is a call that a message tells of and that is one of these.
func (x Executed) Told(e *Event) bool {
	return e.Call != nil && strings.HasSuffix(e.Source, SourceTold) && x[executedCall{e.TraceID, e.Call.CallID, e.Call.Tool}]
}

// byTwin joins MCP spans, and spans of a second instrumentation, with the call around them.
func (m *merger) byTwin(tree *spanTree) {
	var at map[string]int // by identity, made when a call has another above it: most have none
	for i, it := range m.calls {
		above := tree.find(tree.parent(it.index), func(e *Event) bool { return e.Kind == KindToolCall })
		if above < 0 || !sameTool(tree.events[above].Call.Tool, it.e.Call.Tool) ||
			!strings.HasPrefix(it.e.Source, SourceMCP) && it.e.Source == tree.events[above].Source {
			continue
		}
		if at == nil {
			at = make(map[string]int, len(m.calls))
			for j, call := range m.calls {
				at[call.e.Identity] = j
			}
		}
		if j, ok := at[tree.events[above].Identity]; ok {
			it.inner = true
			m.join(i, j)
		}
	}
}

// sameTool compares a name that an agent uses with the name that an MCP server uses: mcp__server__tool, server.tool.
func sameTool(outer, inner string) bool {
	return outer == inner || strings.HasSuffix(outer, "__"+inner) || strings.HasSuffix(outer, "."+inner)
}

// provisionalTurns numbers the turn of each call before copies are collapsed: the explicit one, else the number of
// model calls of the run that started before it; -1 where that is not known.
func provisionalTurns(calls, rest []*item) []int32 {
	starts := make(map[string][]time.Time)
	for _, it := range rest {
		if it.e.Kind == KindLLMCall && !it.e.Start.IsZero() && !it.aggregate() {
			starts[it.run] = append(starts[it.run], it.e.Start)
		}
	}
	for _, s := range starts {
		slices.SortFunc(s, time.Time.Compare)
	}
	turns := make([]int32, len(calls))
	for i, it := range calls {
		models := starts[it.run]
		switch {
		case it.e.HasTurn:
			turns[i] = it.e.Turn
		case len(models) == 0 || it.e.Start.IsZero():
			turns[i] = -1
		default:
			after, _ := slices.BinarySearchFunc(models, it.e.Start, func(m, start time.Time) int {
				if m.After(start) {
					return 1
				}
				return -1
			})
			turns[i] = int32(after)
		}
	}
	return turns
}

// byCallID joins events of one call id and tool.
func (m *merger) byCallID(turns []int32) {
	type key struct{ id, tool string }
	first, uses := make(map[key]int, len(m.calls)), make(map[key][]int) // in uses are those of several events
	for i, it := range m.calls {
		if it.e.Call.CallID == "" {
			continue
		}
		k := key{it.e.Call.CallID, it.e.Call.Tool}
		j, seen := first[k]
		switch {
		case !seen:
			first[k] = i
		case uses[k] == nil:
			uses[k] = []int{j, i}
		default:
			uses[k] = append(uses[k], i)
		}
	}
	for _, of := range uses {
		slices.SortStableFunc(of, func(a, b int) int {
			return cmp.Or(compareTime(m.calls[a], m.calls[b]), cmp.Compare(turns[a], turns[b]))
		})
		bySource := make(map[string][]int) // source -> first event of each use, in order
		var uses []int                     // first event of the k-th use, in any source
		for _, i := range of {
			source := m.calls[i].e.Source
			if j := m.sameUse(bySource[source], i, turns); j >= 0 {
				m.join(i, j)
				continue
			}
			k := len(bySource[source])
			bySource[source] = append(bySource[source], i)
			if k < len(uses) {
				m.join(i, uses[k])
			} else {
				uses = append(uses, i)
			}
		}
	}
}

// SourceSpan ends the Source of spans of a sender that also writes log records of the same calls.
const SourceSpan = "-span"

// bySibling joins a log record without a call id with the span of the same sender, tool and arguments that is nearest
// in time.
func (m *merger) bySibling() {
	type key struct{ source, tool string }
	spans := make(map[key][]int)
	for i, it := range m.calls {
		if source, ok := strings.CutSuffix(it.e.Source, SourceSpan); ok {
			spans[key{source, it.e.Call.Tool}] = append(spans[key{source, it.e.Call.Tool}], i)
		}
	}
	if len(spans) == 0 {
		return
	}
	var logs []int
	for i, it := range m.calls {
		if it.e.Call.CallID == "" && len(spans[key{it.e.Source, it.e.Call.Tool}]) > 0 {
			logs = append(logs, i)
		}
	}
	slices.SortStableFunc(logs, func(a, b int) int { return compareTime(m.calls[a], m.calls[b]) })
	taken := make(map[int]bool)
	for _, i := range logs { // those that are joined already, such as a record below its span
		for _, j := range spans[key{m.calls[i].e.Source, m.calls[i].e.Call.Tool}] {
			if m.find(i) == m.find(j) {
				taken[i], taken[j] = true, true
			}
		}
	}
	for _, i := range logs {
		if taken[i] {
			continue
		}
		log, best := m.calls[i], -1
		for _, j := range spans[key{log.e.Source, log.e.Call.Tool}] {
			span := m.calls[j]
			if taken[j] || log.e.Call.Args != nil && span.e.Call.Args != nil && !sameJSON(log.e.Call.Args, span.e.Call.Args) {
				continue
			}
			if best < 0 || apart(log, span) < apart(log, m.calls[best]) {
				best = j
			}
		}
		if best >= 0 {
			taken[best] = true
			m.join(i, best)
		}
	}
}

func apart(a, b *item) time.Duration { return a.e.Start.Sub(b.e.Start).Abs() }

// compareTime orders by start; spans that start together by what does not depend on arrival.
func compareTime(a, b *item) int {
	return cmp.Or(a.e.Start.Compare(b.e.Start), strings.Compare(a.e.Source, b.e.Source),
		strings.Compare(a.e.TraceID, b.e.TraceID), strings.Compare(a.e.SpanID, b.e.SpanID))
}

// sameUse finds among events of one source and call id the one that i is a copy of, -1 for none.
func (m *merger) sameUse(uses []int, i int, turns []int32) int {
	for _, j := range uses {
		if m.find(i) == m.find(j) || m.calls[i].told() {
			return j
		}
		if turns[i] >= 0 && turns[j] >= 0 {
			if turns[i] == turns[j] {
				return j
			}
			continue
		}
		if sameUnplaced(&m.calls[i].e, &m.calls[j].e) {
			return j
		}
	}
	return -1
}

// sameUnplaced compares two events of one source, call id and tool where a turn is not known. Two spans are two calls
// unless both show the same arguments; other records are one unless they show a difference.
func sameUnplaced(a, b *Event) bool {
	if a.HasSeq && b.HasSeq && a.Seq != b.Seq {
		return false
	}
	if a.Call.Args != nil && b.Call.Args != nil {
		return sameJSON(a.Call.Args, b.Call.Args)
	}
	return a.SpanID == "" || b.SpanID == ""
}
