package sqlite

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/ingest"
	"pave/ingest/store"
	"pave/ingest/store/storetest"
)

func TestTimesAreExact(t *testing.T) {
	for _, want := range []time.Time{
		{}, time.Unix(0, 0).UTC(), time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC),
		time.Date(-5000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 3, 1, 9, 0, 0, 123, time.UTC),
	} {
		for _, base := range []int64{0, 1_772_000_000, math.MaxInt64, math.MinInt64} {
			var e encoder
			e.time(want, base)
			d := decoder{b: e.b}
			require.Equal(t, want, d.time(base))
			require.NoError(t, d.err)
			require.Empty(t, d.b)
		}
	}
}

func TestColumnTimesKeepTheOrder(t *testing.T) {
	ascending := []time.Time{
		{}, time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC), time.Date(1678, 1, 1, 0, 0, 0, 0, time.UTC), time.Unix(0, -1), time.Unix(0, 0),
		time.Date(2261, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	for i, at := range ascending[1:] {
		require.Less(t, nanos(ascending[i]), nanos(at))
	}
	require.True(t, instant(nanos(time.Time{})).IsZero())
	at := time.Date(2026, 3, 1, 9, 0, 0, 123, time.UTC)
	require.Equal(t, at, instant(nanos(at)))
}

func TestWordSet(t *testing.T) {
	ids := []uint32{0, 1, 127, 128, 1<<14 - 1, 1 << 14, maxWords - 1}
	require.Equal(t, ids, members(wordSet(ids)))
	// No id is found at the seam of two others.
	for _, a := range ids {
		for _, b := range ids {
			set := wordSet([]uint32{a, b})
			for _, c := range ids {
				require.Equal(t, c == a || c == b, bytes.Contains(set, appendToSet(nil, c)), "%d in %d %d", c, a, b)
			}
		}
	}
}

// Every string comes back from a block as it was, packed or not.
func FuzzPack(f *testing.F) {
	for _, s := range []string{
		"", "00f067aa0ba902b7", "00f067aa0ba902b", "00F067AA0BA902B7", "4bf92f3577b34da6a3ce929d0e0e4736", "AAAAAAAAAAAAAAAAAAAAAA",
		"AAAAAAAAAAAAAAAAAAAAAB", "get_reservation_detail", "AAAAAAAAAAA\nAAAAAAAAAA", "zzzzzzzzzzzzzzzzzzzzz=", strings.Repeat("ab", 40),
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		packed, form := pack([]byte("before"), s)
		require.Equal(t, "before", string(packed[:6]))
		if form == formPlain {
			require.Len(t, packed, 6)
			return
		}
		require.Less(t, len(packed)-6, len(s))
		require.Equal(t, "before"+s, string(unpack([]byte("before"), packed[6:], form)))
	})
}

func TestBlocksAreCut(t *testing.T) {
	w := newBlockWriter()
	large := storetest.UserMessage("trace:a", "", 1)
	large.User.Text = strings.Repeat("x", 3*blockBytes)
	small := storetest.ToolCall("trace:a", "", 1)
	require.True(t, w.fits(contentBytes(&large)), "an empty block takes any event")
	w.add(&large)
	require.False(t, w.fits(contentBytes(&small)))
	_, _ = w.finish()
	half := storetest.UserMessage("trace:a", "", 1)
	half.User.Text = strings.Repeat("x", blockBytes/2)
	w.add(&half)
	require.True(t, w.fits(blockBytes/2))
	require.False(t, w.fits(blockBytes/2+1))
	_, _ = w.finish()

	b := newBatch([]ingest.Event{small, large, small, half, half, half})
	var sizes []int
	for _, block := range b.blocks {
		sizes = append(sizes, block.events)
	}
	// The small third event does not fit beside the large one before it, nor do three halves.
	require.Equal(t, []int{1, 1, 2, 2}, sizes)
	require.Len(t, b.segments, 4)
}

func TestLRU(t *testing.T) {
	c := newLRU[string, int](10)
	c.put("a", 1, 4)
	c.put("b", 2, 4)
	_, ok := c.get("a")
	require.True(t, ok)
	c.put("c", 3, 4) // b was used longest ago
	_, ok = c.get("b")
	require.False(t, ok)
	v, ok := c.get("a")
	require.True(t, ok)
	require.Equal(t, 1, v)
	c.put("huge", 4, 100)
	v, ok = c.get("huge")
	require.True(t, ok)
	require.Equal(t, 4, v)
	require.Len(t, c.items, 1)
	require.Equal(t, 100, c.cost)
	c.clear()
	_, ok = c.get("huge")
	require.False(t, ok)
	require.Zero(t, c.cost)
}

// Whatever bytes are in a block, reading it gives events or errDamaged.
func FuzzBlock(f *testing.F) {
	w := newBlockWriter()
	for _, e := range storetest.Kinds("trace:a") {
		w.add(&e)
	}
	for _, e := range []ingest.Event{storetest.Span("trace:4bf92f3577b34da6a3ce929d0e0e4736", "", 1), storetest.Span("session:s", "s", 2)} {
		e.TraceID, e.SpanID, e.Identity = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", "ubLJwMvO3cnKztfO2cvO3A"
		w.add(&e)
	}
	head, payload := w.finish()
	rawHead, err := decompressor.DecodeAll(head, nil)
	require.NoError(f, err)
	rawPayload, err := decompressor.DecodeAll(payload, nil)
	require.NoError(f, err)
	f.Add(rawHead, rawPayload)
	f.Add(rawHead[:len(rawHead)-1], rawPayload)
	f.Add(rawHead, rawPayload[:1])
	f.Add([]byte{}, []byte{})
	f.Fuzz(func(t *testing.T, rawHead, rawPayload []byte) {
		b, err := openBlock(compressor.EncodeAll(rawHead, nil), compressor.EncodeAll(rawPayload, nil))
		if err != nil {
			require.ErrorIs(t, err, errDamaged)
			return
		}
		for i := range b.records {
			var e ingest.Event
			if err := b.event(uint64(i), &e, nil); err != nil {
				require.ErrorIs(t, err, errDamaged)
			}
		}
	})
}

func FuzzSequence(f *testing.F) {
	seq := store.NamedSequence{Start: storetest.At(1), Turns: []int32{0, 7, -1}, Flags: []ingest.CallFlag{1, 0, 255}}
	var e encoder
	e.sequence(&seq, 3, []uint32{0, 300, 5})
	f.Add(e.b)
	f.Add(e.b[:len(e.b)-2])
	f.Add([]byte{sequenceVersion, 0, 255, 255, 255, 255, 15})
	f.Add([]byte{sequenceFull, 0, 0, 0, 255, 255, 255, 255, 15})
	f.Add([]byte{sequenceFull, 3, 2, 0, 2, 5, 6, 0, 14, 1, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		var got ingest.Sequence
		if _, err := decodeSequence(data, noTime, &got); err != nil {
			require.ErrorIs(t, err, errDamaged)
			return
		}
		require.Len(t, got.Turns, len(got.Tools))
		require.Len(t, got.Flags, len(got.Tools))
	})
}

func FuzzSummary(f *testing.F) {
	sum := ingest.SessionSummary{Start: storetest.At(1), Errors: 1, LLM: ingest.LLMUsage{InputTokens: 1 << 40, CostUSD: 0.5}}
	var e encoder
	e.summary(&sum, []uint32{0, 1})
	f.Add(e.b)
	f.Add(e.b[:len(e.b)-1])
	f.Fuzz(func(t *testing.T, data []byte) {
		var got ingest.SessionSummary
		if err := decodeSummary(data, noTime, &got, []string{"json", "otlp"}); err != nil {
			require.ErrorIs(t, err, errDamaged)
		}
	})
}

// Starts that their column does not keep come back too, and ends before the start.
func TestDerivedRowsKeepAnyTime(t *testing.T) {
	for _, start := range []time.Time{{}, storetest.At(1), time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC), time.Date(9999, 1, 1, 0, 0, 0, 5, time.UTC)} {
		for _, end := range []time.Time{{}, storetest.At(2), time.Date(9999, 1, 2, 0, 0, 0, 7, time.UTC)} {
			want := ingest.SessionSummary{Start: start, End: end, Errors: -1, LLM: ingest.LLMUsage{CostUSD: 0.25, CallsWithDuration: 1 << 60}}
			var e encoder
			e.summary(&want, nil)
			var got ingest.SessionSummary
			require.NoError(t, decodeSummary(e.b, nanos(start), &got, nil))
			require.Equal(t, want, got)
		}
		for _, flags := range [][]ingest.CallFlag{{0, 0}, {0, 4}} {
			seq := store.NamedSequence{Start: start, Turns: []int32{3, 1}, Flags: flags}
			var e encoder
			e.sequence(&seq, 2, []uint32{1, 300})
			got := ingest.Sequence{Flags: []ingest.CallFlag{9, 9, 9}}
			agent, err := decodeSequence(e.b, nanos(start), &got)
			require.NoError(t, err)
			require.EqualValues(t, 2, agent)
			require.Equal(t, ingest.Sequence{Start: start, Tools: []uint32{1, 300}, Turns: seq.Turns, Flags: flags}, got)
		}
	}
}
