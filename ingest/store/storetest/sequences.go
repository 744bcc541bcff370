package storetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/ingest"
	"pave/ingest/store"
)

func testSequences(t *testing.T, s suite) {
	s.each(t, map[string]func(*testing.T, store.Store){
		"every field comes back, in a stable order": func(t *testing.T, st store.Store) {
			want := []NamedRun{
				{SessionID: "s1", NamedSequence: store.NamedSequence{
					RunIndex: 0, Agent: "main", Start: At(1), Tools: []string{"a", "b", "a"}, Turns: []int32{0, 0, 5},
					Flags: []ingest.CallFlag{ingest.FlagBreak, ingest.FlagParallel | ingest.FlagError, ingest.FlagNotAgent},
				}},
				{SessionID: "s1", NamedSequence: store.NamedSequence{
					RunIndex: 1, Agent: "", Start: At(2), Tools: []string{"c"}, Turns: []int32{-1}, Flags: []ingest.CallFlag{255},
				}},
				{SessionID: "s2", NamedSequence: store.NamedSequence{
					RunIndex: 0, Agent: "other", Tools: []string{"b", "d"}, Turns: []int32{1 << 30, -1 << 31}, Flags: []ingest.CallFlag{1, 0},
				}},
			}
			rows := []store.SessionRow{row("s1", 0, 1, "x"), row("s2", 0, 1, "x")}
			rows[0].Sequences = []store.NamedSequence{want[0].NamedSequence, want[1].NamedSequence}
			rows[1].Sequences = []store.NamedSequence{want[2].NamedSequence}
			require.NoError(t, st.PutSessions(t.Context(), tenant, rows))
			got := sequencesOf(t, st, tenant, store.SequenceFilter{})
			require.ElementsMatch(t, want, got)
			require.Equal(t, got, sequencesOf(t, st, tenant, store.SequenceFilter{}))
		},
		"the filter": func(t *testing.T, st store.Store) {
			rows := []store.SessionRow{row("a", 0, 10, "x"), row("b", 0, 20, "x"), row("c", 0, 30, "x"), row("none", 0, 0, "x")}
			rows[1].Sequences[0].Agent = "planner"
			require.NoError(t, st.PutSessions(t.Context(), tenant, rows))
			for _, c := range []struct {
				filter store.SequenceFilter
				want   []string
			}{
				{store.SequenceFilter{}, []string{"a", "b", "c", "none"}},
				{store.SequenceFilter{From: At(20)}, []string{"b", "c"}},
				{store.SequenceFilter{To: At(20)}, []string{"a"}},
				{store.SequenceFilter{From: At(10), To: At(30)}, []string{"a", "b"}},
				{store.SequenceFilter{From: At(20).Add(time.Nanosecond)}, []string{"c"}},
				{store.SequenceFilter{Agent: "planner"}, []string{"b"}},
				{store.SequenceFilter{Agent: "planner", From: At(21)}, nil},
				{store.SequenceFilter{From: At(30), To: At(10)}, nil},
			} {
				var got []string
				for _, r := range sequencesOf(t, st, tenant, c.filter) {
					got = append(got, r.SessionID)
				}
				require.ElementsMatch(t, c.want, got, "%+v", c.filter)
			}
		},
		"a session is replaced whole": func(t *testing.T, st store.Store) {
			two := row("s", 0, 1, "a", "b")
			two.Sequences = append(two.Sequences, store.NamedSequence{
				RunIndex: 1, Start: At(2), Tools: []string{"c"}, Turns: []int32{0}, Flags: []ingest.CallFlag{0},
			})
			require.NoError(t, st.PutSessions(t.Context(), tenant, []store.SessionRow{two, row("r", 0, 1, "a")}))
			require.Len(t, sequencesOf(t, st, tenant, store.SequenceFilter{}), 3)
			require.NoError(t, st.PutSessions(t.Context(), tenant, []store.SessionRow{row("s", 0, 5, "d", "a")}))
			got := map[string][]string{}
			for _, r := range sequencesOf(t, st, tenant, store.SequenceFilter{}) {
				require.NotContains(t, got, r.SessionID)
				got[r.SessionID] = r.Tools
			}
			require.Equal(t, map[string][]string{"s": {"d", "a"}, "r": {"a"}}, got)
			require.Empty(t, sequencesOf(t, st, tenant, store.SequenceFilter{To: At(1)}))
		},
		"the same session twice in one call: the last counts": func(t *testing.T, st store.Store) {
			require.NoError(t, st.PutSessions(t.Context(), tenant, []store.SessionRow{row("s", 0, 1, "a"), row("s", 0, 1, "b", "c")}))
			seqs := sequencesOf(t, st, tenant, store.SequenceFilter{})
			require.Len(t, seqs, 1)
			require.Equal(t, []string{"b", "c"}, seqs[0].Tools)
		},
		"the dictionary only grows": func(t *testing.T, st store.Store) {
			names, err := st.ToolNames(t.Context(), tenant)
			require.NoError(t, err)
			require.Empty(t, names)
			for round := range 4 {
				var tools []string
				for i := range 40 {
					tools = append(tools, fmt.Sprintf("tool %d", round*20+i))
				}
				require.NoError(t, st.PutSessions(t.Context(), tenant, []store.SessionRow{row("s", 0, 1, tools...)}))
				require.Equal(t, tools, sequencesOf(t, st, tenant, store.SequenceFilter{})[0].Tools)
				grown, err := st.ToolNames(t.Context(), tenant)
				require.NoError(t, err)
				require.GreaterOrEqual(t, len(grown), len(names))
				require.True(t, slices.Equal(names, grown[:len(names)]), "ids keep their names")
				seen := map[string]bool{}
				for _, name := range grown {
					require.False(t, seen[name], name)
					seen[name] = true
				}
				names = grown
			}
		},
		"many and long": func(t *testing.T, st store.Store) {
			var rows []store.SessionRow
			total := 0
			for i := range 500 {
				r := row(fmt.Sprintf("s%d", i), 0, i+1, "a")
				n := 1 + i%7
				if i == 250 {
					n = 20_000
				}
				seq := &r.Sequences[0]
				seq.Tools, seq.Turns, seq.Flags = nil, nil, nil
				for k := range n {
					seq.Tools = append(seq.Tools, fmt.Sprintf("t%d", (i*31+k)%300))
					seq.Turns = append(seq.Turns, int32(k/2))
					seq.Flags = append(seq.Flags, ingest.CallFlag(k%64))
				}
				total += n
				rows = append(rows, r)
			}
			require.NoError(t, st.PutSessions(t.Context(), tenant, rows))
			got := map[string]store.NamedSequence{}
			for _, r := range sequencesOf(t, st, tenant, store.SequenceFilter{}) {
				got[r.SessionID] = r.NamedSequence
				total -= len(r.Tools)
			}
			require.Zero(t, total)
			for _, r := range rows {
				require.Equal(t, r.Sequences[0], got[r.ID])
			}
		},
		"stops at the error of fn": func(t *testing.T, st store.Store) {
			require.NoError(t, st.PutSessions(t.Context(), tenant, []store.SessionRow{row("s", 0, 1, "a"), row("r", 0, 1, "a")}))
			stop, calls := errors.New("stop"), 0
			require.ErrorIs(t, st.Sequences(t.Context(), tenant, store.SequenceFilter{}, func(*ingest.Sequence) error {
				calls++
				return stop
			}), stop)
			require.Equal(t, 1, calls)
		},
	})
}
