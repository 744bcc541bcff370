// Package conformance runs golden vectors (files of the form that testdata/vectors/README.md describes) through pave and
// says of each whether the outcome is exact, diverges by a declared decision, or fails.
//
// A divergence is declared by a rule over the vector's content, never by its id. A rule names the decision that it
// implements (R1 to R32 of the design) and says what must come out instead; that outcome is asserted too.
package conformance

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Verdict is the outcome of one vector.
type Verdict string

const (
	Exact      Verdict = "exact"
	Divergence Verdict = "divergence" // the expected outcome of its rules was asserted
	Fail       Verdict = "FAIL"
)

// Outcome is what running one vector found.
type Outcome struct {
	ID      string   `json:"id"`
	Verdict Verdict  `json:"verdict"`
	Rules   []string `json:"rules,omitempty"`  // of a divergence
	Reason  string   `json:"reason,omitempty"` // of a failure: what differs
}

// Group is the outcomes of the vectors of one group.
type Group struct {
	Name     string    `json:"name"`
	Outcomes []Outcome `json:"outcomes"`
}

// Count is the number of vectors with the verdict.
func (g *Group) Count(v Verdict) int {
	n := 0
	for i := range g.Outcomes {
		if g.Outcomes[i].Verdict == v {
			n++
		}
	}
	return n
}

// Report is the outcome of a folder of vectors, groups by name.
type Report struct {
	Groups []Group `json:"groups"`
}

// Failed is the number of vectors that failed.
func (r *Report) Failed() int { return r.count(Fail) }

// Passed is the number of vectors that are exact or diverge as declared.
func (r *Report) Passed() int { return r.count(Exact) + r.count(Divergence) }

func (r *Report) count(v Verdict) int {
	n := 0
	for i := range r.Groups {
		n += r.Groups[i].Count(v)
	}
	return n
}

// Write prints one line per group, the failures, one line per rule with the number of vectors that it took, and the
// totals as the last line.
func (r *Report) Write(w io.Writer) error {
	var b strings.Builder
	r.writeCounts(&b)
	for i := range r.Groups {
		for _, o := range r.Groups[i].Outcomes {
			if o.Verdict == Fail {
				fmt.Fprintf(&b, "FAIL %s: %s\n", oneLine(o.ID), oneLine(o.Reason))
			}
		}
	}
	r.writeRules(&b)
	fmt.Fprintf(&b, "%d passed, %d failed\n", r.Passed(), r.Failed())
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Report) writeCounts(b *strings.Builder) {
	for i := range r.Groups {
		g := &r.Groups[i]
		fmt.Fprintf(b, "%s: %d exact, %d divergence, %d FAIL\n", oneLine(g.Name), g.Count(Exact), g.Count(Divergence), g.Count(Fail))
	}
}

func (r *Report) writeRules(b *strings.Builder) {
	taken := map[string]int{}
	for i := range r.Groups {
		for _, o := range r.Groups[i].Outcomes {
			for _, rule := range o.Rules {
				taken[rule]++
			}
		}
	}
	names := make([]string, 0, len(taken))
	for name := range taken {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(number(a), number(b)), cmp.Compare(a, b)) })
	for _, name := range names {
		fmt.Fprintf(b, "rule %s: %d\n", name, taken[name])
	}
}

func number(rule string) int {
	n, err := strconv.Atoi(strings.TrimPrefix(rule, "R"))
	if err != nil {
		return 0 // sorts before the numbered ones
	}
	return n
}

// longestReason keeps a failure readable; vectors may differ in whole documents.
const longestReason = 2000

// oneLine keeps text of a vector on its line and free of control characters.
func oneLine(s string) string {
	if r := []rune(s); len(r) > longestReason {
		s = string(r[:longestReason]) + "..."
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return ' '
		}
		return r
	}, s)
}

func exact() Outcome                  { return Outcome{Verdict: Exact} }
func diverges(rule ...string) Outcome { return Outcome{Verdict: Divergence, Rules: rule} }

func failed(format string, args ...any) Outcome {
	return Outcome{Verdict: Fail, Reason: fmt.Sprintf(format, args...)}
}
