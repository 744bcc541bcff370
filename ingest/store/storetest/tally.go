package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/ingest/store"
)

// onDay is a session that started on a day, its first call an hour before midnight of the next.
func onDay(id string, day int32, tools ...string) store.SessionRow {
	r := row(id, 0, 0, tools...)
	if day != store.NoDay {
		r.Summary.Start = store.DayStart(day).Add(time.Hour)
		r.Sequences[0].Start = store.DayStart(day).Add(23 * time.Hour)
	}
	return r
}

func daysOf(t *testing.T, st store.Store, tenant string) map[int32]string {
	t.Helper()
	list, err := st.Days(t.Context(), tenant)
	require.NoError(t, err)
	require.True(t, slices.IsSortedFunc(list, func(a, b store.Day) int { return int(int64(a.Day) - int64(b.Day)) }))
	days := map[int32]string{}
	for _, d := range list {
		days[d.Day] = d.Version
	}
	return days
}

// changed are the days whose version differs, or that are in one only.
func changed(before, after map[int32]string) (days []int32) {
	for day, version := range after {
		if before[day] != version {
			days = append(days, day)
		}
	}
	for day := range before {
		if _, ok := after[day]; !ok {
			days = append(days, day)
		}
	}
	slices.Sort(days)
	return days
}

func testTallies(t *testing.T, s suite) {
	s.each(t, map[string]func(*testing.T, store.Store){
		"days and what changes them": func(t *testing.T, st store.Store) {
			at := daysOf(t, st, tenant)
			require.Empty(t, at)
			for _, c := range []struct {
				what string
				rows []store.SessionRow
				want []int32
			}{
				{"sessions come", []store.SessionRow{onDay("a", 20000, "x"), onDay("b", 20000, "x"), onDay("c", 20001, "x"), onDay("none", store.NoDay, "x")},
					[]int32{store.NoDay, 20000, 20001}},
				{"before 1970", []store.SessionRow{onDay("old", -3, "x")}, []int32{-3}},
				{"one is assembled anew", []store.SessionRow{onDay("b", 20000, "x", "y")}, []int32{20000}},
				{"one is assembled anew and is the same", []store.SessionRow{onDay("b", 20000, "x", "y")}, []int32{20000}},
				{"one moves", []store.SessionRow{onDay("c", 20002, "x")}, []int32{20001, 20002}},
				{"one gets a time", []store.SessionRow{onDay("none", 20000, "x")}, []int32{store.NoDay, 20000}},
				{"one goes", []store.SessionRow{{ID: "a"}}, []int32{20000}},
				{"nothing that was not there goes", []store.SessionRow{{ID: "nobody"}}, nil},
			} {
				require.NoError(t, st.PutSessions(t.Context(), tenant, c.rows), c.what)
				now := daysOf(t, st, tenant)
				require.Equal(t, c.want, changed(at, now), c.what)
				at = now
			}
			require.Empty(t, daysOf(t, st, "somebody else"))
			require.Len(t, at, 3)
		},
		"the sequences of a day": func(t *testing.T, st store.Store) {
			long := onDay("long", 20000, "x") // its second run is of the next day
			long.Sequences = append(long.Sequences, onDay("", 20001, "y").Sequences[0])
			long.Sequences[1].RunIndex = 1
			require.NoError(t, st.PutSessions(t.Context(), tenant, []store.SessionRow{
				long, onDay("b", 20001, "x"), onDay("none", store.NoDay, "x"), onDay("old", -1, "x")}))
			for day, want := range map[int32][]string{20000: {"long", "long"}, 20001: {"b"}, store.NoDay: {"none"}, -1: {"old"}, 5: nil} {
				var got []string
				for _, r := range sequencesOf(t, st, tenant, store.SequenceFilter{OfDay: &day}) {
					got = append(got, r.SessionID)
				}
				require.Equal(t, want, got, day)
			}
			for _, c := range []struct {
				of, to int32
				want   []string
			}{{-1, 20000, []string{"long", "long", "old"}}, {20000, 20001, []string{"b", "long", "long"}}, {store.NoDay, -1, []string{"none", "old"}},
				{20001, 20000, nil}, {store.NoDay, store.NoDay, []string{"none"}}} {
				var got []string
				for _, r := range sequencesOf(t, st, tenant, store.SequenceFilter{OfDay: &c.of, ToDay: &c.to}) {
					got = append(got, r.SessionID)
				}
				slices.Sort(got)
				require.Equal(t, c.want, got, "%d to %d", c.of, c.to)
			}
		},
		"a tally is replaced by days or as a whole": func(t *testing.T, st store.Store) {
			read := func() store.Tally {
				got, err := st.Tally(t.Context(), tenant)
				require.NoError(t, err)
				return got
			}
			put := func(tally store.Tally) { require.NoError(t, st.PutTally(t.Context(), tenant, tally)) }
			require.Equal(t, store.Tally{}, read())
			day := func(n int32, version, counts string) store.DayTally {
				return store.DayTally{Day: n, Version: version, Counts: []byte(counts)}
			}
			first := store.Tally{Set: []byte("set\x00one"), Days: []store.DayTally{day(store.NoDay, "7", "none"), day(-2, "1", "a"), day(20000, "2", "\x00\xff")}}
			put(first)
			require.Equal(t, first, read())
			put(store.Tally{Days: []store.DayTally{day(20000, "3", "b"), day(20001, "1", "c")}})
			require.Equal(t, store.Tally{Set: first.Set, Days: []store.DayTally{first.Days[0], first.Days[1], day(20000, "3", "b"), day(20001, "1", "c")}}, read())
			second := store.Tally{Set: []byte("two"), Days: []store.DayTally{day(20001, "4", "d")}}
			put(second)
			require.Equal(t, second, read())
			put(store.Tally{})
			require.Equal(t, second, read())
			other, err := st.Tally(t.Context(), "somebody else")
			require.NoError(t, err)
			require.Equal(t, store.Tally{}, other)
		},
	})
}
