package observer

import (
	"context"
	"fmt"
	"maps"
	"math"
	"time"

	"pave/ingest/store"
)

const (
	blockBits  = 7 // 128 days of sessions are counted together: every block is a query, which may scan
	daysAlone  = 8 // of surveys: the newest days, in which sessions come and change, are blocks of their own
	aloneBlock = int64(1) << 40
)

// dayBlock is what the sessions of some days were counted as, by the times of their sequences.
type dayBlock[C any] struct {
	first, last int32
	version     string // of its days
	counted     C
}

// dayBlocks keeps what was counted of each block of days of sessions, so that the next count reads only the blocks in which a
// session came, changed or went. Its user guards it.
type dayBlocks[C any] struct {
	kept map[int64]*dayBlock[C]
}

// blocksOf groups days, in their order. The newest alone days are blocks of their own.
func blocksOf[C any](days []store.Day, alone int32) (order []int64, now map[int64]*dayBlock[C]) {
	now = map[int64]*dayBlock[C]{}
	for _, d := range days {
		id := int64(d.Day >> blockBits) // rounds down; what has no day is alone
		if newest := int64(days[len(days)-1].Day); int64(d.Day) > newest-int64(alone) {
			id = aloneBlock + int64(d.Day)
		}
		b := now[id]
		if b == nil {
			b = &dayBlock[C]{first: d.Day}
			now[id] = b
			order = append(order, id)
		}
		b.last = d.Day
		b.version += fmt.Sprintf("%d %s,", d.Day, d.Version)
	}
	return order, now
}

// refresh counts the blocks that are not as they were, and returns what was counted of all, the oldest first.
func (k *dayBlocks[C]) refresh(ctx context.Context, src ActivitySource, alone int32, count func(store.SequenceFilter) (C, error)) ([]C, error) {
	days, err := src.Days(ctx)
	if err != nil {
		return nil, err
	}
	order, now := blocksOf[C](days, alone)
	was := k.kept
	k.kept = map[int64]*dayBlock[C]{}
	out := make([]C, 0, len(order))
	for _, id := range order {
		b := now[id]
		if old := was[id]; old != nil && old.version == b.version {
			b = old
		} else if b.counted, err = count(store.SequenceFilter{OfDay: &b.first, ToDay: &b.last}); err != nil {
			kept := k.kept
			k.kept = maps.Clone(was) // what was counted is good for the next time
			if k.kept == nil {
				k.kept = kept
			}
			maps.Copy(k.kept, kept)
			return nil, err
		}
		k.kept[id] = b
		out = append(out, b.counted)
	}
	return out, nil
}

// wholeDays are the days that lie in a filter's times, and the parts of days at its edges. The range of days is empty, and is
// false, when the filter is within one day or backwards.
type wholeDays struct {
	first, end int32
	edges      [][2]time.Time
	open       bool // what has no time is in it, too
}

func wholeDaysOf(filter store.SequenceFilter) (w wholeDays, ok bool) {
	w = wholeDays{first: noDay, end: math.MaxInt32, open: filter.From.IsZero() && filter.To.IsZero()}
	if !filter.From.IsZero() {
		if w.first = dayOf(filter.From); !dayStart(w.first).Equal(filter.From) {
			w.first++
			w.edges = append(w.edges, [2]time.Time{filter.From, dayStart(w.first)})
		}
	}
	if !filter.To.IsZero() {
		if w.end = dayOf(filter.To); !dayStart(w.end).Equal(filter.To) {
			w.edges = append(w.edges, [2]time.Time{dayStart(w.end), filter.To})
		}
	}
	return w, w.end >= w.first
}

// has reports whether the sequences of a day are in the filter, all of them.
func (w *wholeDays) has(day int32) bool {
	return day >= w.first && day < w.end && (w.open || day != noDay)
}
