package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"strconv"

	"pave/ingest/store"
)

// dayRange is the starts of the sessions of a day, from first to last, both included.
func dayRange(day int32) (first, last int64) {
	if day == store.NoDay {
		return noTime, noTime
	}
	start := store.DayStart(day)
	first, last = nanos(start), nanos(start.AddDate(0, 0, 1))
	if last != math.MaxInt64 {
		last--
	}
	return first, last
}

// Days lists the days of sessions; see store.Tallies.
func (s *Store) Days(ctx context.Context, tenant string) ([]store.Day, error) {
	rows, err := s.read.QueryContext(ctx, "SELECT day, version FROM session_days WHERE tenant = "+tenantID+" AND sessions > 0 ORDER BY day", tenant)
	if err != nil {
		return nil, s.wrap("list days of", err)
	}
	defer rows.Close()
	var days []store.Day
	for rows.Next() {
		var d store.Day
		var version int64
		if err := rows.Scan(&d.Day, &version); err != nil {
			return nil, s.wrap("list days of", err)
		}
		d.Version = strconv.FormatInt(version, 10)
		days = append(days, d)
	}
	return days, s.wrap("list days of", rows.Err())
}

// Tally reads what mining counted; see store.Tallies.
func (s *Store) Tally(ctx context.Context, tenant string) (store.Tally, error) {
	var t store.Tally
	err := s.snapshot(ctx, "read the tally of", func(tx *sql.Tx) error {
		err := tx.QueryRowContext(ctx, "SELECT data FROM tally_sets WHERE tenant = "+tenantID, tenant).Scan(&t.Set)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		rows, err := tx.QueryContext(ctx, "SELECT day, version, counts FROM tally_days WHERE tenant = "+tenantID+" ORDER BY day", tenant)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var d store.DayTally
			if err := rows.Scan(&d.Day, &d.Version, &d.Counts); err != nil {
				return err
			}
			t.Days = append(t.Days, d)
		}
		return rows.Err()
	})
	return t, err
}

// PutTally keeps what mining counted, in one transaction; see store.Tallies.
func (s *Store) PutTally(ctx context.Context, tenant string, t store.Tally) error {
	return s.wrap("put a tally into", s.w.transaction(ctx, func(ctx context.Context) error {
		id, err := s.w.tenant(ctx, tenant)
		if err != nil {
			return err
		}
		if t.Set != nil {
			if _, err := s.w.conn.ExecContext(ctx, "DELETE FROM tally_days WHERE tenant = ?", id); err != nil {
				return err
			}
			if _, err := s.w.conn.ExecContext(ctx, "REPLACE INTO tally_sets (tenant, data) VALUES (?, ?)", id, t.Set); err != nil {
				return err
			}
		}
		for _, d := range t.Days {
			if _, err := s.w.conn.ExecContext(ctx, "REPLACE INTO tally_days (tenant, day, version, counts) VALUES (?, ?, ?, ?)",
				id, d.Day, d.Version, d.Counts); err != nil {
				return err
			}
		}
		return nil
	}))
}
