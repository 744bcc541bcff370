package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"pave/ingest"
	"pave/ingest/store"
)

// Versions of sequences.data, its first byte: the first had the start always.
const (
	sequenceFull    = 1
	sequenceVersion = 2
)

// sequence encodes what is not in columns: agent, number of calls and whether the start follows because its column does
// not keep it, and per call the tool id, the step of the turn from the call before, and the flags.
func (e *encoder) sequence(seq *store.NamedSequence, agent uint32, tools []uint32) {
	e.byte(sequenceVersion)
	e.uint(uint64(agent))
	if inColumn(seq.Start) {
		e.uint(2 * uint64(len(tools)))
	} else {
		e.uint(2*uint64(len(tools)) + 1)
		e.time(seq.Start, 0)
	}
	for _, id := range tools {
		e.uint(uint64(id))
	}
	last := int32(0)
	for _, turn := range seq.Turns {
		e.int(int64(turn) - int64(last))
		last = turn
	}
	for _, flag := range seq.Flags {
		e.byte(byte(flag))
	}
}

// decodeSequence fills seq from data and the start of its column, reusing its slices, and returns the id of the agent.
func decodeSequence(data []byte, start int64, seq *ingest.Sequence) (agent uint64, err error) {
	d := decoder{b: data}
	version := d.byte()
	agent = d.uint()
	var n uint64
	switch version {
	case sequenceFull:
		seq.Start = d.time(0)
		n = d.uint()
	case sequenceVersion:
		seq.Start = instant(start)
		head := d.uint()
		if n = head / 2; head%2 != 0 {
			seq.Start = d.time(0)
		}
	default:
		return 0, errDamaged
	}
	if n > uint64(len(d.b)) {
		return 0, errDamaged
	}
	seq.Tools, seq.Turns, seq.Flags = seq.Tools[:0], seq.Turns[:0], seq.Flags[:0]
	for range n {
		seq.Tools = append(seq.Tools, uint32(d.uint()))
	}
	last := int64(0)
	for range n {
		last += d.int()
		seq.Turns = append(seq.Turns, int32(last))
	}
	for _, flag := range d.bytes(n) {
		seq.Flags = append(seq.Flags, ingest.CallFlag(flag))
	}
	return agent, d.err
}

// timeRange is the SQL that takes start in [from, to), with its parameters; noTime is taken only by an open range.
func timeRange(bounds store.SequenceFilter) (where string, args []any) {
	from, to := nanos(bounds.From), nanos(bounds.To)
	switch {
	case from == noTime && to == noTime:
		return "", nil
	case from == noTime:
		return " AND start > :none AND start < :to", []any{sql.Named("none", int64(noTime)), sql.Named("to", to)}
	case to == noTime:
		return " AND start >= :from", []any{sql.Named("from", from)}
	}
	return " AND start >= :from AND start < :to", []any{sql.Named("from", from), sql.Named("to", to)}
}

// Sequences streams the sequences in the order in which their sessions were first seen; see store.Store.
func (s *Store) Sequences(ctx context.Context, tenant string, filter store.SequenceFilter, fn func(*ingest.Sequence) error) error {
	var fromFn error
	err := s.snapshot(ctx, "read sequences of", func(tx *sql.Tx) error {
		agents, err := readWords(ctx, tx, tenant, wordAgent)
		if err != nil {
			return err
		}
		where, args := timeRange(filter)
		if filter.OfDay != nil {
			first, last := dayRange(*filter.OfDay)
			if filter.ToDay != nil {
				_, last = dayRange(*filter.ToDay)
			}
			where += " AND q.session IN (SELECT session FROM sessions WHERE tenant = " + tenantID + " AND start BETWEEN :first AND :last)"
			args = append(args, sql.Named("first", first), sql.Named("last", last))
		}
		rows, err := tx.QueryContext(ctx, `SELECT n.name, q.run, q.start, q.data FROM sequences q JOIN names n ON n.id = q.session
			WHERE q.tenant = `+tenantID+where+` ORDER BY q.session, q.run`, append([]any{tenant}, args...)...)
		if err != nil {
			return err
		}
		defer rows.Close()
		var seq ingest.Sequence
		var start int64
		var data sql.RawBytes
		for rows.Next() {
			if err := rows.Scan(&seq.SessionID, &seq.RunIndex, &start, &data); err != nil {
				return err
			}
			agent, err := decodeSequence(data, start, &seq)
			if err != nil || agent >= uint64(len(agents)) {
				return errors.Join(errDamaged, err)
			}
			seq.Agent = agents[agent]
			if filter.Agent != "" && filter.Agent != seq.Agent {
				continue
			}
			if fromFn = fn(&seq); fromFn != nil {
				return nil
			}
		}
		return rows.Err()
	})
	return errors.Join(fromFn, err)
}
