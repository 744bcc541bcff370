package observer

import (
	"fmt"
	"slices"
	"strings"

	"pave/flows/value"
)

// Objects whose keys are values: a key or a member is told by what the key is.

// maxMemberDepth bounds how many objects that a value lies in are looked at for a key that was named.
const maxMemberDepth = 8

// eachKey calls fn with the keys that a copy lies below, the nearest first: at has the key and its object, take is the place
// in the member.
func (t *pathTable) eachKey(copied uint32, fn func(at pathStep, take string)) {
	take := ""
	for id, depth := copied, 0; id != 0 && depth < maxMemberDepth; id, depth = t.steps[id].parent, depth+1 {
		at := t.steps[id]
		if at.index >= 0 {
			take = fmt.Sprintf("/%d%s", at.index, take)
			continue
		}
		if len(at.key) >= minConverted {
			fn(at, take)
		}
		take = "/" + value.Escape(at.key) + take
	}
}

// members are objects that hold a copy in the member whose key an earlier argument is.
func (x *examination) members(k int, copies []source) (out []source) {
	paths := x.view.miner.paths
	for _, c := range copies {
		if c.arg != "" || x.runsEach(c.step) || len(out) >= maxMatches {
			continue
		}
		paths.eachKey(c.path, func(at pathStep, take string) {
			out = append(out, x.namedKey(k, at, form{kind: FormMember, holes: []source{{step: c.step, path: at.parent}, {}}, take: take})...)
		})
	}
	return out
}

// namedKey makes a form of a member for each earlier argument that is its key.
func (x *examination) namedKey(k int, at pathStep, f form) (out []source) {
	for j := range k {
		c := x.call(j)
		for _, arg := range c.names {
			if text, ok := c.args[arg].(string); ok && text == at.key && !x.runsEach(j) {
				f.holes = []source{f.holes[0], {step: j, arg: arg}}
				out = append(out, x.derive(f))
			}
		}
	}
	return out
}

// onlyKeys are objects that step k could see whose one key v is.
func (x *examination) onlyKeys(k int, v string, hash uint64) (out []source) {
	if len(v) < minConverted {
		return nil
	}
	for j := range k {
		if !x.sees(k, j) || x.runsEach(j) || !slices.Contains(x.result(j).keys, hash) {
			continue
		}
		result := x.result(j)
		for n, node := range result.values {
			object, _ := node.(map[string]any)
			if _, ok := object[v]; ok && len(object) == 1 && len(out) < maxMatches {
				out = append(out, x.derive(form{kind: FormOnlyKey, holes: []source{{step: j, path: result.paths[n]}}}))
			}
		}
	}
	return out
}

// toldKeys are the members of objects that a copy lies in whose key the user had written, in any case, and no other has.
func (x *examination) toldKeys(c source) (out []told) {
	m := x.view.miner
	m.paths.eachKey(c.path, func(at pathStep, take string) {
		if len(out) == maxTold || !x.userWrote(at.key) {
			return
		}
		result := x.result(c.step)
		n := slices.Index(result.paths, at.parent)
		if n < 0 {
			return
		}
		object, _ := result.values[n].(map[string]any)
		alike := 0
		for key := range object {
			if strings.EqualFold(key, at.key) {
				alike++
			}
		}
		if alike == 1 && len(object) > 1 {
			out = append(out, told{x.derive(form{kind: FormMember, asks: true, holes: []source{{step: c.step, path: at.parent}}, take: take}), at.key})
		}
	})
	return out
}
