package observer

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"pave/flows/value"
)

// Limits of the search for a guard (a decision stump).
const (
	minGuardCases  = 20   // occurrences
	minGuardSide   = 3    // sessions with the step, and without it
	minGuardRight  = 0.95 // share of the occurrences that it must tell rightly, also on sessions it was not found in
	maxGuardPlaces = 256  // places of a result
	maxGuardValues = 8    // different values of a place of which each may be the one that tells
)

// guardCase is one occurrence: what the step before gave, and whether the optional step ran.
type guardCase struct {
	session string
	result  *nodeSet
	runs    bool
}

// stump is one test of one place.
type stump struct {
	path  uint32
	test  GuardTest
	value any
	not   bool
}

// guardSearch looks for the test that tells the two kinds of cases apart.
type guardSearch struct {
	cases  []guardCase
	paths  *pathTable
	places map[uint32][]any // values by case; absent where there is none
	order  []uint32
}

// absent stands for no value at a place.
type absentValue struct{}

func newGuardSearch(cases []guardCase, paths *pathTable) *guardSearch {
	s := &guardSearch{cases: cases, paths: paths, places: map[uint32][]any{}}
	for i, c := range cases {
		for n, path := range c.result.paths {
			if s.places[path] == nil {
				if _, indexes, _ := paths.shape(path); indexes > 0 || len(s.places) == maxGuardPlaces {
					continue
				}
				s.places[path] = slices.Repeat([]any{absentValue{}}, len(cases))
				s.order = append(s.order, path)
			}
			s.places[path][i] = c.result.values[n]
		}
	}
	slices.SortFunc(s.order, func(a, b uint32) int {
		x, _, _ := paths.shape(a)
		y, _, _ := paths.shape(b)
		return cmp.Or(cmp.Compare(x, y), strings.Compare(paths.pointer(a, false), paths.pointer(b, false)))
	})
	return s
}

// holds is what the stump says of a value.
func (t *stump) holds(v any) bool {
	holds := false
	switch t.test {
	case GuardFilled:
		holds = filled(v)
	case GuardEquals:
		_, missing := v.(absentValue)
		holds = !missing && value.Equal(v, t.value)
	case GuardAtLeast:
		n, ok := number(v)
		least, _ := number(t.value)
		holds = ok && n.Cmp(least) >= 0
	}
	return holds != t.not
}

// filled is truth as predicates have it.
func filled(v any) bool {
	switch v := v.(type) {
	case nil, absentValue:
		return false
	case bool:
		return v
	case string:
		return v != ""
	case []any:
		return len(v) > 0
	case map[string]any:
		return len(v) > 0
	}
	n, ok := number(v)
	return !ok || n.Sign() != 0
}

func number(v any) (*big.Rat, bool) {
	switch v := v.(type) {
	case int64:
		return new(big.Rat).SetInt64(v), true
	case float64:
		r := new(big.Rat)
		return r, r.SetFloat64(v) != nil
	case json.Number:
		return new(big.Rat).SetString(v.String())
	}
	return nil, false
}

// best finds the stump that is right most often in the cases for which in holds, and says how many it tried. The first in
// the order of the places, plain tests first, wins a tie.
func (s *guardSearch) best(in func(i int) bool) (best stump, right, tried int) {
	right = -1
	for _, path := range s.order {
		values := s.places[path]
		for _, t := range s.tests(path, values, in) {
			hits, n := 0, 0
			for i := range s.cases {
				if in(i) {
					n++
					if t.holds(values[i]) == s.cases[i].runs {
						hits++
					}
				}
			}
			tried++
			if n-hits > hits {
				t.not, hits = true, n-hits
			}
			if hits > right {
				best, right = t, hits
			}
		}
	}
	return best, right, tried
}

// tests lists what may be asked of a place.
func (s *guardSearch) tests(path uint32, values []any, in func(i int) bool) []stump {
	var seen []any
	many := false
	numbers := true
	for i, v := range values {
		if !in(i) {
			continue
		}
		switch v.(type) {
		case absentValue, []any, map[string]any:
			numbers = false
			continue
		}
		if _, ok := number(v); !ok {
			numbers = false
		}
		if !slices.ContainsFunc(seen, func(o any) bool { return value.Equal(o, v) }) {
			if many = len(seen) == maxGuardValues; many && !numbers {
				break
			}
			if !many {
				seen = append(seen, v)
			}
		}
	}
	out := []stump{{path: path, test: GuardFilled}}
	if !many {
		for _, v := range seen {
			if _, isBool := v.(bool); !isBool && v != nil {
				out = append(out, stump{path: path, test: GuardEquals, value: v})
			}
		}
	}
	if numbers && len(seen) > 2 {
		for _, v := range s.thresholds(values, in) {
			out = append(out, stump{path: path, test: GuardAtLeast, value: v})
		}
	}
	return out
}

// thresholds are the values at which a place that is always a number may divide the cases: where, in the order of the
// numbers, those with the step and those without it change.
func (s *guardSearch) thresholds(values []any, in func(i int) bool) []any {
	type point struct {
		v    any
		n    *big.Rat
		runs bool
	}
	var points []point
	for i, v := range values {
		if in(i) {
			n, _ := number(v)
			points = append(points, point{v, n, s.cases[i].runs})
		}
	}
	slices.SortStableFunc(points, func(a, b point) int { return a.n.Cmp(b.n) })
	var out []any
	for i := 1; i < len(points); i++ {
		if points[i].runs != points[i-1].runs && points[i].n.Cmp(points[i-1].n) != 0 && len(out) < maxGuardValues {
			out = append(out, points[i].v)
		}
	}
	return out
}

// guard finds a test that separates the cases: right often enough over all of them and on sessions it was not found in,
// and more often than chance explains. exact asks for all of them. nil: there is none.
func (m *inference) guard(cases []guardCase, exact bool) *Guard {
	with, without, taken := map[string]bool{}, map[string]bool{}, 0
	for _, c := range cases {
		if c.runs {
			taken++
			with[c.session] = true
		} else {
			without[c.session] = true
		}
	}
	n := len(cases)
	if n < minGuardCases || len(with) < minGuardSide || len(without) < minGuardSide {
		return nil
	}
	s := newGuardSearch(cases, m.paths)
	best, right, tried := s.best(func(int) bool { return true })
	most := max(taken, n-taken)
	if right < 0 || exact && right < n || float64(right) < minGuardRight*float64(n) ||
		binomialTail(right, n, float64(most)/float64(n)) >= m.options.ChanceLevel/float64(tried) {
		return nil
	}
	if best.test != GuardFilled && !m.mayGuard(&best, s) {
		return nil
	}
	apart := s.heldOut()
	if float64(apart) < minGuardRight*float64(n) {
		return nil
	}
	g := &Guard{Pointer: m.paths.pointer(best.path, false), Test: best.test, Value: best.value, Not: best.not, Taken: taken,
		Evidence: Evidence{Present: n, Held: right, Chance: float64(most) / float64(n)}}
	g.Evidence.Note = fmt.Sprintf("Agents took the step in %d of %d occurrences; a test found in one half of the sessions told it rightly in %d of %d of the other.",
		taken, n, apart, n)
	s.cite(&g.Evidence, &best)
	return g
}

// mayGuard reports whether the value that a test compares with may stand in a flow: as a constant may.
func (m *inference) mayGuard(t *stump, s *guardSearch) bool {
	if _, _, name := s.paths.shape(t.path); isPersonal(name, t.value) {
		return false
	}
	if t.test != GuardEquals {
		return true
	}
	sessions := map[string]bool{}
	for i, v := range s.places[t.path] {
		if _, missing := v.(absentValue); !missing && value.Equal(v, t.value) {
			sessions[s.cases[i].session] = true
		}
	}
	return len(sessions) >= m.options.ConstSession
}

// heldOut is how many cases are told rightly by a test that was found in the other half of the sessions.
func (s *guardSearch) heldOut() int {
	ids := make([]string, len(s.cases))
	for i := range s.cases {
		ids[i] = s.cases[i].session
	}
	side, _ := deal(ids)
	right := 0
	for h := range uint8(2) {
		t, found, _ := s.best(func(i int) bool { return side[i] == h })
		for i := range s.cases {
			if side[i] != h && found > 0 && t.holds(s.places[t.path][i]) == s.cases[i].runs {
				right++
			}
		}
	}
	return right
}

// cite fills in the values seen and the sessions for and against a test.
func (s *guardSearch) cite(e *Evidence, t *stump) {
	var seen []string
	for i, v := range s.places[t.path] {
		key := "absent"
		if _, missing := v.(absentValue); !missing {
			key = string(value.Canonical(v))
		}
		seen = append(seen, key)
		if t.holds(v) == s.cases[i].runs {
			cite(&e.Supporting, s.cases[i].session)
		} else {
			cite(&e.Contradicting, s.cases[i].session)
		}
	}
	slices.Sort(seen)
	e.Distinct = len(slices.Compact(seen))
}
