package observer

import "slices"

// givenOptions are sources for the occurrences in which callers did not know the value, beside an input for the
// others: the flow takes what the caller gives, and its own source where the caller gives nothing. The values that
// callers did not know decide whether a source stands; they must show enough of them.
func (d *decision) givenOptions(x *explanation, known bitset) []option {
	if float64(len(x.in)) < mostly*float64(len(d.records)) { // so is a step that is left out now and then
		return nil
	}
	unknown := fullBitset(len(d.records))
	unknown.drop(known)
	n := unknown.count()
	if n == 0 || known.count() == 0 {
		return nil
	}
	var out []option
	for _, o := range slices.Concat(d.fallbacks(x), d.onlyElements(x)) {
		right := unknown.both(o.held)
		if right < minVotes || o.kind != SourceConst && distinctAmong(x.argument, unknown, o.held) < minDistinct {
			continue
		}
		asked := n
		if o.only { // elsewhere the flow hands back
			asked = right
		}
		if d.rightIn(d.options.MinElse, right, asked) {
			o.given = true
			o.held = o.held.clone()
			o.held.join(known)
			out = append(out, o)
		}
	}
	return out
}

// fallbacks are the copies and constants that explain the argument most often.
func (d *decision) fallbacks(x *explanation) []option {
	var out []option
	for _, c := range x.part[:min(len(x.part), maxGuesses)] {
		out = append(out, d.copyOption(x.argument, c))
	}
	for _, v := range d.constants(x.argument) {
		out = append(out, d.constOption(x.argument, v))
	}
	return out
}

// distinctAmong is the number of different values in the records that both sets have.
func distinctAmong(a argument, s, t bitset) int {
	both := s.clone()
	both.keep(t)
	return distinctIn(a, both)
}
