package observer

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"pave/ingest"
)

// sessionOf builds a session without values from words: a tool's name with marks. Before the name: | starts a stretch, = repeats the
// call before, & is parallel to it, ~ is not the agent's. After it: ! failed.
func sessionOf(id, words string) ingest.Session {
	run := ingest.AgentRun{Agent: "agent"}
	turn := int32(-1)
	for i, word := range strings.Fields(words) {
		call := ingest.Call{Seq: i, ToolCall: ingest.ToolCall{Status: ingest.StatusOK}}
		if i == 0 {
			call.Flags |= ingest.FlagBreak
		}
		name := strings.TrimLeft(word, "|=&~")
		for _, mark := range word[:len(word)-len(name)] {
			call.Flags |= map[rune]ingest.CallFlag{'|': ingest.FlagBreak, '=': ingest.FlagRepeat, '&': ingest.FlagParallel, '~': ingest.FlagNotAgent}[mark]
		}
		if strings.HasSuffix(name, "!") {
			name = strings.TrimSuffix(name, "!")
			call.Flags |= ingest.FlagError
			call.Status = ingest.StatusError
		}
		if call.Flags&ingest.FlagParallel == 0 {
			turn++
		}
		call.Turn, call.Tool = turn, name
		run.Calls = append(run.Calls, call)
	}
	return ingest.Session{ID: id, Runs: []ingest.AgentRun{run}}
}

func logOf(t testing.TB, src Source) *calls {
	t.Helper()
	ctx := context.Background()
	raw, err := readSequences(ctx, src, Options{MaxCalls: math.MaxInt})
	if err != nil {
		t.Fatal(err)
	}
	names, err := src.ToolNames(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return normalise(raw, names, nil)
}

// written is the log's stretches as words: each call is its tool and its position, failed calls end with !.
func written(log *calls) []string {
	var out []string
	for s := range log.stretches() {
		var words []string
		for i := log.starts[s]; i < log.starts[s+1]; i++ {
			word := fmt.Sprint(log.tools[log.tok[i]], log.pos[i])
			if log.failed[i] {
				word += "!"
			}
			words = append(words, word)
		}
		out = append(out, strings.Join(words, " "))
	}
	return out
}

// step is a call with values, as JSON; same is set when the turn is that of the call before.
type step struct {
	tool, args, result string
	same               bool
	failed             bool
}

// talk builds a session: what the user said, then the calls.
func talk(id, user string, steps ...step) ingest.Session {
	run := ingest.AgentRun{Agent: "agent", Users: []ingest.UserTurn{{Before: 0, Text: user}}}
	turn := int32(-1)
	for i, s := range steps {
		call := ingest.Call{Seq: i, ToolCall: ingest.ToolCall{Tool: s.tool, Status: ingest.StatusOK}}
		if s.args != "" {
			call.Args = json.RawMessage(s.args)
		}
		if s.result != "" {
			call.Result = json.RawMessage(s.result)
		}
		switch {
		case i == 0:
			call.Flags = ingest.FlagBreak
		case s.same:
			call.Flags = ingest.FlagParallel
		}
		if s.failed {
			call.Flags |= ingest.FlagError
			call.Status = ingest.StatusError
		}
		if !s.same {
			turn++
		}
		call.Turn = turn
		run.Calls = append(run.Calls, call)
	}
	return ingest.Session{ID: id, Runs: []ingest.AgentRun{run}}
}

// mine mines sessions with values.
func mine(t testing.TB, options Options, sessions ...ingest.Session) *Result {
	t.Helper()
	r, err := Mine(context.Background(), NewMemory(sessions), options)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// pattern finds the pattern with these tools.
func (r *Result) pattern(tools string) *Pattern {
	for i := range r.Patterns {
		if arrow(r.Patterns[i].Tools) == tools {
			return &r.Patterns[i]
		}
	}
	return nil
}

func (r *Result) blockedPath(tools string) *Blocked {
	for i := range r.Blocked {
		if arrow(r.Blocked[i].Tools) == tools {
			return &r.Blocked[i]
		}
	}
	return nil
}
