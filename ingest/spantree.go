package ingest

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"pave/ingest/rawjson"
)

// Members of an event's Metadata that assembly reads.
const (
	// MetaService is the name of the service that sent the event: the agent's name where nothing better is known.
	MetaService = "service"
	// MetaToolCallIDs lists, on a model call, the ids of the tool calls it asked for, in order.
	MetaToolCallIDs = "tool_call_ids"
	// MetaWeakSession marks an event whose session id is that of a transport, such as an MCP connection: it counts only
	// where nothing of the trace names the conversation.
	MetaWeakSession = "weak_session"
	// MetaOutcome is, on the span of a call's execution, how the call above it ended: "ok", or "error: " and why.
	MetaOutcome = "outcome"
)

// maxAncestors bounds walks up the span tree, against cycles in hostile data.
const maxAncestors = 256

type spanKey struct{ trace, span string }

// spanTree answers what an event's ancestors know.
type spanTree struct {
	events []Event
	spans  map[spanKey]int
	// sessions are the explicit sessions of each origin; weak ones only where it has no other.
	sessions map[string]map[string]bool
	// outcomes are how calls ended whose own spans do not say it.
	outcomes map[spanKey]string
}

func newSpanTree(events []Event) *spanTree {
	t := &spanTree{events: events, spans: make(map[spanKey]int), sessions: make(map[string]map[string]bool),
		outcomes: make(map[spanKey]string)}
	weak := make(map[int]bool)
	for i := range events {
		e := &events[i]
		if e.SpanID != "" {
			key := spanKey{e.TraceID, e.SpanID}
			if _, ok := t.spans[key]; !ok {
				t.spans[key] = i
			}
		}
		if e.Kind == KindSpan && e.ParentSpanID != "" && e.Metadata != nil {
			if outcome := rawjson.Text(rawjson.Get(e.Metadata, MetaOutcome)); outcome != "" {
				t.outcomes[spanKey{e.TraceID, e.ParentSpanID}] = outcome
			}
		}
		switch {
		case e.SessionID == "":
		case e.Metadata != nil && rawjson.Kind(rawjson.Get(e.Metadata, MetaWeakSession)) == 't':
			weak[i] = true
		default:
			t.bind(e)
		}
	}
	t.weaken(weak)
	return t
}

func (t *spanTree) bind(e *Event) {
	if t.sessions[e.Origin] == nil {
		t.sessions[e.Origin] = make(map[string]bool, 1)
	}
	t.sessions[e.Origin][e.SessionID] = true
}

// weaken takes weak session ids off the events of traces that have better ones, and lets them bind the others.
func (t *spanTree) weaken(weak map[int]bool) {
	if len(weak) == 0 {
		return
	}
	strong := make(map[string]bool, len(t.sessions))
	for origin := range t.sessions {
		strong[origin] = true
	}
	t.events = slices.Clone(t.events)
	for i := range t.events {
		switch e := &t.events[i]; {
		case !weak[i]:
		case strong[e.Origin]:
			e.SessionID = ""
		default:
			t.bind(e)
		}
	}
}

// parent is the event of the parent span, -1 when it is not here.
func (t *spanTree) parent(i int) int {
	e := &t.events[i]
	if e.ParentSpanID == "" {
		return -1
	}
	if p, ok := t.spans[spanKey{e.TraceID, e.ParentSpanID}]; ok && p != i {
		return p
	}
	return -1
}

// find walks from i (inclusive) to the root and returns the first event that fits, -1 when none does.
func (t *spanTree) find(i int, fits func(e *Event) bool) int {
	for range maxAncestors {
		if i < 0 {
			return -1
		}
		if fits(&t.events[i]) {
			return i
		}
		i = t.parent(i)
	}
	return -1
}

// session resolves the session of an event.
func (t *spanTree) session(i int) string {
	e := &t.events[i]
	if e.SessionID != "" {
		return e.SessionID
	}
	bound := t.sessions[e.Origin]
	switch len(bound) {
	case 0:
		return e.Origin
	case 1:
		for id := range bound {
			return id
		}
	}
	if p := t.find(i, func(e *Event) bool { return e.SessionID != "" }); p >= 0 {
		return t.events[p].SessionID
	}
	return t.nearestSession(e)
}

// nearestSession is the session of the event of the same origin that started last before e, or first after it.
func (t *spanTree) nearestSession(e *Event) string {
	var best *Event
	for i := range t.events {
		c := &t.events[i]
		if c.Origin != e.Origin || c.SessionID == "" {
			continue
		}
		if best == nil || nearer(e, c, best) {
			best = c
		}
	}
	return best.SessionID
}

// nearer reports whether a is the better neighbour of e than b.
func nearer(e, a, b *Event) bool {
	aBefore, bBefore := !a.Start.After(e.Start), !b.Start.After(e.Start)
	if aBefore != bBefore {
		return aBefore
	}
	order := a.Start.Compare(b.Start)
	if aBefore {
		order = -order
	}
	return cmp.Or(order, cmp.Compare(a.SessionID, b.SessionID)) < 0
}

// item fills it with the event and what its ancestors say of run and agent.
func (t *spanTree) item(i int, it *item) *item {
	*it = item{e: t.events[i], index: i, span: i, caused: t.caused(i)}
	if p := t.find(i, func(e *Event) bool { return e.RunID != "" }); p >= 0 {
		it.run = t.events[p].RunID
	}
	if p := t.find(i, func(e *Event) bool { return e.Agent != "" }); p >= 0 {
		it.agent = t.events[p].Agent
	} else {
		it.agent = rawjson.Text(rawjson.Get(it.e.Metadata, MetaService))
	}
	if it.e.LLM != nil {
		it.callIDs = callIDs(it.e.Metadata)
	}
	if it.e.Call != nil && it.e.OriginKind == OriginAgent && t.insideFlow(i) {
		it.e.OriginKind = OriginFlow
	}
	if outcome := t.outcomes[spanKey{it.e.TraceID, it.e.SpanID}]; outcome != "" && it.e.Call != nil && it.e.Call.Status == StatusUnknown {
		call := *it.e.Call
		call.Status = StatusOK
		if why, failed := strings.CutPrefix(outcome, "error: "); failed {
			call.Status, call.Error = StatusError, cmp.Or(call.Error, why)
		}
		it.e.Call = &call
	}
	return it
}

// insideFlow reports whether a call of a flow, or of a step of one, is above the event: what tools tell of themselves
// when their own telemetry lost the mark of the run.
func (t *spanTree) insideFlow(i int) bool {
	return t.find(t.parent(i), func(e *Event) bool { return e.Call != nil && e.OriginKind != OriginAgent }) >= 0
}

// caused is the latest start of the spans around the event's span: it did not begin before.
func (t *spanTree) caused(i int) (latest time.Time) {
	t.find(t.parent(i), func(e *Event) bool {
		if e.Start.After(latest) {
			latest = e.Start
		}
		return false
	})
	return latest
}

func callIDs(metadata json.RawMessage) (ids []string) {
	if metadata == nil {
		return nil
	}
	rawjson.Elements(rawjson.Get(metadata, MetaToolCallIDs), func(id []byte) bool {
		ids = append(ids, rawjson.Text(id))
		return true
	})
	return ids
}

// runAgent names the agent of a run: the most frequent name of its calls, of its other items where it has none.
func runAgent(members []*item) string {
	best, count := "", 0
	for _, callsOnly := range []bool{true, false} {
		names := make(map[string]int)
		for _, it := range members {
			if it.agent != "" && (it.e.Call != nil || !callsOnly) {
				names[it.agent]++
			}
		}
		for name, n := range names {
			if n > count || n == count && name < best {
				best, count = name, n
			}
		}
		if best != "" {
			break
		}
	}
	return best
}

// startedByRunless reports an item whose run was started by a call that has none itself.
func (t *spanTree) startedByRunless(it *item) bool {
	if it.run == "" {
		return false
	}
	owner := t.find(it.span, func(e *Event) bool { return e.RunID == it.run })
	if owner < 0 {
		return false
	}
	call := t.find(t.parent(owner), func(e *Event) bool { return e.Kind == KindToolCall })
	return call >= 0 && t.find(call, func(e *Event) bool { return e.RunID != "" }) < 0
}

// parentCall is the identity of the call under which the run was started, "" when it was not started by a call. The
// members are the run's, in order; the items the session's, after merging.
func (t *spanTree) parentCall(run string, members, items []*item) string {
	if run == "" {
		return ""
	}
	for _, it := range members {
		// The span that names the run, then the first call above it.
		owner := t.find(it.span, func(e *Event) bool { return e.RunID == run })
		if owner < 0 {
			continue
		}
		call := t.find(t.parent(owner), func(e *Event) bool { return e.Kind == KindToolCall })
		if call < 0 {
			continue
		}
		identity := t.events[call].Identity
		for _, kept := range items {
			if slices.Contains(kept.identities, identity) {
				return kept.e.Identity
			}
		}
		return identity
	}
	return ""
}
