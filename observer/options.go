package observer

import (
	"math"
	"time"

	"pave/ingest/store"
)

// Options of a mining pass. A zero field means its default, which is in parentheses; the defaults are applied in one
// place, withDefaults.
type Options struct {
	Filter store.SequenceFilter // which sequences are read (all)
	// MaxCalls bounds the calls read, and with them memory (20,000,000, about 600 MB): of more, the sequences that began
	// last are taken.
	MaxCalls int
	// SkipTools are left out as if they had not been called: tools that agents call anywhere, such as a note to themselves.
	SkipTools []string
	// Since has the tools that changed in a way that what was recorded before says nothing of them now, and when. Their calls
	// in sequences that began before are not mined, and end stretches: the old tool and the new one are two.
	Since map[string]time.Time
	// Until is a time that no session can have begun after, such as now (none): a sequence that says so is from a clock that is
	// wrong and counts as one without a time. Else its week would be the last one, in which no path is a habit.
	Until time.Time
	// SkipNoise looks for more of these, and mines without them too where there are any; the better result is returned.
	SkipNoise bool

	// Counting.
	MaxLength   int     // longest pattern in steps (16)
	MinSessions int     // distinct sessions that a pattern needs at least (3)
	MinShare    float64 // and the share of all sessions read (0.001)

	// Strength and selection.
	Delta        float64 // drop what an extension by one step has in all but this share of the occurrences (0.2)
	FDR          float64 // false discovery rate of the tests against the null model, per length (0.01)
	MaxEvaluated int     // patterns whose data flow is examined (500; 1,500 where at most 5,000 sessions are read); negative for none: count only
	MaxPatterns  int     // patterns returned (200)
	MinGain      float64 // model calls that a flow must save in all sessions read beyond better ones: less is not worth a review (1); negative for 0
	MaxBlocked   int     // blocked paths returned (100)
	// SampleSessions: of more sessions (50,000) about so many are looked at, or as many more as the rarest paths need; all
	// are counted. A negative one always looks at all.
	SampleSessions int

	// Data flow.
	MaxSamples int     // occurrences of a pattern examined (200)
	PerSession int     // of these at most from one session (2)
	MaxLeaves  int     // values read of one result, and calls of a loop that is looked at (2,000)
	MinHeld    float64 // Wilson lower bound of a source's rate, for 22 or more occurrences; fewer must all hold (0.85)
	// Exactness is the share of its predictions in which a mapping must be right on sessions that it was not found in
	// (0.97). A negative one proposes sources that explain only a part of the occurrences, too.
	Exactness    float64
	MinExact     float64 // share of occurrences in which a source must be right (0.95)
	MinSure      float64 // the same where an input would do as well, or where the source is one element of a list (0.97)
	MinElse      float64 // share of the occurrences unknown to callers in which a source must be right that callers can overrule (0.95)
	MinKnowable  float64 // share of occurrences in which an input's value must have been knowable, else it is a choice (0.8)
	ChanceLevel  float64 // significance of a source against chance, shared among the sources tried (0.001)
	ConstSession int     // distinct sessions that a constant needs (5)
	ConstAgents  int     // and distinct agents, where as many are known to give the argument (3)
	MaxExamples  int     // occurrences returned per pattern (30)

	// Effects reports whether a tool may change something. In a path with such a tool a source that misses once is none,
	// and values that callers know are inputs, but for what MinAlways lets stand: a wrong argument there does harm. nil:
	// nothing is known to.
	Effects func(tool string) bool
	// MinAlways is in how many distinct sessions a constant, or on how many different values a copy must have held without
	// exception for a path with such a tool not to ask callers who know the value (22).
	MinAlways int

	// Progress is called now and then from the goroutine of Mine; nil is none.
	Progress func(Progress)
}

// Progress says how far a pass is: Done of Total units of the stage.
type Progress struct {
	Stage       string // "count", "data flow"
	Done, Total int
}

// withSessions sets what depends on how many sessions are read: of a few, all that they tell; of many, what a sample
// tells, since reading sessions is what a pass spends its time on.
func (o Options) withSessions(n int) Options {
	many := n > manySessions
	if o.MaxSamples <= 0 && many {
		o.MaxSamples = 64
	}
	if o.MaxEvaluated == 0 && !many {
		o.MaxEvaluated = 1500
	}
	setInt(&o.MaxSamples, 200)
	if o.MaxEvaluated == 0 {
		o.MaxEvaluated = 500
	}
	return o
}

// minSessions is how many distinct sessions a path needs among n.
func (o Options) minSessions(n int) uint32 {
	return uint32(max(o.MinSessions, int(math.Ceil(o.MinShare*float64(n)))))
}

func setInt(field *int, value int) {
	if *field <= 0 {
		*field = value
	}
}

const manySessions = 5_000

func (o Options) withDefaults() Options {
	setShare := func(field *float64, value float64) {
		if *field <= 0 {
			*field = value
		}
	}
	setInt(&o.MaxCalls, 20_000_000)
	setInt(&o.MaxLength, 16)
	setInt(&o.MinSessions, 3)
	setShare(&o.MinShare, 0.001)
	setShare(&o.Delta, 0.2)
	setShare(&o.FDR, 0.01)
	setInt(&o.MaxPatterns, 200)
	if o.MinGain == 0 {
		o.MinGain = 1
	}
	setInt(&o.MaxBlocked, 100)
	if o.SampleSessions == 0 {
		o.SampleSessions = 50_000
	}
	setInt(&o.PerSession, 2)
	setInt(&o.MaxLeaves, 2000)
	setShare(&o.MinHeld, 0.85)
	if o.Exactness == 0 {
		o.Exactness = 0.97
	}
	setShare(&o.MinExact, 0.95)
	setShare(&o.MinSure, 0.97)
	setShare(&o.MinElse, 0.95)
	setShare(&o.MinKnowable, 0.8)
	setShare(&o.ChanceLevel, 0.001)
	setInt(&o.ConstSession, 5)
	setInt(&o.ConstAgents, 3)
	setInt(&o.MinAlways, smallSample)
	setInt(&o.MaxExamples, 30)
	if o.Effects == nil {
		o.Effects = func(string) bool { return false }
	}
	if o.Progress == nil {
		o.Progress = func(Progress) {}
	}
	return o
}
