// Package baseline holds the base system's mining algorithms exactly as that system runs them: the observer
// (Observer), the static analyzer (Analyzer, SuggestOptimizations), the scoring of agent traces (ParseAgentTrace,
// ScoreCandidate, DraftFlow, Backtest), the proposal queue (Service) and the redaction policies (RedactionPolicy).
//
// It is the reference that conformance vectors and benches hold pave against, and a source of candidates from
// schemas alone; the product's own mining is packages observer and analyzer. Names, texts and orders are the base
// system's and are kept, quirks included: the observer counts overlaps and wires by key names, the analyzer lets
// a tool without required inputs follow every other, the queue forgets what was rejected.
//
// Errors that a caller causes are *flows.Error: flows.CodeInvalid where the base system raises ValueError,
// flows.CodeNotFound where it raises KeyError.
package baseline

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"pave/flows"
)

// draftVersion is the version of every suggested flow.
const draftVersion = "0.0.0"

func invalid(format string, args ...any) error {
	return flows.NewError(flows.CodeInvalid, fmt.Sprintf(format, args...))
}

// identity maps every name to the context key of the same name.
func identity(names []string) flows.Mapping {
	if len(names) == 0 {
		return nil
	}
	m := make(flows.Mapping, len(names))
	for i, name := range names {
		m[i] = flows.MappingEntry{Target: name, Value: source(name)}
	}
	return m
}

// source reads a name as a flow file would: what starts with a slash is a pointer.
func source(name string) flows.MappingValue {
	if strings.HasPrefix(name, "/") {
		return flows.Pointer(name)
	}
	return flows.Key(name)
}

// round is Python's round(x, digits): the decimal nearest to the binary value, ties to even.
func round(x float64, digits int) float64 {
	f, err := strconv.ParseFloat(strconv.FormatFloat(x, 'f', digits, 64), 64)
	if err != nil {
		return x // not finite
	}
	return f
}

// floatText writes a float as Python does: the shortest form that reads back, always with a point or an exponent.
func floatText(x float64) string {
	if a := math.Abs(x); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(x, 'e', -1, 64)
	}
	s := strconv.FormatFloat(x, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// percent writes a rate as whole percent.
func percent(x float64) string { return strconv.FormatFloat(x*100, 'f', 0, 64) + "%" }
