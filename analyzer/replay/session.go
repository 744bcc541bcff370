package replay

import (
	"slices"
	"strings"

	"pave/flows/value"
	"pave/ingest"
)

// Session is a recorded session made ready to be scored: stretches with folded repeats and retries, and everything
// that was said and returned, by position. It is read-only once made and safe for concurrent use.
type Session struct {
	ID string
	// LLMCalls is the denominator: the session's model calls less the turns that held nothing but repeats.
	LLMCalls int
	// RecordedLLMCalls are the model calls before folding, RepeatTurns the difference: a saving of its own.
	RecordedLLMCalls, RepeatTurns int
	Calls                         int // kept calls
	// Recorded is what the model calls used, as far as it is known.
	Recorded Usage

	used      []Usage // wave -> of the model call that issued it
	stretches [][]call
	known     *history
}

// call is one kept call of a stretch.
type call struct {
	tool   string
	args   map[string]any
	result any
	failed bool
	wave   int // assistant turns of the session, counted: equal = issued by one turn
	at     int // position among all recorded calls of the session
	asked  int // position of the first call of its turn: what is before it was there when the turn was made
	answer int // position of the call whose result this is: a repeat may have had the better one
}

// NewSession normalises an assembled session. Within a stretch, exact repeats become one call at the turn of the
// first with the last result that is no error, a failed call that a success of the same tool follows within two calls
// is dropped, and the calls of one turn are ordered by tool. Steps of flow runs and calls of flows are left out.
func NewSession(s *ingest.Session) *Session {
	out := &Session{ID: s.ID, known: newHistory(s)}
	f := folder{}
	turns, llm := 0, 0
	for r := range s.Runs {
		run := &s.Runs[r]
		for i := range run.LLM {
			u := usageOf(&run.LLM[i])
			llm += u.Calls
			out.Recorded.Add(&u)
		}
		f.meter = newMeter(run)
		for i := range run.Calls {
			f.add(&run.Calls[i])
		}
		f.cut()
	}
	turns = f.wave
	out.stretches, out.used = f.stretches, f.used
	for _, stretch := range out.stretches {
		out.Calls += len(stretch)
	}
	for wave := 1; wave <= turns; wave++ {
		if f.held[wave] == 0 {
			out.RepeatTurns++
		}
	}
	out.RecordedLLMCalls = max(llm, turns) // each turn with calls took one, be it recorded or not
	out.LLMCalls = max(0, out.RecordedLLMCalls-out.RepeatTurns)
	return out
}

// folder builds the stretches of a session call by call.
type folder struct {
	stretches [][]call
	current   []call
	wave      int // turns so far; waves count from 1
	at        int
	asked     int   // where the current turn begins
	held      []int // wave -> calls that are no repeats
	meter     *meter
	used      []Usage // wave -> of its model call
	turn      int32
	open      bool // the next call may belong to the current turn
}

func (f *folder) add(c *ingest.Call) {
	defer func() { f.at++ }()
	if c.Flags&ingest.FlagNotAgent != 0 {
		f.cut()
		return
	}
	if c.Flags&ingest.FlagBreak != 0 {
		f.cut()
	}
	if !f.open || c.Turn != f.turn {
		f.wave++
		f.turn, f.open, f.asked = c.Turn, true, f.at
	}
	for len(f.held) <= f.wave {
		f.held, f.used = append(f.held, 0), append(f.used, f.meter.turn(c.Turn))
	}
	kept := call{tool: c.Tool, failed: c.Flags&ingest.FlagError != 0, wave: f.wave, at: f.at, asked: f.asked, answer: f.at, result: decode(c.Result)}
	kept.args, _ = decode(c.Args).(map[string]any)
	if n := len(f.current); n > 0 && c.Flags&ingest.FlagRepeat != 0 && f.current[n-1].tool == c.Tool {
		if before := &f.current[n-1]; !kept.failed || before.failed {
			before.result, before.failed, before.answer = kept.result, kept.failed, f.at
		}
		return
	}
	f.held[f.wave]++
	f.current = append(f.current, kept)
}

// cut ends the current stretch.
func (f *folder) cut() {
	f.open = false
	if len(f.current) == 0 {
		return
	}
	kept := foldRetries(f.current)
	slices.SortStableFunc(kept, func(a, b call) int {
		if a.wave != b.wave {
			return a.wave - b.wave
		}
		return strings.Compare(a.tool, b.tool)
	})
	f.stretches = append(f.stretches, kept)
	f.current = nil
}

func foldRetries(stretch []call) []call {
	var kept []call // in reverse order
	for _, c := range slices.Backward(stretch) {
		if c.failed && madeGood(c.tool, kept) {
			continue
		}
		kept = append(kept, c)
	}
	slices.Reverse(kept)
	return kept
}

// madeGood reports whether one of the next two calls, which are the last of later, is a success of the tool.
func madeGood(tool string, later []call) bool {
	for _, c := range later[max(0, len(later)-2):] {
		if c.tool == tool && !c.failed {
			return true
		}
	}
	return false
}

// decode reads a recorded value; nil when there is none or it is no JSON.
func decode(raw []byte) any {
	if len(raw) == 0 {
		return nil
	}
	v, err := value.Decode(raw)
	if err != nil {
		return nil
	}
	return v
}

// turns counts the distinct assistant turns of neighbouring calls.
func turns(calls []call) int {
	n := 0
	for i := range calls {
		if i == 0 || calls[i].wave != calls[i-1].wave {
			n++
		}
	}
	return n
}
