// Package observer turns recorded sessions into patterns and proves from the recorded values where each
// argument of a repeated sequence comes from.
//
// It knows sessions and sequences (package ingest), nothing of schemas, flows in review, or engines. Definitions
// and formulas: stretches, folding, level-wise counting, delta-closedness, excess over an order-1 Markov null
// model, greedy non-redundant selection, data flow by value equality.
package observer

import (
	"time"
)

// Result is what one mining pass found. Patterns are in rank order, best first.
type Result struct {
	From, To  time.Time // window of the sequences read; zero when open
	Sessions  int
	Calls     int // agents' own calls read
	Stretches int
	// RepeatCalls are exact repeats that folding removed: a separate saving, never counted in patterns.
	RepeatCalls int
	// RetryCalls are failed calls that a success of the same tool made good at once; folded like repeats.
	RetryCalls int
	// FlowCalls are calls of flows and of their steps: never mined.
	FlowCalls int
	// EarlierCalls are calls of tools from before they changed incompatibly: see Options.Since.
	EarlierCalls int
	// SkippedCalls are calls of tools that the pass left out; LeftOut calls beyond Options.MaxCalls, not read.
	SkippedCalls, LeftOut int
	// Noise are tools that agents call anywhere, called most first.
	Noise    []NoiseTool
	LLMCalls int // model calls issued by the stretches read (distinct turns)
	Patterns []Pattern
	// Blocked are frequent paths that are not proposed as a whole, with what blocks them.
	Blocked []Blocked
	// NotExamined are frequent paths that stand out and were not looked at: others came first, up to Options.MaxEvaluated.
	NotExamined int
	// Counted is the number of frequent sequences before selection, by length (index = length).
	Counted []int

	tracked *tallySet // what is worth counting day by day; nil when the pass read a part of the sequences
}

// Pattern is a repeated sequence of tools with its counts and statistics, and where its arguments come from.
type Pattern struct {
	Tools       []string
	Occurrences int // non-overlapping, leftmost greedy per stretch
	Sessions    int
	Agents      int
	// StepConfidence[k] = occ(t0..tk+1) / occ(t0..tk); len(Tools)-1 values in 0..1.
	StepConfidence []float64
	Expected       float64 // occurrences under the null model, an order-1 Markov model without dominant habits
	Excess         float64 // Occurrences - Expected
	Z              float64
	// Score is what the flow adds to those before it: model calls that runs of it would avoid in the sessions read, and
	// no run of a better flow would (greedy set cover); estimated where a pass looked at a sample of the sessions.
	Score float64
	// Success is the share of windows without an error, and its Wilson 95 % lower bound.
	Success, SuccessLower float64
	// TurnsSaved is the mean of (distinct assistant turns - 1) over the sampled occurrences.
	TurnsSaved float64
	// Partial is set when the flow is made for a part of the occurrences: another part takes its values elsewhere.
	Partial bool
	// Secondary is set when the flow is not one that stands by itself: better flows serve more than half of what it would
	// save alone, or it is no more frequent than chance and no values link it, or the caller would have to give all that
	// its later steps need and no step runs over a list, or it is Partial. Such flows come after all others; a review queue leaves them out.
	Secondary bool
	// Why says in a clause why it is Secondary, Unblock in a sentence what would change that.
	Why, Unblock string
	// DataFlow is nil for counted patterns whose values were not examined.
	DataFlow *DataFlow
	// CutFrom names the longer frequent sequence that this pattern is the model-free part of; nil when the
	// pattern was selected as it is.
	CutFrom []string
	// Gap is set where agents make other calls between the steps: the flow makes its calls one right after the other. Such
	// patterns come last and have no figures of chance.
	Gap *Gap
	// Batch is set where callers give the calls: every argument is an input. Such patterns come after all others.
	Batch *Batch
	// Stability over the weeks; nil where times are unknown or all calls are of one week.
	Stability *Stability
	// Examples are occurrences, at most a few, for reviewers and savings.
	Examples []Occurrence
}

// Gap is what lies between the steps of a pattern.
type Gap struct {
	Occurrences int         // with other calls between the steps
	Longest     int         // most calls between two steps
	Tools       []Neighbour // of these calls, those made most first, at most five
}

// Occurrence is one window of a session. Calls are the positions of the window's calls in the run, after
// folding, so that a folded repeat is skipped. Sizes has the number of calls of each step where a step runs once per
// element of a list, or is optional and left out; nil means one each.
type Occurrence struct {
	SessionID string
	RunIndex  int
	Calls     []int
	Sizes     []int
}

// Steps are the calls of each step.
func (o *Occurrence) Steps() [][]int {
	out := make([][]int, 0, len(o.Calls))
	if o.Sizes == nil {
		for i := range o.Calls {
			out = append(out, o.Calls[i:i+1])
		}
		return out
	}
	rest := o.Calls
	for _, n := range o.Sizes {
		out, rest = append(out, rest[:n]), rest[n:]
	}
	return out
}

// DataFlow explains every argument of a pattern by a source.
type DataFlow struct {
	Sampled int // occurrences examined
	// Steps[k] explains the arguments of the k-th call.
	Steps  []StepFlow
	Inputs []Input
	// Explained is the number of sampled occurrences in which every mapped argument held at once; of a Batch, in which
	// callers knew several calls.
	Explained int
	// Applicable is the number of these in which moreover every input was knowable before the first step.
	Applicable int
	// HeldOut is the result on sessions that the mappings were not found in; not measured for a Pattern that is Partial.
	HeldOut HeldOut
}

// StepFlow explains one step's arguments, sorted by name.
type StepFlow struct {
	Args []ArgFlow
	// Each is the list of which the step runs once for every element, nil when it runs once.
	Each *EachFlow
	// When tells where an optional step runs, nil for one that always does.
	When *Guard
}

// Guard is a test of one place in the result of the step before.
type Guard struct {
	Pointer string
	Test    GuardTest
	Value   any  // GuardEquals, GuardAtLeast
	Not     bool // the step runs where the test fails
	Taken   int  // examined occurrences with the step
	// Evidence: Held is how often the guard told rightly whether the step was there, Distinct how many values were seen at
	// the place, Chance how often the more frequent of the two would be right.
	Evidence Evidence
}

// GuardTest is what a Guard asks of the place.
type GuardTest string

const (
	GuardFilled  GuardTest = "filled" // it is there, and not null, false, 0 or empty
	GuardEquals  GuardTest = "equals"
	GuardAtLeast GuardTest = "at_least"
)

// EachFlow is the source of a list: an output, or an input of the flow.
type EachFlow struct {
	Kind     SourceKind // SourceOutput or SourceInput
	Step     int        // SourceOutput: the producing step
	Pointer  string     // SourceOutput: the list in its result
	Input    string     // SourceInput
	Evidence Evidence   // over lists: Held is how often all elements were used, in their order
	// Fewer is how often agents stopped before the end of the list: the flow makes more calls then.
	Fewer int
}

// SourceKind says where an argument's value comes from.
type SourceKind string

const (
	SourceOutput SourceKind = "output" // JSON pointer into an earlier step's result
	SourceArg    SourceKind = "arg"    // an earlier step's argument
	SourceConst  SourceKind = "const"
	SourceInput  SourceKind = "input" // knowable before the first step: a flow input
	// SourceElement: the current element of the step's list, or the place in it that Pointer names.
	SourceElement SourceKind = "element"
	// SourceDerived: computed from earlier values, as Derived says.
	SourceDerived SourceKind = "derived"
	SourceChoice  SourceKind = "choice" // chosen by the model among inner results: cuts the flow, so that a Pattern has none
)

// ArgFlow is the accepted source of one argument and the evidence for it.
type ArgFlow struct {
	Arg      string
	Presence float64 // share of sampled occurrences that have the argument; in a Batch, of the tool's calls in all of them
	Kind     SourceKind
	Step     int // SourceOutput, SourceArg: the producing step
	// SourceOutput: pointer into the result ("" = the whole); SourceArg: the argument's name; SourceInput: place in an input
	// that is an object, SourceElement: in the element.
	Pointer string
	// Only is set for a copy that is taken only where the list that it points to has this one element; elsewhere the flow
	// hands back before the step. It is the pointer to the list, in the same result.
	Only     *string
	Value    any    // SourceConst
	Input    string // SourceInput, and where Given is set or Derived asks: name of the flow input
	Given    bool   // callers give the value where they know it; the source is for those who do not
	Derived  *Derived
	Evidence Evidence
}

// Derived is a value computed from earlier ones.
type Derived struct {
	Form DerivedForm
	// Parts: texts and places in their order for FormTemplate; what the field is compared with for FormSelect, none where it
	// Asks; places and values for FormBuilt; a place and what is between the elements for FormJoin and FormSplit; the object and
	// the key for FormMember, no key where it Asks; one place for all others.
	Parts []Part
	// FormSelect: the first element of the list at List in the result of Step whose Field equals the part; Take is what is
	// taken of it. Field and Take are pointers in the element. FormLast, FormColumn, FormJoin, FormMember: Take is the same of
	// the last element, of each element, and of the member, "" for all of it.
	Step              int
	List, Field, Take string
	// Asks: FormSelect compares a text, and FormMember the keys, in any case, with an input of the flow, the ArgFlow's. A run that is not given it hands
	// back before the step.
	Asks bool `json:",omitempty"`
	// FormPart: what is after the first (Last: the last) After, or from the start where it is "", and before the next of both.
	After, Before string
	Last          bool
	// FormBuilt: the value, with the index of a part in place of each leaf.
	Shape any
}

// DerivedForm says how a value is computed.
type DerivedForm string

const (
	FormText     DerivedForm = "text"     // a number as text
	FormNumber   DerivedForm = "number"   // text as a whole number
	FormDecimal  DerivedForm = "decimal"  // text as a number with a fraction
	FormTemplate DerivedForm = "template" // texts around values
	FormSelect   DerivedForm = "select"   // a field of the list's element that another field tells
	FormPart     DerivedForm = "part"     // a part of a text between delimiters
	FormBuilt    DerivedForm = "built"    // an object or a list of copies and constants
	FormLast     DerivedForm = "last"     // the last element of a list
	FormSize     DerivedForm = "size"     // the number of elements of a list
	FormColumn   DerivedForm = "column"   // one place of each element of a list
	FormJoin     DerivedForm = "join"     // the elements of a list, texts or whole numbers, as one text
	FormSplit    DerivedForm = "split"    // a text as the list of its parts
	FormMember   DerivedForm = "member"   // the member of an object that an earlier argument names
	FormOnlyKey  DerivedForm = "only_key" // the key of an object that has one; of others the flow hands back
	FormLower    DerivedForm = "lower"    // a text with its ASCII letters small
	FormUpper    DerivedForm = "upper"    // and large
	FormTrim     DerivedForm = "trim"     // a text without the blanks around it
)

// Part is a fixed text, or a place: a pointer into the result of a step, or an argument of one. Those of FormBuilt are
// places, or values.
type Part struct {
	Text    string
	Value   any
	Place   bool
	Step    int
	Pointer string
	Arg     string // "" for a place in the result
}

// Evidence lets a reviewer check a mapping.
type Evidence struct {
	Present  int // sampled occurrences with the argument
	Held     int // of these, how often the source reproduced the recorded value exactly
	Distinct int // distinct values seen
	// Chance is the rate at which the source equals the argument across mismatched sessions.
	Chance float64
	// Ambiguous is set when another source explains the same values and the data cannot tell them apart.
	Ambiguous     bool
	Supporting    []string // up to three session ids
	Contradicting []string // up to three session ids
	Note          string   // one sentence for people, "" when there is nothing to say
}

// Input is one input of the flow, with where callers got its value in the recorded sessions.
type Input struct {
	Name     string
	Step     int // first step that uses it
	Arg      string
	List     bool   // a list of values of the argument, or of Calls
	Calls    bool   // an object with the arguments of a call; Arg is ""
	Origin   string // "user text", "earlier result", "first step", "whole calls"
	Examples []any  // a few, never secrets
	// ExampleSessions are the sessions that the examples are from, so that they can go with them.
	ExampleSessions []string
	Required        bool
}

// Blocked says why a frequent path is not proposed.
type Blocked struct {
	Tools       []string
	Occurrences int
	Sessions    int
	Reason      string // choice, branch, support, not_significant, not_steady, not_sampled, errors, redundant, no_values, no_saving
	Step        int    // the step whose argument or continuation blocks; -1 when none
	Arg         string // for choice: the argument
	Detail      string // one sentence: what blocks
	Unblock     string // what would unblock it; "" where nothing needs to
}
