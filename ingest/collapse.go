package ingest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"

	"pave/flows/value"
)

// collapse makes one call of its copies, which are in arrival order.
func collapse(group []*item) (kept *item, conflicts int) {
	slices.SortStableFunc(group, func(a, b *item) int {
		return cmp.Or(cmp.Compare(richness(b.e.Call), richness(a.e.Call)), a.e.Received.Compare(b.e.Received), compareTime(a, b))
	})
	kept = group[0]
	for _, it := range group {
		kept.identities = append(kept.identities, it.e.Identity)
	}
	if len(group) == 1 {
		return kept, 0
	}
	var against []*item
	for _, it := range group[1:] {
		counted := func(other *item) bool { return other.e.Identity == it.e.Identity && sameContent(&other.e, &it.e) }
		if contradicts(&kept.e, &it.e) && !slices.ContainsFunc(against, counted) {
			against = append(against, it)
		}
	}
	conflicts = len(against)
	call := *kept.e.Call
	kept.e.Call = &call
	for _, it := range group[1:] {
		complete(kept, it)
	}
	return kept, conflicts
}

// richness ranks copies: executed before requested, then by what they carry.
func richness(c *ToolCall) int {
	switch {
	case c.Status == StatusRequested:
		return -1
	case c.Result != nil:
		return 2
	case c.Args != nil:
		return 1
	}
	return 0
}

// contradicts reports whether a copy says something else than the kept one. Copies of one identity are the same
// sender's and must be equal; others may know less.
func contradicts(kept, copied *Event) bool {
	a, b := kept.Call, copied.Call
	if kept.Identity == copied.Identity && kept.Identity != "" {
		return !sameContent(kept, copied)
	}
	known := func(s Status) bool { return s == StatusOK || s == StatusError }
	return a.Args != nil && b.Args != nil && !partOf(a.Args, b.Args) && !partOf(b.Args, a.Args) ||
		a.Result != nil && b.Result != nil && !sameJSON(a.Result, b.Result) ||
		known(a.Status) && known(b.Status) && a.Status != b.Status
}

func sameContent(x, y *Event) bool {
	a, b := x.Call, y.Call
	return a.Status == b.Status && a.Error == b.Error && sameJSON(a.Args, b.Args) && sameJSON(a.Result, b.Result)
}

// complete fills what the kept copy lacks. Of an MCP span and the call around it, the caller's clock counts.
func complete(kept, copied *item) {
	k, c := &kept.e, &copied.e
	if k.Call.Args == nil || k.Identity != c.Identity && c.Call.Args != nil && partOf(k.Call.Args, c.Call.Args) && !partOf(c.Call.Args, k.Call.Args) {
		k.Call.Args = c.Call.Args
	}
	if k.Call.Result == nil {
		k.Call.Result = c.Call.Result
	}
	k.Call.CallID, k.Call.Error = cmp.Or(k.Call.CallID, c.Call.CallID), cmp.Or(k.Call.Error, c.Call.Error)
	if k.Call.Status == StatusUnknown || k.Call.Status == StatusRequested {
		k.Call.Status = c.Call.Status
	}
	k.Call.Truncated = k.Call.Truncated || c.Call.Truncated
	if c.OriginKind == OriginFlowCall || k.OriginKind == OriginAgent {
		k.OriginKind = c.OriginKind // one who knows of the flow is enough
	}
	if !k.HasTurn {
		k.Turn, k.HasTurn = c.Turn, c.HasTurn
	}
	if kept.inner && !copied.inner {
		k.Start, k.Duration, k.TraceID, k.SpanID, k.Source = c.Start, c.Duration, c.TraceID, c.SpanID, c.Source
		k.Call.Tool, k.Identity = c.Call.Tool, c.Identity
		kept.span, kept.caused, kept.run, kept.agent, kept.inner = copied.span, copied.caused, copied.run, copied.agent, false
	}
	if k.Start.IsZero() || kept.told() && !c.Start.IsZero() && c.Start.Before(k.Start) {
		k.Start, kept.span, kept.caused = c.Start, copied.span, copied.caused // what asked for the call, not what was given its result
	}
	if k.Duration == 0 {
		k.Duration = c.Duration
	}
	kept.run, kept.agent = cmp.Or(kept.run, copied.run), cmp.Or(kept.agent, copied.agent)
	if !k.HasSeq && k.Source == c.Source {
		k.Seq, k.HasSeq = c.Seq, c.HasSeq
	}
}

// partOf reports whether all of the arguments in part are among those in whole, with the same values.
func partOf(part, whole json.RawMessage) bool {
	if sameJSON(part, whole) {
		return true
	}
	x, errX := value.Decode(part)
	y, errY := value.Decode(whole)
	if errX != nil || errY != nil {
		return false
	}
	fewer, isObject := x.(map[string]any)
	more, bothObjects := y.(map[string]any)
	if !isObject || !bothObjects {
		return false
	}
	for name, v := range fewer {
		if w, ok := more[name]; !ok || !value.Equal(v, w) {
			return false
		}
	}
	return true
}

// sameJSON compares two payloads by value: key order, white space and the form of numbers do not count.
func sameJSON(a, b json.RawMessage) bool {
	if (a == nil) != (b == nil) {
		return false
	}
	if bytes.Equal(a, b) {
		return true
	}
	x, errA := value.Decode(a)
	y, errB := value.Decode(b)
	return errA == nil && errB == nil && value.Equal(x, y)
}
