package observer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/ingest"
	"pave/ingest/store"
)

// TestNullModel has 100 stretches "a b c" and 100 "a d". a goes on in all of its 200 cases, to b and to d with P = 1/2,
// so a > b is charged max(follows(b), min(1/2, 1/2)) = 1/2 of 200. b always goes on to c: the habit is charged
// min(1, 0) but not less than c's share of all followers, 100 of 300.
func TestNullModel(t *testing.T) {
	sessions := many(200, func(i int) ingest.Session {
		return sessionOf(id(i), []string{"a b c", "a d"}[i%2])
	})
	log := logOf(t, NewMemory(sessions))
	table := count(log, 16, 3)
	model := newNull(log, table)
	expected := func(tools ...string) float64 {
		tokens, ok := tokensOf(log, tools)
		require.True(t, ok)
		return model.expected(tokens)
	}
	require.InDelta(t, 100, expected("a", "b"), 1e-9)
	require.InDelta(t, 100.0/3, expected("b", "c"), 1e-9)
	require.InDelta(t, 100.0/3, expected("a", "b", "c"), 1e-9)

	all := map[string]path{}
	for _, p := range measure(table, model, 0.2, 0.01, false) {
		var tools []string
		for _, tok := range p.tokens {
			tools = append(tools, log.tools[tok])
		}
		all[arrow(tools)] = p
	}
	require.Len(t, all, 4)
	abc := all["a > b > c"]
	require.Equal(t, 100, abc.occ)
	require.InDelta(t, 66.67, abc.excess, 0.01)
	require.InDelta(t, 133.33, abc.score, 0.01)
	require.InDelta(t, 11.547, abc.z, 0.001)
	require.True(t, abc.closed)
	require.True(t, abc.significant)
	require.False(t, all["a > b"].closed, "a > b > c has all of its occurrences")
	require.False(t, all["b > c"].closed)
	require.False(t, all["a > d"].significant)
}

func TestDeltaClosedness(t *testing.T) {
	// a > b goes on with c in 7 of 10 cases: 7 < 0.8 x 10, so a > b is closed at 0.2 and not at 0.4.
	log := logOf(t, NewMemory(many(10, func(i int) ingest.Session {
		if i < 7 {
			return sessionOf(id(i), "a b c")
		}
		return sessionOf(id(i), "a b")
	})))
	table := count(log, 16, 3)
	closed := func(delta float64) (out []int) {
		for _, p := range measure(table, newNull(log, table), delta, 0.01, false) {
			if p.closed {
				out = append(out, p.level)
			}
		}
		return out
	}
	require.Equal(t, []int{2, 3}, closed(0.2))
	require.Equal(t, []int{3}, closed(0.4))
}

// TestUnservedPathIsExplained: all five orders are read in their order in 30 sessions, a single one in 60: the long
// path is a flow, and for the rest people see what is chosen.
func TestUnservedPathIsExplained(t *testing.T) {
	sessions := many(90, func(i int) ingest.Session {
		steps := []step{{tool: "details", args: j(`{"user":"u-%d"}`, i), result: j(`{"orders":["o-%d-0","o-%d-1","o-%d-2"]}`, i, i, i)}}
		read := []int{0, 1, 2}
		if i%3 != 0 {
			read = []int{i % 4 % 3}
		}
		for _, o := range read {
			steps = append(steps, step{tool: "order", args: j(`{"order":"o-%d-%d"}`, i, o), result: j(`{"total":"t-%d-%d"}`, i, o)})
		}
		return talk(id(i), j("I am u-%d", i), steps...)
	})
	r := mine(t, Options{}, sessions...)
	p := r.pattern("details > order > order > order")
	require.NotNil(t, p)
	require.Equal(t, 30, p.Occurrences)
	require.Equal(t, "/orders/2", p.DataFlow.Steps[3].Args[0].Pointer)
	b := r.blockedPath("details > order")
	require.NotNil(t, b)
	require.Equal(t, "choice", b.Reason)
	require.Equal(t, "order", b.Arg)
	require.Equal(t, 90, b.Occurrences)
}

// TestBranchIsNamed: after a come b, c and d alike, with nothing that links them. Callers know what each needs, so a
// flow could still make both calls at once.
func TestBranchIsNamed(t *testing.T) {
	r := mine(t, Options{}, many(90, func(i int) ingest.Session {
		return talk(id(i), j("in-%d next-%d", i, i), step{tool: "a", args: j(`{"x":"in-%d"}`, i), result: `{}`},
			step{tool: []string{"b", "c", "d"}[i%3], args: j(`{"y":"next-%d"}`, i), result: `{}`})
	})...)
	require.Len(t, r.Patterns, 6)
	for i, p := range r.Patterns {
		require.Len(t, p.DataFlow.Inputs, 2)
		require.Equal(t, []bool{i >= 3, i < 3}, []bool{p.Batch != nil, p.Secondary}, "a batch of each is better")
	}
	b := r.blockedPath("a > b")
	require.Equal(t, "branch", b.Reason)
	require.Equal(t, 1, b.Step)
	require.Contains(t, b.Detail, "only 33 %")
}

// TestBranchThatValuesProve is the same with a value that each second step takes from the first: three flows.
func TestBranchThatValuesProve(t *testing.T) {
	r := mine(t, Options{}, many(90, func(i int) ingest.Session {
		return talk(id(i), j("in-%d", i), step{tool: "a", args: j(`{"x":"in-%d"}`, i), result: j(`{"z":"z-%d"}`, i)},
			step{tool: []string{"b", "c", "d"}[i%3], args: j(`{"y":"z-%d"}`, i), result: `{}`})
	})...)
	require.Len(t, r.Patterns, 3)
	for _, p := range r.Patterns {
		require.Equal(t, 30, p.Occurrences)
		require.Equal(t, 30, p.DataFlow.Explained)
	}
}

func TestResultDoesNotDependOnOrder(t *testing.T) {
	sessions := many(120, func(i int) ingest.Session {
		return talk(id(i), j("I am u-%d", i), step{tool: "details", args: j(`{"user":"u-%d"}`, i), result: j(`{"orders":["o-%d-0","o-%d-1"]}`, i, i)},
			step{tool: "order", args: j(`{"order":"o-%d-%d"}`, i, i%2), result: j(`{"total":"t-%d"}`, i)},
			step{tool: "refund", args: j(`{"amount":"t-%d"}`, i), result: `{}`},
			step{tool: []string{"note", "mail"}[i%2], args: j(`{"text":"A refund was made for user %d."}`, i), result: `{}`})
	})
	want := mine(t, Options{MaxSamples: 50}, sessions...)
	require.NotEmpty(t, want.Patterns)
	require.NotEmpty(t, want.Blocked)
	r := rand.New(rand.NewPCG(1, 2))
	for range 5 {
		r.Shuffle(len(sessions), func(a, b int) { sessions[a], sessions[b] = sessions[b], sessions[a] })
		require.Equal(t, want, mine(t, Options{MaxSamples: 50}, slices.Clone(sessions)...))
	}
}

func TestLimits(t *testing.T) {
	sessions := many(60, func(i int) ingest.Session {
		return findUse(i, j(`{"a_pad":[%s],"key":"k-%d"}`, manyNumbers(50), i), j(`{"key":"k-%d"}`, i))
	})
	r := mine(t, Options{MaxSamples: 10, MaxLeaves: 20, MaxExamples: 4}, sessions...)
	require.Nil(t, r.pattern("find > use"))
	require.Equal(t, "key", r.blockedPath("find > use").Arg, "the field lies beyond the limit")
	r = mine(t, Options{MaxSamples: 10, MaxExamples: 4}, sessions...)
	p := r.pattern("find > use")
	require.Equal(t, 10, p.DataFlow.Sampled)
	require.Len(t, p.Examples, 4)
}

func manyNumbers(n int) string {
	s := "0"
	for i := range n - 1 {
		s += fmt.Sprint(",", i+1)
	}
	return s
}

func TestCountOnly(t *testing.T) {
	src := NewMemory(many(10, func(i int) ingest.Session { return findUse(i, j(`{"key":"k-%d"}`, i), j(`{"key":"k-%d"}`, i)) }))
	r, err := Mine(context.Background(), brokenSource{src, "sessions"}, Options{MaxEvaluated: -1})
	require.NoError(t, err, "no session is read")
	require.Empty(t, r.Patterns)
	require.Equal(t, []int{0, 2, 1}, r.Counted)
}

func TestPerSessionVotes(t *testing.T) {
	sessions := many(5, func(i int) ingest.Session { return findUse(i, j(`{"key":"k-%d"}`, i), j(`{"key":"k-%d"}`, i)) })
	var steps []step
	for n := range 40 {
		steps = append(steps, step{tool: "find", args: j(`{"q":"x-%d"}`, n), result: j(`{"key":"x-%d"}`, n)}, step{tool: "use", args: `{"key":"odd"}`, result: `{}`})
	}
	r := mine(t, Options{}, append(sessions, talk("loop", "", steps...))...)
	for _, c := range []string{"find > use", "find > use > find > use"} {
		if p := r.pattern(c); p != nil {
			require.LessOrEqual(t, p.DataFlow.Sampled, 7)
			return
		}
	}
	b := r.blockedPath("find > use")
	require.NotNil(t, b)
	require.Contains(t, b.Detail, "of 7 occurrences", "five sessions and two votes of the loop")
}

func TestMemoryFilters(t *testing.T) {
	day := func(d int) time.Time { return time.Date(2026, 1, d, 12, 0, 0, 0, time.UTC) }
	a, b, c := sessionOf("a", "x y"), sessionOf("b", "x z"), sessionOf("c", "w")
	a.Runs[0].Calls[0].Start, b.Runs[0].Calls[0].Start = day(1), day(2)
	b.Runs[0].Agent = "other"
	src := NewMemory([]ingest.Session{a, b, c})
	read := func(f store.SequenceFilter) (ids []string) {
		require.NoError(t, src.Sequences(context.Background(), f, func(s *ingest.Sequence) error {
			ids = append(ids, s.SessionID)
			return nil
		}))
		return ids
	}
	require.Equal(t, []string{"a", "b", "c"}, read(store.SequenceFilter{}))
	require.Equal(t, []string{"b"}, read(store.SequenceFilter{Agent: "other"}))
	require.Equal(t, []string{"b"}, read(store.SequenceFilter{From: day(2)}))
	require.Equal(t, []string{"a"}, read(store.SequenceFilter{To: day(2)}))
	r, err := Mine(context.Background(), src, Options{Filter: store.SequenceFilter{From: day(1)}})
	require.NoError(t, err)
	require.Equal(t, 2, r.Sessions)
	require.Equal(t, day(1), r.From)
}

// brokenSource fails in the method that is named.
type brokenSource struct {
	*Memory
	broken string
}

var errBroken = errors.New("broken")

func (b brokenSource) Sequences(ctx context.Context, f store.SequenceFilter, fn func(*ingest.Sequence) error) error {
	if b.broken == "sequences" {
		return errBroken
	}
	return b.Memory.Sequences(ctx, f, fn)
}

func (b brokenSource) ToolNames(ctx context.Context) ([]string, error) {
	switch b.broken {
	case "names":
		return nil, errBroken
	case "too few names":
		return []string{"find"}, nil
	}
	return b.Memory.ToolNames(ctx)
}

func (b brokenSource) Sessions(ctx context.Context, ids []string, fn func(*ingest.Session) error) error {
	switch b.broken {
	case "sessions":
		return errBroken
	case "sessions gone":
		return nil
	case "sessions shrunk":
		return fn(&ingest.Session{ID: ids[0], Runs: []ingest.AgentRun{{}}})
	}
	return b.Memory.Sessions(ctx, ids, fn)
}

func TestBrokenSources(t *testing.T) {
	src := NewMemory(many(10, func(i int) ingest.Session { return findUse(i, j(`{"key":"k-%d"}`, i), j(`{"key":"k-%d"}`, i)) }))
	for _, broken := range []string{"sequences", "names", "sessions"} {
		_, err := Mine(context.Background(), brokenSource{src, broken}, Options{})
		require.ErrorIs(t, err, errBroken, broken)
	}
	_, err := Mine(context.Background(), brokenSource{src, "too few names"}, Options{})
	require.ErrorContains(t, err, "tool 1 of 1")
	for _, broken := range []string{"sessions gone", "sessions shrunk"} {
		r, err := Mine(context.Background(), brokenSource{src, broken}, Options{})
		require.NoError(t, err)
		require.Equal(t, "no_values", r.blockedPath("find > use").Reason)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = Mine(ctx, src, Options{})
	require.ErrorIs(t, err, context.Canceled)
	empty, err := Mine(context.Background(), NewMemory(nil), Options{})
	require.NoError(t, err)
	require.Empty(t, empty.Patterns)
}

// FuzzMine mines sessions whose values are any bytes: nothing panics, and every mapping that is found holds.
func FuzzMine(f *testing.F) {
	f.Add([]byte(`{"q":"a"}`), []byte(`{"key":"k"}`), []byte(`{"key":"k"}`))
	f.Add([]byte(`null`), []byte(`[[[{"a":1e400}]]]`), []byte(`{"":[1,2,{}]}`))
	f.Add([]byte(`{"a":-0.0,"b":9007199254740993}`), []byte(`"\ud800"`), []byte(`{"a":{"b":[]},"b":9007199254740993.0}`))
	f.Add([]byte(``), []byte(`{`), []byte(`[1]`))
	f.Fuzz(func(t *testing.T, first, result, second []byte) {
		r := mine(t, Options{}, many(4, func(i int) ingest.Session {
			return talk(id(i), string(first), step{tool: "find", args: string(first), result: string(result)}, step{tool: "use", args: string(second), result: string(result)})
		})...)
		for _, p := range r.Patterns {
			require.Equal(t, p.DataFlow.Sampled, p.DataFlow.Explained, "all sessions are equal")
		}
	})
}
