package sqlite

import (
	"database/sql"
	"fmt"
	"hash/fnv"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/stretchr/testify/require"

	"pave/ingest"
	"pave/ingest/store"
	"pave/ingest/store/storetest"
)

func count(t *testing.T, s *Store, table string) (n int) {
	t.Helper()
	require.NoError(t, s.read.QueryRowContext(t.Context(), "SELECT count(*) FROM "+table).Scan(&n))
	return n
}

func TestOriginOfASessionTakesNoRows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	s := openAt(t, path, Options{})
	var want []ingest.Event
	add := func(e ingest.Event) {
		require.NoError(t, s.Append(t.Context(), tenant, []ingest.Event{e}))
		want = append(want, e)
	}
	add(storetest.ToolCall("session:s", "s", 1))
	require.NoError(t, s.Append(t.Context(), tenant, []ingest.Event{storetest.ToolCall("session:t", "t", 2)}))
	require.NoError(t, s.Close())
	s = openAt(t, path, Options{})
	add(storetest.ToolCall("session:s", "s", 3))
	add(storetest.Span("session:s", "", 4))
	require.Equal(t, want, eventsOf(t, s, "s"))
	require.Equal(t, 2, count(t, s, "names"))
	require.Equal(t, 0, count(t, s, "bindings"))
	require.Len(t, eventsOf(t, s, "t"), 1)
	require.Empty(t, eventsOf(t, s, "session:s"))
}

// model is what a store of events has to answer, as its contract says it.
type model struct {
	events  []ingest.Event
	bound   map[string][]string
	touched map[string]bool
}

func (m *model) append(batch []ingest.Event) {
	for _, e := range batch {
		if e.SessionID == "" || slices.Contains(m.bound[e.Origin], e.SessionID) {
			continue
		}
		before := slices.ContainsFunc(m.events, func(old ingest.Event) bool { return old.Origin == e.Origin })
		if len(m.bound[e.Origin]) == 0 && before {
			m.touched[e.Origin] = true // was its own session until now
		}
		m.bound[e.Origin] = append(m.bound[e.Origin], e.SessionID)
	}
	m.events = append(m.events, batch...)
	for _, e := range batch {
		for _, session := range m.sessions(e.Origin) {
			m.touched[session] = true
		}
	}
}

func (m *model) sessions(origin string) []string {
	if len(m.bound[origin]) == 0 {
		return []string{origin}
	}
	return m.bound[origin]
}

func (m *model) of(session string) (out []ingest.Event) {
	for _, e := range m.events {
		if slices.Contains(m.sessions(e.Origin), session) {
			out = append(out, e)
		}
	}
	return out
}

// Origins that look like sessions, sessions that look like origins, names known before or after, with all that the writer
// remembers or with nothing of it.
func TestOriginsAndSessionsOfAnyNames(t *testing.T) {
	names := []string{"a", "b", "session:a", "session:b", "session:session:a", "trace:x", "session:trace:x", "session:"}
	random := rand.New(rand.NewPCG(3, 9))
	pick := func() string { return names[random.IntN(len(names))] }
	for round := range 40 {
		path := filepath.Join(t.TempDir(), "events.db")
		s := openAt(t, path, Options{})
		m := model{bound: map[string][]string{}, touched: map[string]bool{}}
		for step := range 12 {
			var batch []ingest.Event
			for range 1 + random.IntN(3) {
				session := ""
				if random.IntN(3) > 0 {
					session = pick()
				}
				origin := pick()
				if session != "" && random.IntN(2) == 0 {
					origin = sessionOrigin + session
				}
				batch = append(batch, storetest.ToolCall(origin, session, 10*step+len(batch)))
			}
			require.NoError(t, s.Append(t.Context(), tenant, batch))
			m.append(batch)
			switch random.IntN(4) {
			case 0:
				require.NoError(t, s.Close())
				s = openAt(t, path, Options{})
			case 1:
				s.w.origins.clear()
			case 2:
				require.NoError(t, s.PutSessions(t.Context(), tenant, []store.SessionRow{{ID: pick()}}), "names without events")
			}
		}
		all := append([]string{"session:session:b", "session:session:session:a", "session:session:trace:x", "session:session:"}, names...)
		for _, name := range all {
			require.Equal(t, m.of(name), eventsOf(t, s, name), "round %d, session %s", round, name)
		}
		dirty, err := s.Dirty(t.Context(), tenant, time.Time{}, 100)
		require.NoError(t, err)
		for _, d := range dirty {
			require.True(t, m.touched[d.ID], d.ID)
		}
		require.Len(t, dirty, len(m.touched), "round %d", round)
		require.NoError(t, s.Close())
	}
}

// oldHash is names.hash of schema version 2: 64 bits of FNV-1a.
func oldHash(name string) int64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return int64(h.Sum64())
}

// oldDatabase makes a file as the programs of schema version 1 to 3 left it: sessions s0, s1 and s2 of one event each, the
// last without a start.
func oldDatabase(t *testing.T, path string, version int64) (events []ingest.Event) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	files, err := fs.Sub(migrations, "migrations")
	require.NoError(t, err)
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, files, goose.WithDisableGlobalRegistry(true))
	require.NoError(t, err)
	_, err = provider.UpTo(t.Context(), version)
	require.NoError(t, err)
	exec := func(query string, args ...any) {
		_, err := db.ExecContext(t.Context(), query, args...)
		require.NoError(t, err, query)
	}
	exec("INSERT INTO tenants (id, name, events, tool_call_events, sessions, tool_calls) VALUES (1, ?, 3, 3, 3, 3)", tenant)
	exec("INSERT INTO words (tenant, kind, id, word) VALUES (1, 0, 0, 'find'), (1, 1, 0, 'main'), (1, 2, 0, 'json')")
	w := newBlockWriter()
	for i := range 3 {
		e := storetest.ToolCall(fmt.Sprint("session:s", i), fmt.Sprint("s", i), i)
		events = append(events, e)
		w.add(&e)
	}
	head, payload := w.finish()
	exec("INSERT INTO blocks (id, received, events, head, payload) VALUES (1, ?, 3, ?, ?)", nanos(storetest.At(2)), head, payload)
	for i, e := range events {
		origin, session := 2*i+1, 2*i+2
		exec("INSERT INTO names (id, tenant, hash, name) VALUES (?, 1, ?, ?), (?, 1, ?, ?)",
			origin, oldHash(e.Origin), e.Origin, session, oldHash(e.SessionID), e.SessionID)
		exec("INSERT INTO bindings VALUES (?, ?)", origin, session)
		exec("INSERT INTO segments VALUES (?, ?, 0, 1, ?)", i+1, origin, appendPlace(nil, 0, uint64(i)))
		exec("INSERT INTO heads VALUES (?, ?)", origin, i+1)
		start := storetest.At(i)
		if i == 2 {
			start = time.Time{}
		}
		sum := encoder{b: []byte{summaryFull}}
		sum.time(start, 0)
		sum.time(storetest.At(9), 0)
		for n := range int64(numSummaryNumbers) {
			sum.int(n)
		}
		sum.float(0.5)
		sum.uint(1)
		sum.uint(0)
		exec("INSERT INTO sessions VALUES (?, 1, ?, ?, 1, 0, ?, ?, ?)", session, e.SessionID, nanos(start), wordSet([]uint32{0}), wordSet([]uint32{0}), sum.b)
		seq := encoder{b: []byte{sequenceFull, 0}}
		seq.time(start, 0)
		seq.b = append(seq.b, 1, 0, 14, 3) // one call: tool 0, turn 7, flags 3
		exec("INSERT INTO sequences VALUES (1, ?, 0, ?, ?)", session, nanos(start), seq.b)
	}
	return events
}

func TestFilesOfTheSchemasBeforeAreRead(t *testing.T) {
	for version := range int64(3) {
		t.Run(fmt.Sprint("version ", version+1), func(t *testing.T) { readOld(t, version+1) })
	}
}

func readOld(t *testing.T, version int64) {
	path := filepath.Join(t.TempDir(), "events.db")
	events := oldDatabase(t, path, version)
	s := openAt(t, path, Options{})
	for i := range events {
		require.Equal(t, events[i:i+1], eventsOf(t, s, fmt.Sprint("s", i)))
	}
	check := func() {
		page, err := s.Sessions(t.Context(), tenant, store.SessionFilter{Limit: 2})
		require.NoError(t, err)
		rest, err := s.Sessions(t.Context(), tenant, store.SessionFilter{Cursor: page.Next})
		require.NoError(t, err)
		items := append(page.Items, rest.Items...)
		require.Len(t, items, 3)
		for i, id := range []string{"s1", "s0", "s2"} {
			start := []time.Time{storetest.At(1), storetest.At(0), {}}[i]
			require.Equal(t, ingest.SessionSummary{
				ID: id, Agents: []string{"main"}, Start: start, End: storetest.At(9), ToolCalls: 1, Repeats: 1, UserTurns: 2, Conflicts: 3,
				Sources: []string{"json"}, LLM: ingest.LLMUsage{
					InputTokens: 4, OutputTokens: 5, CachedTokens: 6, CallsWithTokens: 7, CallsWithCost: 8, Duration: 9, CallsWithDuration: 10, CostUSD: 0.5,
				},
			}, items[i])
		}
	}
	check()
	n := 0
	require.NoError(t, s.Sequences(t.Context(), tenant, store.SequenceFilter{}, func(seq *ingest.Sequence) error {
		start := []time.Time{storetest.At(0), storetest.At(1), {}}[n]
		require.Equal(t, &ingest.Sequence{
			SessionID: fmt.Sprint("s", n), Agent: "main", Start: start, Tools: []uint32{0}, Turns: []int32{7}, Flags: []ingest.CallFlag{3},
		}, seq)
		n++
		return nil
	}))
	require.Equal(t, 3, n)

	// It goes on with the names that it has, and with new ones.
	more := storetest.ToolCall("session:s1", "s1", 10)
	fresh := storetest.ToolCall("session:s3", "s3", 11)
	require.NoError(t, s.Append(t.Context(), tenant, []ingest.Event{more, fresh}))
	require.Equal(t, []ingest.Event{events[1], more}, eventsOf(t, s, "s1"))
	require.Equal(t, []ingest.Event{fresh}, eventsOf(t, s, "s3"))
	require.Equal(t, 7, count(t, s, "names"))
	check()
}

// The nameless origin of a session may be bound to others: deleting one of them leaves the events of the others.
func TestDeletionAtTheOriginOfASession(t *testing.T) {
	x, y, z := storetest.ToolCall("session:x", "x", 1), storetest.ToolCall("session:x", "y", 2), storetest.ToolCall("session:z", "z", 3)
	for _, c := range []struct {
		delete string
		left   map[string][]ingest.Event // no other session has events
	}{
		{"x", map[string][]ingest.Event{"y": {y}, "z": {z}}},
		{"y", map[string][]ingest.Event{"x": {x}, "z": {z}}},
		{"z", map[string][]ingest.Event{"x": {x, y}, "y": {x, y}}},
	} {
		path := filepath.Join(t.TempDir(), "events.db")
		s := openAt(t, path, Options{})
		require.NoError(t, s.Append(t.Context(), tenant, []ingest.Event{x, y, z}))
		deleted, err := s.Delete(t.Context(), tenant, []string{c.delete})
		require.NoError(t, err)
		require.Equal(t, store.Deleted{Sessions: 1, Events: 1, ToolCalls: 1}, deleted, c.delete)
		for _, id := range []string{"x", "y", "z", "session:x", "session:z"} {
			require.Equal(t, c.left[id], eventsOf(t, s, id), "%s without %s", id, c.delete)
		}
		// A deleted session may come again, and has only what came since.
		again := storetest.ToolCall(sessionOrigin+c.delete, c.delete, 4)
		require.NoError(t, s.Append(t.Context(), tenant, []ingest.Event{again}))
		require.Equal(t, []ingest.Event{again}, eventsOf(t, s, c.delete))
		require.NoError(t, s.Close())
		s = openAt(t, path, Options{})
		require.Equal(t, []ingest.Event{again}, eventsOf(t, s, c.delete))
		for id, events := range c.left {
			require.Equal(t, events, eventsOf(t, s, id), "%s after %s came again", id, c.delete)
		}
	}
}
