package observer

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"pave/ingest"
)

func TestWhatLooksPersonal(t *testing.T) {
	for _, c := range []struct {
		name string
		v    any
		want bool
	}{
		{"city", "Oslo", false},
		{"status", "delivered", false},
		{"day", "2026-11-30", false},
		{"at", "2026-11-30 12:30:00", false},
		{"limit", int64(25), false},
		{"", nil, false},
		{"to", "ann@example.com", true},
		{"phone", "+47 22 33 44 55", true},
		{"note", "call 555-123-4567 now", true},
		{"password", "hunter2", true},
		{"api_key", "x", true},
		{"header", "Bearer abc", true},
		{"q", "token=ghp_abcdefghijklmnopqrstuvwxyz0123456789", true},
		{"id", "0123456789abcdef0123456789abcdef", true},
		{"list", []any{"a", "ann@example.com"}, true},
		{"user", map[string]any{"name": "x", "password": "hunter2"}, true},
		{"user", map[string]any{"name": "x"}, false},
		{"card", "4111 1111 1111 1111", true},
		{"to", "ann@münchen.example", true},
		{"account", "pay DE89370400440532013000", true},
		{"account", "GB82 WEST 1234 5698 7654 32", true},
	} {
		require.Equal(t, c.want, isPersonal(c.name, c.v), "%s %v", c.name, c.v)
	}
}

// constantOf mines sessions in which the second argument of use is always the same value.
func constantOf(t *testing.T, n int, value string, agent func(i int) string) ArgFlow {
	t.Helper()
	return argOf(t, "mode", many(n, func(i int) ingest.Session {
		s := findUse(i, j(`{"hit":"h-%d"}`, i), j(`{"hit":"h-%d","mode":%s}`, i, value))
		s.Runs[0].Agent = agent(i)
		return s
	}))
}

func TestConstantsNeedSeveralAgentsWhereTheyAreKnown(t *testing.T) {
	one := func(int) string { return "desk" }
	unknown := func(int) string { return "" }
	two := func(i int) string { return []string{"desk", "shop"}[i%2] }
	require.Equal(t, SourceConst, constantOf(t, 12, `"quick"`, one).Kind, "no other agent is known")
	require.Equal(t, SourceConst, constantOf(t, 12, `"quick"`, unknown).Kind)
	require.Equal(t, SourceConst, constantOf(t, 12, `"quick"`, two).Kind)
	// 24 of 25 are one agent's and equal; the other agent gives another value.
	sessions := many(25, func(i int) ingest.Session {
		mode, agent := "quick", "desk"
		if i == 7 {
			mode, agent = "slow", "shop"
		}
		s := findUse(i, j(`{"hit":"h-%d"}`, i), j(`{"hit":"h-%d","mode":%q}`, i, mode))
		s.Runs[0].Agent = agent
		return s
	})
	for _, p := range mine(t, Options{}, sessions...).Patterns {
		for _, step := range p.DataFlow.Steps {
			for _, a := range step.Args {
				require.False(t, a.Arg == "mode" && a.Kind == SourceConst, "what one agent always gives is no constant")
			}
		}
	}
}

// A value that fewer than five sessions or three agents have is shown nowhere as a constant.
func TestConstantsNeedFiveSessionsAndThreeAgents(t *testing.T) {
	unknown := func(int) string { return "" }
	require.Equal(t, SourceConst, constantOf(t, 5, `"quick"`, unknown).Kind)
	constants := func(n int, agent func(i int) string, mode func(i int) string) (found []string) {
		sessions := many(n, func(i int) ingest.Session {
			s := findUse(i, j(`{"hit":"h-%d"}`, i), j(`{"hit":"h-%d","mode":%q}`, i, mode(i)))
			s.Runs[0].Agent = agent(i)
			return s
		})
		for _, p := range mine(t, Options{Exactness: -1}, sessions...).Patterns {
			for _, step := range p.DataFlow.Steps {
				for _, a := range step.Args {
					if a.Kind == SourceConst {
						found = append(found, fmt.Sprint(a.Value))
					}
				}
			}
		}
		return found
	}
	quick := func(int) string { return "quick" }
	require.Empty(t, constants(4, unknown, quick), "four sessions")
	agents := func(i int) string { return []string{"desk", "shop", "yard"}[i%3] }
	require.Contains(t, constants(12, agents, quick), "quick")
	twoOfThree := func(i int) string { return []string{"quick", "quick", "slow-" + string(rune('a'+i))}[i%3] }
	require.NotContains(t, constants(24, agents, twoOfThree), "quick", "two of the three agents that give the argument")
}

// Neither a constant nor an example of an input tells what looks personal or secret.
func TestResultsHoldNothingPersonal(t *testing.T) {
	one := func(int) string { return "desk" }
	for _, value := range []string{`"ann@example.com"`, `"Bearer abcdef"`, `{"password":"hunter2"}`} {
		sessions := many(12, func(i int) ingest.Session {
			s := findUse(i, j(`{"hit":"h-%d"}`, i), j(`{"hit":"h-%d","mode":%s}`, i, value))
			s.Runs[0].Agent = one(i)
			return s
		})
		for _, p := range mine(t, Options{}, sessions...).Patterns {
			for _, step := range p.DataFlow.Steps {
				for _, a := range step.Args {
					require.NotEqual(t, SourceConst, a.Kind, "%s", value)
				}
			}
			for _, in := range p.DataFlow.Inputs {
				for _, example := range in.Examples {
					require.False(t, isPersonal(in.Arg, example), "%v", example)
				}
			}
		}
	}
}
