package observer

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"pave/ingest"
)

// noisy are sessions of three routines, in each of which a note is made anywhere with the given probability. carry makes
// the note pass a value on.
func noisy(n int, share float64, carry bool) []ingest.Session {
	r := rand.New(rand.NewPCG(7, 7))
	routines := [][]string{{"find", "read", "close"}, {"search", "open", "rate"}, {"list", "pick", "send"}}
	var sessions []ingest.Session
	for i := range n {
		id := fmt.Sprintf("s%04d", i)
		var steps []step
		for k, tool := range routines[i%len(routines)] {
			if k > 0 && r.Float64() < share {
				note := step{tool: "think", args: fmt.Sprintf(`{"thought":"step %d of %s, go on"}`, k, id), result: `{}`}
				if carry {
					note.result = fmt.Sprintf(`{"key":"k%d%s"}`, k-1, id)
				}
				steps = append(steps, note)
			}
			args := fmt.Sprintf(`{"key":"k%d%s"}`, k-1, id)
			if k == 0 {
				args = fmt.Sprintf(`{"q":%q}`, id)
			}
			steps = append(steps, step{tool: tool, args: args, result: fmt.Sprintf(`{"key":"k%d%s"}`, k, id)})
		}
		sessions = append(sessions, talk(id, "look at "+id, steps...))
	}
	return sessions
}

func TestNoiseToolIsFoundAndSkipped(t *testing.T) {
	sessions := noisy(300, 0.4, false)
	plain := mine(t, Options{}, sessions...)
	require.Empty(t, plain.Noise, "not asked for")
	quiet := mine(t, Options{SkipNoise: true}, sessions...)
	require.Len(t, quiet.Noise, 1)
	require.Equal(t, "think", quiet.Noise[0].Tool)
	require.True(t, quiet.Noise[0].Skipped)
	require.GreaterOrEqual(t, quiet.Noise[0].Dependence, noiseKeeps*quiet.Noise[0].Without)
	p := quiet.pattern("find > read > close")
	require.NotNil(t, p)
	require.Equal(t, 100, p.Occurrences, "all that is there, with a note in between or not")
	require.Less(t, plain.pattern("find > read > close").Occurrences, 60)
	require.Equal(t, "/key", p.DataFlow.Steps[2].Args[0].Pointer)
	require.Greater(t, worth(quiet), worth(plain))
	require.Equal(t, countTool(sessions, "think"), quiet.SkippedCalls)
}

func countTool(sessions []ingest.Session, tool string) (n int) {
	for _, s := range sessions {
		for _, c := range s.Runs[0].Calls {
			if c.Tool == tool {
				n++
			}
		}
	}
	return n
}

func TestToolsThatCarryValuesOrTellAreNoNoise(t *testing.T) {
	require.Empty(t, mine(t, Options{SkipNoise: true}, noisy(300, 0.4, true)...).Noise, "a value passes through it")
	require.Empty(t, mine(t, Options{SkipNoise: true}, noisy(300, 0, false)...).Noise, "each tool tells what follows")
}

func TestSkippedToolsBySetting(t *testing.T) {
	r := mine(t, Options{SkipTools: []string{"think", "never called"}}, noisy(300, 0.4, false)...)
	require.Equal(t, 100, r.pattern("find > read > close").Occurrences)
	require.Positive(t, r.SkippedCalls)
}
