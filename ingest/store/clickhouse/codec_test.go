package clickhouse

import (
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/ingest"
	"pave/ingest/store"
)

func TestNumbersSurviveTheCodec(t *testing.T) {
	ints := []int64{0, 1, -1, 63, 64, -64, -65, 1 << 31, math.MaxInt64, math.MinInt64}
	uints := []uint64{0, 1, 127, 128, 1 << 63, math.MaxUint64}
	floats := []float64{0, 0.1, -1, math.Inf(1), math.SmallestNonzeroFloat64, math.MaxFloat64}
	texts := []string{"", "a", "nul\x00", "\xff"}
	var b encoder
	for _, v := range ints {
		b.int(v)
	}
	for _, v := range uints {
		b.uint(v)
	}
	for _, v := range floats {
		b.float(v)
	}
	for _, v := range texts {
		b.string(v)
	}
	d := decoder{in: string(b.buf)}
	for _, v := range ints {
		require.Equal(t, v, d.int())
	}
	for _, v := range uints {
		require.Equal(t, v, d.uint())
	}
	for _, v := range floats {
		require.Equal(t, v, d.float())
	}
	for _, v := range texts {
		require.Equal(t, v, d.string())
	}
	require.NoError(t, d.end())
}

func TestDamagedNumbersAreRefused(t *testing.T) {
	for _, in := range []string{"", "\x80", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"} {
		d := decoder{in: in}
		d.uint()
		require.ErrorIs(t, d.end(), errCorrupt, "%q", in)
	}
	d := decoder{in: "\x05abc"}
	d.string()
	require.ErrorIs(t, d.end(), errCorrupt)
	d = decoder{in: "ab"}
	d.byte()
	require.ErrorIs(t, d.end(), errCorrupt, "input is left over")
}

func TestTimesAreClamped(t *testing.T) {
	require.EqualValues(t, math.MinInt64, nanos(time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)))
	require.EqualValues(t, math.MaxInt64, nanos(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)))
	require.EqualValues(t, -1, nanos(time.Unix(0, -1)))
	require.Equal(t, time.Unix(1, 5).UTC(), instant(true, 1_000_000_005))
	require.True(t, instant(false, 1).IsZero())
}

func TestLookupsAreBounded(t *testing.T) {
	short, long := make([]string, 1200), []string{string(make([]byte, lookupBytes+1)), "a", "b"}
	for i := range short {
		short[i] = fmt.Sprint(i)
	}
	require.Equal(t, lookupSessions, prefix(short))
	require.Equal(t, 200, prefix(short[1000:]))
	require.Equal(t, 1, prefix(long))
	require.Equal(t, 2, prefix(long[1:]))
}

func TestSessionsAreLoadedInGroups(t *testing.T) {
	minute, hour := int64(time.Minute), int64(time.Hour)
	at := func(first, last int64, bytes uint64) extentOf {
		return extentOf{first: first, last: last, bytes: bytes}
	}
	for _, c := range []struct {
		name string
		in   []extentOf
		want int
	}{
		{"one", []extentOf{at(0, 5, 1)}, 1},
		{"neighbours", []extentOf{at(0, 5, 1), at(1, 2, 1), at(5+minute, 6+minute, 1)}, 3},
		{"a gap", []extentOf{at(0, 5, 1), at(6+minute, 7+minute, 1)}, 1},
		{"no gap behind a longer one", []extentOf{at(0, 5*minute, 1), at(1, 2, 1), at(5*minute, 6*minute, 1)}, 3},
		{"a long one first", []extentOf{at(0, hour+1, 1), at(1, 2, 1)}, 1},
		{"a long one later", []extentOf{at(0, 1, 1), at(1, 2+hour, 1), at(2, 3, 1)}, 1},
		{"bytes", []extentOf{at(0, 1, loadBytes/2), at(1, 2, loadBytes/2), at(2, 3, 1)}, 2},
		{"one too large", []extentOf{at(0, 1, loadBytes+1), at(1, 2, 1)}, 1},
	} {
		require.Equal(t, c.want, group(c.in), c.name)
	}
}

func FuzzSpoolEntry(f *testing.F) {
	s := Store{limits: Limits{}.withDefaults()}
	event := ingest.Event{Kind: ingest.KindToolCall, Origin: "trace:a", Received: time.Unix(1, 0), Start: time.Unix(0, 5), Call: &ingest.ToolCall{Tool: "t", Args: []byte(`{}`)}}
	f.Add(s.encode([]ingest.Event{event, {Kind: ingest.KindLLMCall, Origin: "o", LLM: &ingest.LLMCall{Count: 2, CostUSD: 1}}})[0].body)
	f.Add(s.encode([]ingest.Event{{Kind: ingest.KindUserMessage, Origin: "o", User: &ingest.UserMessage{Text: "x"}}})[0].body)
	f.Add(encodeRun(&store.Run{ID: "r", Start: time.Unix(1, 2)}))
	f.Add([]byte{eventsForm, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, body []byte) {
		var d delivery
		if err := d.events.decode(string(body), "t", 1, 1); err == nil {
			for _, column := range d.events.values() {
				require.Equal(t, len(d.events.origin), reflect.ValueOf(column).Len())
			}
			d.index(0, &entry{tenant: "t"}, 1)
			require.LessOrEqual(t, len(d.origins.origin), len(d.events.origin))
		}
		if err := d.runs.decode(string(body), "t", 1); err == nil {
			for _, column := range d.runs.values() {
				require.Equal(t, 1, reflect.ValueOf(column).Len())
			}
		}
	})
}

func FuzzSequences(f *testing.F) {
	f.Add(encodeSequences([]store.NamedSequence{
		{RunIndex: 1, Agent: "a", Start: time.Unix(5, 0), Tools: []string{"x", "y", "x"}, Turns: []int32{0, 4, -1}, Flags: []ingest.CallFlag{1, 2, 3}},
		{Tools: []string{"z"}, Turns: []int32{0}, Flags: []ingest.CallFlag{0}},
	}))
	f.Add(encodeSequences(nil))
	f.Add("\x01\xff\xff\xff\xff\x0f")
	f.Fuzz(func(t *testing.T, packed string) {
		var r sequenceReader
		var names []string
		var seqs []store.NamedSequence
		err := r.each(packed, "s", func(name string) uint32 {
			names = append(names, name)
			return uint32(len(names) - 1)
		}, func(q *ingest.Sequence) error {
			named := store.NamedSequence{RunIndex: q.RunIndex, Agent: q.Agent, Start: q.Start}
			named.Turns, named.Flags = append(named.Turns, q.Turns...), append(named.Flags, q.Flags...)
			for _, id := range q.Tools {
				named.Tools = append(named.Tools, names[id])
			}
			seqs = append(seqs, named)
			return nil
		})
		if err != nil {
			return
		}
		// What decodes has a packed form of its own that decodes to the same.
		again := []store.NamedSequence(nil)
		names = nil
		require.NoError(t, r.each(encodeSequences(seqs), "s", func(name string) uint32 {
			names = append(names, name)
			return uint32(len(names) - 1)
		}, func(q *ingest.Sequence) error {
			named := store.NamedSequence{RunIndex: q.RunIndex, Agent: q.Agent, Start: q.Start}
			named.Turns, named.Flags = append(named.Turns, q.Turns...), append(named.Flags, q.Flags...)
			for _, id := range q.Tools {
				named.Tools = append(named.Tools, names[id])
			}
			again = append(again, named)
			return nil
		}))
		require.Equal(t, seqs, again)
	})
}
