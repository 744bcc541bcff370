package storetest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"pave/ingest"
	"pave/ingest/store"
)

// testConcurrency lets writers, an assembler and readers work at once, then looks at the rest.
func testConcurrency(t *testing.T, s suite) {
	st := s.fresh(t)
	const writers, batches, size = 4, 12, 25
	var wrote, done errgroup.Group
	for w := range writers {
		wrote.Go(func() error {
			for b := range batches {
				var events []ingest.Event
				for i := range size {
					n := b*size + i
					session := ""
					if w%2 == 0 {
						session = fmt.Sprintf("s%d", n%3)
					}
					// One origin of all writers, one of its own.
					events = append(events, named(ToolCall("trace:shared", "", n), w), named(ToolCall(fmt.Sprint("trace:", w), session, n), w))
				}
				if err := st.Append(t.Context(), tenant, events); err != nil {
					return err
				}
			}
			return nil
		})
	}
	stop := make(chan struct{})
	for _, work := range []func() error{
		func() error { return assemble(t.Context(), st, tenant) },
		func() error {
			if err := st.Sequences(t.Context(), tenant, store.SequenceFilter{}, func(*ingest.Sequence) error { return nil }); err != nil {
				return err
			}
			_, err := st.Sessions(t.Context(), tenant, store.SessionFilter{Limit: 3})
			return err
		},
		func() error {
			_, err := st.Stats(t.Context(), tenant)
			return err
		},
	} {
		done.Go(func() error {
			for {
				select {
				case <-stop:
					return nil
				default:
				}
				if err := work(); err != nil {
					return err
				}
			}
		})
	}
	require.NoError(t, wrote.Wait())
	close(stop)
	require.NoError(t, done.Wait())
	mustAssemble(t, st)
	require.Empty(t, dirtyIDs(t, st))

	shared := identities(eventsOf(t, st, tenant, "trace:shared")["trace:shared"])
	require.Len(t, shared, writers*batches*size)
	for w := range writers {
		var own []string
		for n := range batches * size {
			own = append(own, fmt.Sprintf("w%d/trace:shared/%d", w, n))
		}
		require.True(t, isSubsequence(own, shared), "the order of writer %d", w)
	}
	calls := 0
	for _, r := range sequencesOf(t, st, tenant, store.SequenceFilter{}) {
		calls += len(r.Tools)
		if r.SessionID == "trace:shared" {
			require.Len(t, r.Tools, writers*batches*size)
		}
	}
	// The origins of the two writers with session ids are shared by three sessions each, all of which read them.
	require.Equal(t, writers*batches*size+2*batches*size+3*2*batches*size, calls)
}

func named(e ingest.Event, writer int) ingest.Event {
	e.Identity = fmt.Sprintf("w%d/%s", writer, e.Identity)
	return e
}
