package clickhouse

import (
	"fmt"
	"slices"
	"time"

	"pave/ingest"
	"pave/ingest/store"
)

// sequencesForm is the first byte of the column sessions.sequences.
const sequencesForm = 1

// encodeSequences packs the sequences of a session: the names of its tools once, then per sequence its head, tools as
// indexes of these names, turns as differences, and flags.
func encodeSequences(seqs []store.NamedSequence) string {
	var b encoder
	b.byte(sequencesForm)
	index, names := map[string]uint64{}, []string{}
	for _, q := range seqs {
		for _, name := range q.Tools {
			if _, ok := index[name]; !ok {
				index[name] = uint64(len(names))
				names = append(names, name)
			}
		}
	}
	b.uint(uint64(len(names)))
	for _, name := range names {
		b.string(name)
	}
	b.uint(uint64(len(seqs)))
	for _, q := range seqs {
		b.int(int64(q.RunIndex))
		b.string(q.Agent)
		if q.Start.IsZero() {
			b.byte(0)
		} else {
			b.byte(1)
			b.int(nanos(q.Start))
		}
		b.uint(uint64(len(q.Tools)))
		for _, name := range q.Tools {
			b.uint(index[name])
		}
		last := int32(0)
		for _, turn := range q.Turns {
			b.int(int64(turn) - int64(last))
			last = turn
		}
		for _, flag := range q.Flags {
			b.byte(byte(flag))
		}
	}
	return string(b.buf)
}

// sequenceReader decodes packed sequences into one Sequence, whose slices it uses again.
type sequenceReader struct {
	ids []uint32 // of the session's tools, by their index in it
	seq ingest.Sequence
}

// each calls fn for every sequence of a session. id gives the dictionary id of a tool.
func (r *sequenceReader) each(packed, session string, id func(name string) uint32, fn func(*ingest.Sequence) error) error {
	d := decoder{in: packed}
	if form := d.byte(); form != sequencesForm {
		return fmt.Errorf("%w: sequences of form %d", errCorrupt, form)
	}
	r.ids = r.ids[:0]
	for n := d.count(1); n > 0 && d.err == nil; n-- {
		r.ids = append(r.ids, id(d.string()))
	}
	for n := d.count(3); n > 0 && d.err == nil; n-- {
		r.next(&d, session)
		if d.err != nil {
			break
		}
		if err := fn(&r.seq); err != nil {
			return err
		}
	}
	return d.end()
}

func (r *sequenceReader) next(d *decoder, session string) {
	q := &r.seq
	q.SessionID, q.RunIndex, q.Agent, q.Start = session, int(d.int()), d.string(), time.Time{}
	if d.byte() == 1 {
		q.Start = instant(true, d.int())
	}
	n := d.count(3)
	q.Tools, q.Turns, q.Flags = slices.Grow(q.Tools[:0], n), slices.Grow(q.Turns[:0], n), slices.Grow(q.Flags[:0], n)
	for range n {
		index := d.uint()
		if index >= uint64(len(r.ids)) {
			d.fail()
			return
		}
		q.Tools = append(q.Tools, r.ids[index])
	}
	turn := int64(0)
	for range n {
		turn += d.int()
		q.Turns = append(q.Turns, int32(turn))
	}
	for range n {
		q.Flags = append(q.Flags, ingest.CallFlag(d.byte()))
	}
}
