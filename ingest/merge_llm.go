package ingest

import (
	"cmp"
	"slices"
	"time"
)

// mergeLLM drops copies of model calls, and model calls inside a model call (a framework's span around a client's
// span), whose figures complete the outer one's. Where the outer one spans the tools that
// it asked for, as a step of an agent does, the time of the model is the inner one's, or ends where the first tool starts.
func mergeLLM(items []*item, tree *spanTree) []*item {
	items = dropCopies(items, KindLLMCall, completeLLM)
	outer := make(map[int]*item)
	var inner []*item
	for _, it := range items {
		if it.e.Kind == KindLLMCall {
			outer[it.index] = it
		}
	}
	above := func(it *item) *item {
		return outer[tree.find(tree.parent(it.index), func(e *Event) bool { return e.Kind == KindLLMCall })]
	}
	items = slices.DeleteFunc(items, func(it *item) bool {
		if it.e.Kind != KindLLMCall || above(it) == nil {
			return false
		}
		inner = append(inner, it)
		return true
	})
	slices.SortStableFunc(inner, compareTime)
	timed := make(map[*item]bool)
	tools := firstTools(items, above)
	for _, it := range inner {
		step := above(it)
		completeLLM(step, it)
		if !tools[step].IsZero() && !timed[step] {
			step.e.Start, step.e.Duration, timed[step] = it.e.Start, it.e.Duration, true
		}
	}
	for step, first := range tools {
		if until := first.Sub(step.e.Start); !timed[step] && until > 0 && until < step.e.Duration {
			step.e.Duration = until
		}
	}
	return items
}

// firstTools finds the model calls that span tool calls, with the start of the first.
func firstTools(items []*item, above func(*item) *item) map[*item]time.Time {
	first := make(map[*item]time.Time)
	for _, it := range items {
		if it.e.Call == nil || it.told() || it.e.Start.IsZero() {
			continue
		}
		step := above(it)
		if step != nil && (first[step].IsZero() || it.e.Start.Before(first[step])) {
			first[step] = it.e.Start
		}
	}
	return first
}

// completeLLM fills what the kept model call does not know from a copy.
func completeLLM(kept, copied *item) {
	l, c := *kept.e.LLM, copied.e.LLM
	for _, n := range [...]struct{ kept, copied *int64 }{
		{&l.InputTokens, &c.InputTokens}, {&l.OutputTokens, &c.OutputTokens}, {&l.CachedTokens, &c.CachedTokens},
	} {
		if *n.kept < 0 {
			*n.kept = *n.copied
		}
	}
	if !l.HasCost {
		l.CostUSD, l.HasCost = c.CostUSD, c.HasCost
	}
	l.Model = cmp.Or(l.Model, c.Model)
	kept.e.LLM = &l
	if kept.callIDs == nil {
		kept.callIDs = copied.callIDs
	}
}
