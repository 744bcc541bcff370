package baseline

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// What tools' names say about side effects.
const (
	SafetyReadOnly      = "read_only"
	SafetySideEffecting = "side_effecting"
	SafetyUnknown       = "unknown"
)

// What a reviewer is advised to do.
const (
	SafeToDraft  = "safe_to_draft"
	ReviewNeeded = "review_needed"
	DoNotCompile = "do_not_compile"
)

// Score rates a sequence of tools over the sessions in which it occurs. Rates lie between 0 and 1, four decimals.
type Score struct {
	Sequence          []string
	Support           int // occurrences
	Sessions          int
	SuccessRate       float64
	ModelCallsRemoved int   // per run: the number of tools
	InputTokensSaved  int64 // per run: median over the occurrences of the tokens of model calls between its calls
	OutputTokensSaved int64
	SchemaStability   float64
	Determinism       float64
	SafetyLevel       string
	Recommendation    string
	Score             float64
	Warnings          []string
}

// window is one occurrence: the positions of its calls among the events of its session.
type window struct {
	events []*AgentEvent // the session's
	calls  []int
}

func (w *window) call(i int) *AgentEvent { return w.events[w.calls[i]] }

// session is one session's events.
type session struct {
	id     string
	events []*AgentEvent
	calls  []int // positions of tool calls
}

// sessions groups events in the order in which sessions first appear.
func sessions(events []AgentEvent) []*session {
	var out []*session
	index := map[string]*session{}
	for i := range events {
		e := &events[i]
		s := index[e.SessionID]
		if s == nil {
			s = &session{id: e.SessionID}
			index[e.SessionID] = s
			out = append(out, s)
		}
		if e.Event == EventToolCall {
			s.calls = append(s.calls, len(s.events))
		}
		s.events = append(s.events, e)
	}
	return out
}

// windows are the occurrences of a sequence in one session.
func (s *session) windows(sequence []string) []window {
	var out []window
	for start := 0; start+len(sequence) <= len(s.calls); start++ {
		w := window{s.events, s.calls[start : start+len(sequence)]}
		same := true
		for i := range sequence {
			same = same && w.call(i).Tool == sequence[i]
		}
		if same {
			out = append(out, w)
		}
	}
	return out
}

// ScoreCandidate rates a sequence of at least one tool.
func ScoreCandidate(events []AgentEvent, sequence []string) (Score, error) {
	if len(sequence) == 0 {
		return Score{}, invalid("sequence must contain at least one tool.")
	}
	grouped := sessions(events)
	var all []window
	s := Score{Sequence: sequence, ModelCallsRemoved: len(sequence), SafetyLevel: ClassifySafety(sequence)}
	for _, g := range grouped {
		found := g.windows(sequence)
		if len(found) > 0 {
			s.Sessions++
		}
		all = append(all, found...)
	}
	s.Support = len(all)
	success, stability, determinism := successRate(all), schemaStability(all, len(sequence)), determinismOf(grouped, sequence)
	s.InputTokensSaved, s.OutputTokensSaved = tokensBetween(all)
	s.warn(success, stability, determinism)
	score := combine(s.Support, success, stability, determinism, s.SafetyLevel)
	switch {
	case s.SafetyLevel == SafetySideEffecting:
		s.Recommendation = DoNotCompile
	case score >= 0.75 && len(s.Warnings) == 0:
		s.Recommendation = SafeToDraft
	default:
		s.Recommendation = ReviewNeeded
	}
	s.SuccessRate, s.SchemaStability, s.Determinism, s.Score = round(success, 4), round(stability, 4), round(determinism, 4), round(score, 4)
	return s, nil
}

func successRate(all []window) float64 {
	if len(all) == 0 {
		return 1
	}
	good := 0
	for _, w := range all {
		failed := false
		for i := range w.calls {
			failed = failed || w.call(i).ResultStatus == statusError
		}
		if !failed {
			good++
		}
	}
	return float64(good) / float64(len(all))
}

const statusError = "error"

// schemaStability is the mean over positions of the share of the most common set of argument names.
func schemaStability(all []window, length int) float64 {
	if len(all) <= 1 {
		return 1
	}
	total := 0.0
	for i := range length {
		counts, most := map[string]int{}, 0
		for _, w := range all {
			names := slices.Sorted(slices.Values(w.call(i).ArgNames))
			key := listText(names)
			counts[key]++
			most = max(most, counts[key])
		}
		total += float64(most) / float64(len(all))
	}
	return total / float64(length)
}

// determinismOf is how often a tool of the sequence is followed by the one that the sequence says, of all times that it is
// followed by any.
func determinismOf(grouped []*session, sequence []string) float64 {
	hits, total := 0, 0
	for i := range len(sequence) - 1 {
		for _, s := range grouped {
			for k := range max(0, len(s.calls)-1) {
				if s.events[s.calls[k]].Tool != sequence[i] {
					continue
				}
				total++
				if s.events[s.calls[k+1]].Tool == sequence[i+1] {
					hits++
				}
			}
		}
	}
	if total == 0 {
		return 1
	}
	return float64(hits) / float64(total)
}

// tokensBetween are the medians over occurrences of the tokens of model calls between first and last call.
func tokensBetween(all []window) (in, out int64) {
	var ins, outs []int64
	for _, w := range all {
		var inSum, outSum int64
		for _, e := range w.events[w.calls[0]:w.calls[len(w.calls)-1]] {
			if e.Event != EventModelCall {
				continue
			}
			if e.InputTokens != nil {
				inSum += *e.InputTokens
			}
			if e.OutputTokens != nil {
				outSum += *e.OutputTokens
			}
		}
		ins, outs = append(ins, inSum), append(outs, outSum)
	}
	return median(ins), median(outs)
}

// median rounds half to even; 0 without samples.
func median(samples []int64) int64 {
	if len(samples) == 0 {
		return 0
	}
	slices.Sort(samples)
	middle := len(samples) / 2
	if len(samples)%2 == 1 {
		return samples[middle]
	}
	return int64(math.RoundToEven((float64(samples[middle-1]) + float64(samples[middle])) / 2))
}

func (s *Score) warn(success, stability, determinism float64) {
	add := func(when bool, format string, args ...any) {
		if when {
			s.Warnings = append(s.Warnings, fmt.Sprintf(format, args...))
		}
	}
	add(s.Support < 3, "Low support: seen only %d time(s).", s.Support)
	add(success < 0.9, "Success rate %s below 90%%.", percent(success))
	add(stability < 0.8, "Unstable argument shapes (stability %s).", percent(stability))
	add(determinism < 0.8, "Path is not consistently deterministic (%s).", percent(determinism))
	add(s.SafetyLevel == SafetySideEffecting, "Sequence includes side-effecting tools; compile only with guards.")
	add(s.SafetyLevel == SafetyUnknown, "Side-effect safety is unknown; classify tools before promotion.")
}

// combine weighs the rates. The conversions keep every product rounded, so that no processor fuses it into the sum.
func combine(support int, success, stability, determinism float64, safety string) float64 {
	factor := map[string]float64{SafetyReadOnly: 1, SafetyUnknown: 0.6, SafetySideEffecting: 0.3}[safety]
	score := float64(0.25*(float64(min(support, 10))/10)) + float64(0.25*success) + float64(0.2*stability) + float64(0.2*determinism) + float64(0.1*factor)
	return max(0, min(1, score))
}

var (
	sideEffectVerbs = []string{"write", "edit", "delete", "create", "comment", "run", "post", "apply", "update", "push"}
	readOnlyVerbs   = []string{"search", "read", "get", "list", "inspect", "fetch", "show", "find", "summarize", "diff"}
)

// ClassifySafety judges tools by their verb: the first word of the last dotted part of the name. One side-effecting
// tool makes the sequence so; it is read-only when all of its tools are.
func ClassifySafety(sequence []string) string {
	readOnly := len(sequence) > 0
	for _, name := range sequence {
		leaf := name[strings.LastIndex(name, ".")+1:]
		verb, _, _ := strings.Cut(strings.ReplaceAll(leaf, "-", "_"), "_")
		verb = strings.ToLower(verb)
		if slices.Contains(sideEffectVerbs, verb) {
			return SafetySideEffecting
		}
		readOnly = readOnly && slices.Contains(readOnlyVerbs, verb)
	}
	if readOnly {
		return SafetyReadOnly
	}
	return SafetyUnknown
}

// Rank sorts scores as reports show them: by score, then support, both falling, then sequence.
func Rank(scores []Score) {
	slices.SortStableFunc(scores, func(a, b Score) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(b.Support, a.Support), slices.Compare(a.Sequence, b.Sequence))
	})
}
