package observer

import (
	"cmp"
	"slices"
)

// HeldOut is how the mappings of a flow did on sessions that they were not found in: the examined sessions are dealt into
// two halves by a hash of their ids, the source of each mapped argument is found anew in one half, and tried on the other,
// both ways. All zero where all occurrences are of one session.
type HeldOut struct {
	Windows     int // occurrences tried
	Exact       int // of these, where every mapping gave what was recorded
	Predictions int // arguments that the mappings gave in them
	Right       int // of these, as recorded
}

// finding is what half of the sessions tells about an argument.
type finding struct {
	option
	ok   bool
	hash uint64 // SourceConst
}

// heldOut finds the sources of the chosen options anew in each half of the sessions and tries them on the other.
func (d *decision) heldOut(chosen []option) HeldOut {
	var out HeldOut
	ids := make([]string, len(d.records))
	for i := range d.records {
		ids[i] = d.records[i].session
	}
	side, two := deal(ids)
	if !two {
		return out
	}
	exact := fullBitset(len(d.records))
	for i := range d.arguments {
		x, o := &d.arguments[i], chosen[i]
		switch {
		case o.kind == SourceInput || o.asked:
			continue
		case o.kind == "": // left out
			exact.keep(o.held)
			continue
		}
		found := d.findings(x, o, side)
		at := 0
		for r := range d.records {
			if x.step > 0 && x.step == d.optional && d.without.has(r) {
				continue
			}
			var arg *argRecord
			if at < len(x.in) && x.in[at].record == r {
				arg, at = x.in[at].arg, at+1
			}
			given, right := d.gives(found[1-side[r]], r, arg)
			if given {
				out.Predictions++
			}
			if given && right {
				out.Right++
			}
			if !right {
				exact[r/64] &^= 1 << (r % 64)
			}
		}
	}
	out.Windows, out.Exact = len(d.records), exact.count()
	return out
}

// deal gives each of the occurrences, told by their sessions, one of two sides: the sessions are dealt in the order of a
// hash of their ids. two is false where there is one session only.
func deal(sessions []string) (side []uint8, two bool) {
	ids := slices.Clone(sessions)
	slices.SortFunc(ids, func(a, b string) int { return cmp.Or(cmp.Compare(sessionHash(a), sessionHash(b)), cmp.Compare(a, b)) })
	ids = slices.Compact(ids)
	dealt := make(map[string]uint8, len(ids))
	for i, id := range ids {
		dealt[id] = uint8(i & 1)
	}
	side = make([]uint8, len(sessions))
	for i, id := range sessions {
		side[i] = dealt[id]
	}
	return side, len(ids) > 1
}

// findings are the best sources of an argument by the votes of each half, of the kind that was chosen by all.
func (d *decision) findings(x *explanation, o option, side []uint8) (found [2]finding) {
	for h := range found {
		f := &found[h]
		f.option = o
		half := argument{name: x.name, step: x.step, each: x.each}
		for _, p := range x.in {
			asked := !(o.given && p.arg.origin.known()) && !(o.only && !d.onlyHere(o.copy.source, p.record))
			if int(side[p.record]) == h && asked {
				half.in = append(half.in, p)
			}
		}
		if len(half.in) == 0 {
			continue
		}
		if o.kind == SourceConst {
			f.hash, f.ok = mostFrequent(half), true
		} else {
			f.copy.source, f.ok = d.mostVoted(half)
		}
	}
	return found
}

// gives says whether a mapping gives something in a record, and whether what happens there is as recorded. arg is nil where
// the argument was left out. Where callers give the value, or the flow hands back, there is nothing to be right about.
func (d *decision) gives(f finding, r int, arg *argRecord) (given, right bool) {
	switch {
	case arg != nil && f.given && arg.origin.known():
		return false, true
	case !f.ok:
		return arg != nil, false
	case f.only && !d.onlyHere(f.copy.source, r):
		return false, false
	}
	if arg == nil {
		if f.kind == SourceConst || f.copy.source.derived > 0 {
			return true, false
		}
		_, there := d.records[r].at(f.copy.source)
		return there, !there
	}
	if f.kind == SourceConst {
		return true, arg.hash == f.hash
	}
	return true, slices.Contains(arg.sources, f.copy.source)
}

// onlyHere reports whether a source is the one element of its list in a record.
func (d *decision) onlyHere(s source, r int) bool {
	list, ok := d.paths.listOf(s.path)
	return ok && s.arg == "" && s.derived == 0 && d.single(r, s.step, list)
}
