package observer

import (
	"cmp"
	"maps"
	"slices"

	"pave/flows/value"
)

// maxTold bounds the fields of one element that are looked for in what the user wrote, and the elements beside it.
const (
	maxTold     = 16
	maxToldFrom = 64
)

// told lists the fields by which the user's words tell the element that v is of from all others of its list: places in the
// result of an earlier step, with * for the index.
func (x *examination) told(copies []source) (out []place) {
	paths := x.view.miner.paths
	for _, c := range copies {
		if c.arg != "" || c.derived > 0 || x.runsEach(c.step) {
			continue
		}
		element, take := paths.element(c.path)
		if element == 0 {
			continue
		}
		list := x.elements(c.step, paths.steps[element].parent)
		index := int(paths.steps[element].index)
		if index >= len(list) || len(list) > maxToldFrom {
			continue
		}
		object, _ := list[index].(map[string]any)
		for _, field := range sortedKeys(object)[:min(len(object), maxTold)] {
			pointer := "/" + value.Escape(field)
			if pointer != take && x.namesOne(list, index, field) {
				out = append(out, place{c.step, paths.pointer(paths.steps[element].parent, false) + "/*" + pointer})
			}
		}
		break // the other copies are of the same value
	}
	return out
}

// namesOne reports whether the user wrote the field's text of this element and of no other.
func (x *examination) namesOne(list []any, index int, field string) bool {
	for i, e := range list {
		object, _ := e.(map[string]any)
		text, ok := object[field].(string)
		wrote := ok && len(text) >= minConverted && x.userWrote(text)
		if wrote != (i == index) {
			return false
		}
	}
	return true
}

// toldBy is the place by which the user's words tell the element most often, and how often.
func toldBy(a argument) (p place, n int) {
	votes := map[place]int{}
	for _, in := range a.in {
		for _, told := range in.arg.told {
			votes[told]++
		}
	}
	if len(votes) == 0 {
		return p, 0
	}
	p = slices.MinFunc(slices.Collect(maps.Keys(votes)), func(a, b place) int {
		return cmp.Or(cmp.Compare(votes[b], votes[a]), cmp.Compare(a.step, b.step), cmp.Compare(a.path, b.path))
	})
	return p, votes[p]
}
