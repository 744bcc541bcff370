// Package analyzer joins what was observed with tool schemas: it infers schemas from recorded values, computes
// which tools can follow which, checks mined mappings against schemas, and builds draft flows with evidence and
// expected savings. Candidates are in rank order; governance decides which become proposals.
package analyzer

import (
	"time"

	"pave/flows"
	"pave/observer"
)

// Source says what generated a candidate.
type Source string

const (
	SourceMiner    Source = "miner"    // mined from recorded sessions
	SourceAnalyzer Source = "analyzer" // schema-compatible chain, never or rarely observed; its own lower queue
)

// Candidate is a draft flow with evidence and expected savings, not yet in the queue.
type Candidate struct {
	Source Source
	Flow   *flows.Flow // status needs_review, lifecycle suggested
	Digest string      // content digest of Flow (flows.Digest)
	// PatternKey is stable for "the same thing" over passes: source, tools and shape, not counts or digests.
	PatternKey string
	// Orders are the keys that the same flow would have by other orders of its independent steps, as far as agents walk them.
	Orders   []string
	Rank     int // 0 is best inside its source
	Score    float64
	Evidence Evidence
	Savings  Savings
	// Unbound names the tools that nothing binds yet.
	Unbound []string
	// SafetyLevel is the merged side effects of the flow's tools; unknown counts as external.
	SafetyLevel flows.SideEffects
	Warnings    []string
}

// Evidence is what a reviewer sees. Mined candidates carry the pattern, chains the schema edges.
type Evidence struct {
	Window      Window
	Pattern     *observer.Pattern `json:",omitempty"`
	SchemaEdges []SchemaEdge      `json:",omitempty"`
}

// Window is the time range and size of the data behind a candidate.
type Window struct {
	From, To time.Time
	Sessions int
	Calls    int
}

// SchemaEdge is one field of a chain: the producer's output field feeds the consumer's input field.
type SchemaEdge struct {
	Producer, OutputField string
	Consumer, InputField  string
	Rule                  string // "name and type", ...
}

// Savings is the expected effect of one run of the flow, taken from the recorded LLM calls of the stretches
// that it would replace. Each figure is a mean over the examined occurrences with a 95 % interval.
type Savings struct {
	Occurrences     int
	LLMCallsPerRun  Interval
	TokensPerRun    Interval // zero Known when tokens were not recorded
	CostUSDPerRun   Interval
	LatencyMSPerRun Interval
	// CallsPerRun are the tool calls of the occurrences that the figures are means of; zero Known where they were not counted.
	CallsPerRun Interval
	// PerCall is set of a flow that takes whole calls: its runs make as many as they are given, so that one of n calls saves
	// (n - 1) / (CallsPerRun - 1) times the figures.
	PerCall bool
	PerWeek float64 // occurrences per week in the window, 0 when times are unknown
	Basis   string  // one sentence: what was measured, what is unknown
}

// Interval is a mean with its 95 % interval; Known is the number of occurrences behind it.
type Interval struct {
	Mean, Low, High float64
	Known           int
}
