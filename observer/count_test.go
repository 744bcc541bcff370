package observer

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pave/ingest"
)

// tallyOf is a count as the definition says, for comparison.
type tallyOf struct{ occ, sessions, windows int }

// countByDefinition looks at every window of every stretch.
func countByDefinition(log *calls, maxLen, minSessions int) map[string]tallyOf {
	out := map[string]tallyOf{}
	seen := map[string]map[uint32]bool{}
	for s := range log.stretches() {
		stretch := log.tok[log.starts[s]:log.starts[s+1]]
		for n := 1; n <= maxLen; n++ {
			free := map[string]int{}
			for i := 0; i+n <= len(stretch); i++ {
				key := fmt.Sprint(stretch[i : i+n])
				t := out[key]
				t.windows++
				if i >= free[key] {
					t.occ++
					free[key] = i + n
				}
				if seen[key] == nil {
					seen[key] = map[uint32]bool{}
				}
				seen[key][log.session(uint32(s))] = true
				t.sessions = len(seen[key])
				out[key] = t
			}
		}
	}
	for key, t := range out {
		if t.sessions < minSessions {
			delete(out, key)
		}
	}
	return out
}

func counted(table *gramTable) map[string]tallyOf {
	out := map[string]tallyOf{}
	for n := 1; n < len(table.levels); n++ {
		for id := 1; id < len(table.levels[n]); id++ {
			g := table.levels[n][id]
			out[fmt.Sprint(table.tokens(n, uint32(id)))] = tallyOf{int(g.occ), int(g.sessions), int(g.windows)}
		}
	}
	return out
}

func TestCountEqualsDefinition(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 1))
		var sessions []ingest.Session
		for s := range 12 {
			var words []string
			for range 2 + r.IntN(30) {
				word := string(rune('a' + r.IntN(2+int(seed)%5)))
				if r.IntN(8) == 0 {
					word = "|" + word
				}
				words = append(words, word)
			}
			sessions = append(sessions, sessionOf(fmt.Sprintf("s%02d", s), strings.Join(words, " ")))
		}
		log := logOf(t, NewMemory(sessions))
		require.Equal(t, countByDefinition(log, 16, 3), counted(count(log, 16, 3)), "seed %d", seed)
	}
}

func TestCountByHand(t *testing.T) {
	log := logOf(t, NewMemory([]ingest.Session{sessionOf("s1", "a a a a b"), sessionOf("s2", "a a |b a b"), sessionOf("s3", "a b")}))
	table := count(log, 3, 2)
	got := counted(table)
	a, b := 0, 1
	require.Equal(t, tallyOf{8, 3, 8}, got[fmt.Sprint([]int{a})])
	require.Equal(t, tallyOf{3, 2, 4}, got[fmt.Sprint([]int{a, a})], "aaaa holds two without overlap")
	require.Equal(t, tallyOf{3, 3, 3}, got[fmt.Sprint([]int{a, b})])
	require.NotContains(t, got, fmt.Sprint([]int{a, a, a}), "one session only")
	require.NotContains(t, got, fmt.Sprint([]int{b, a}), "one session only; the break hides another")
	require.Len(t, got, 4)
}

func TestCountManyTools(t *testing.T) {
	const tools = 100_000
	r := rand.New(rand.NewPCG(1, 1))
	var sessions []ingest.Session
	for s := range 4000 {
		words := make([]string, 0, 60)
		for range 40 {
			words = append(words, fmt.Sprintf("t%06d", r.IntN(tools)))
		}
		words = append(words, "find", "read", "close")
		sessions = append(sessions, sessionOf(fmt.Sprintf("s%05d", s), strings.Join(words, " ")))
	}
	result := mine(t, Options{}, sessions...)
	require.Greater(t, len(NewMemory(sessions).names), 1<<16)
	require.Nil(t, result.Patterns, "no values were recorded")
	b := result.blockedPath("find > read > close")
	require.NotNil(t, b)
	require.Equal(t, "no_values", b.Reason)
	require.Equal(t, 4000, b.Occurrences)
}

func TestOneSessionOfEqualCalls(t *testing.T) {
	const n = 1_000_000
	run := ingest.AgentRun{Calls: make([]ingest.Call, n)}
	for i := range run.Calls {
		run.Calls[i] = ingest.Call{Seq: i, Turn: int32(i), ToolCall: ingest.ToolCall{Tool: "poll", Args: []byte(`{}`), Result: []byte(`{"done":false}`)}}
	}
	run.Calls[0].Flags = ingest.FlagBreak
	sessions := []ingest.Session{{ID: "loop", Runs: []ingest.AgentRun{run}}}
	for i := range 10 {
		id := fmt.Sprintf("id-%d", i)
		sessions = append(sessions, talk(fmt.Sprintf("s%d", i), "look at "+id,
			step{tool: "find", args: `{"q":"` + id + `"}`, result: `{"key":"k` + id + `"}`},
			step{tool: "read", args: `{"key":"k` + id + `"}`, result: `{}`},
			step{tool: "poll", args: `{}`, result: `{}`}, step{tool: "poll", args: `{}`, result: `{}`}))
	}
	result := mine(t, Options{}, sessions...)
	p := result.pattern("find > read > poll > poll")
	require.NotNil(t, p, "the loop does not hide what others do")
	require.Equal(t, 10, p.Occurrences)
	require.Equal(t, "/key", p.DataFlow.Steps[1].Args[0].Pointer)
	require.LessOrEqual(t, len(result.Counted), 17)
}
