package clickhouse

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"pave/ingest/store"
)

var talliesTable = newTable("tallies", "tenant "+lowCardinality, "day Int64", "put Int64", "epoch Int64", "version String", "data String")

// setDay is the day under which the set of a tally lies, beyond all days.
const setDay = math.MaxInt64

// dayNumber is the day of a session; the shift makes the division round down before 1970, too.
const dayNumber = "if(has_start, intDiv(toUnixTimestamp64Milli(started) + 100000 * 86400000, 86400000) - 100000, {no_day:Int64})"

// daysSQL sums up the sessions of each day: a session that comes, changes or goes changes the sum.
const daysSQL = "SELECT toInt64(" + dayNumber + ") AS d, count(), sum(cityHash64(id, version)) FROM sessions FINAL" +
	" WHERE tenant = {tenant:String} AND removed = 0 GROUP BY d ORDER BY d"

// Days lists the days of sessions. See store.Tallies.
func (s *Store) Days(ctx context.Context, tenant string) ([]store.Day, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	var days []store.Day
	err := s.query(ctx, "list days", daysSQL, []any{arg("tenant", tenant), arg("no_day", int64(store.NoDay))}, func(rows driver.Rows) error {
		var day int64
		var sessions, sum uint64
		err := rows.Scan(&day, &sessions, &sum)
		days = append(days, store.Day{Day: int32(day), Version: fmt.Sprintf("%d-%x", sessions, sum)})
		return err
	})
	return days, err
}

// Tally reads what mining counted. See store.Tallies.
func (s *Store) Tally(ctx context.Context, tenant string) (store.Tally, error) {
	t, _, err := s.tally(ctx, tenant)
	return t, err
}

// tally reads the tally with its epoch.
func (s *Store) tally(ctx context.Context, tenant string) (t store.Tally, epoch int64, err error) {
	if err := s.ready(ctx); err != nil {
		return t, 0, err
	}
	err = s.query(ctx, "read the tally", "SELECT day, epoch, version, data FROM tallies FINAL WHERE tenant = {tenant:String} ORDER BY day DESC",
		[]any{arg("tenant", tenant)}, func(rows driver.Rows) error {
			var day, of int64
			var version, data string
			if err := rows.Scan(&day, &of, &version, &data); err != nil {
				return err
			}
			switch {
			case day == setDay:
				epoch, t.Set = of, []byte(data)
			case of == epoch:
				t.Days = append(t.Days, store.DayTally{Day: int32(day), Version: version, Counts: []byte(data)})
			}
			return nil
		})
	slices.Reverse(t.Days)
	return t, epoch, err
}

// PutTally keeps what mining counted, as one block. See store.Tallies.
func (s *Store) PutTally(ctx context.Context, tenant string, t store.Tally) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	version := s.nextVersion()
	epoch := version
	var tenants, versions, data []string
	var days, puts, epochs []int64
	add := func(day int64, of string, bytes []byte) {
		tenants, versions, data = append(tenants, tenant), append(versions, of), append(data, string(bytes))
		days, puts, epochs = append(days, day), append(puts, version), append(epochs, epoch)
	}
	if t.Set != nil {
		add(setDay, strconv.FormatInt(version, 10), t.Set)
	} else {
		var err error
		if _, epoch, err = s.tally(ctx, tenant); err != nil {
			return err
		}
	}
	for _, d := range t.Days {
		add(int64(d.Day), d.Version, d.Counts)
	}
	if len(days) == 0 {
		return nil
	}
	if err := talliesTable.send(ctx, s.conn, putToken(version, 0), []any{tenants, days, puts, epochs, versions, data}); err != nil {
		return s.failed(ctx, "store the tally", err)
	}
	return nil
}
