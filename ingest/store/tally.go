package store

import (
	"context"
	"math"
	"time"
)

// Tallies keeps what mining counted, day by day, so that a pass reads only the days that changed. The day of a session
// is the UTC day of its summary's start. Each session belongs to one day, so that counts of days add up, distinct
// sessions, too.
type Tallies interface {
	// Days lists the days that have sessions, in order.
	Days(ctx context.Context, tenant string) ([]Day, error)
	// Tally returns what was last put; days are in order. Without any it is the zero Tally.
	Tally(ctx context.Context, tenant string) (Tally, error)
	// PutTally replaces everything when t has a Set, in one step; without one it replaces the days that t has, and needs
	// that a Set was put before.
	PutTally(ctx context.Context, tenant string, t Tally) error
}

// Day is a day with its sessions as they are now.
type Day struct {
	Day int32 // since 1970-01-01, UTC; NoDay for sessions without a start
	// Version differs whenever a session of the day was added, assembled anew, moved away or removed.
	Version string
}

// NoDay is the day of sessions whose start is unknown.
const NoDay = math.MinInt32

// Tally is what was counted: Set says which sequences and how, Days the counts of each day. The store looks into neither.
type Tally struct {
	Set  []byte
	Days []DayTally
}

// DayTally is the counts of one day, made when the day had this version.
type DayTally struct {
	Day     int32
	Version string
	Counts  []byte
}

// DayStart is the first instant of a day; of NoDay it is the zero time.
func DayStart(day int32) time.Time {
	if day == NoDay {
		return time.Time{}
	}
	return time.Unix(int64(day)*secondsPerDay, 0).UTC()
}

const secondsPerDay = 24 * 60 * 60
