package worker

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// PoolStats is how one pool stands.
type PoolStats struct {
	Pool     string
	Scope    string        // whose runs it serves
	Queued   int           // calls that wait
	Oldest   time.Duration // how long the oldest of them has waited
	Leased   int           // calls that workers have
	Waiting  int           // workers that wait for a call
	Polled   time.Time     // when a worker came last, zero for never
	Workers  []string      // names of those that wait or have a call, in order
	Tools    []string      // tools of the calls that wait, in order
	Given    int64         // calls given out so far
	Expired  int64         // leases that ran out so far
	Rejected int64         // calls refused because the queue was full
}

// Stats lists the pools by scope and name.
func (p *Pools) Stats() []PoolStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	out := make([]PoolStats, 0, len(p.pools))
	for _, q := range p.pools {
		s := PoolStats{Pool: q.name, Scope: q.scope, Queued: len(q.queue), Leased: q.leased, Waiting: len(q.pollers), Polled: q.polled,
			Given: q.delivered, Expired: q.expired, Rejected: q.refused}
		for _, t := range q.queue {
			s.Oldest = max(s.Oldest, now.Sub(t.since))
			s.Tools = append(s.Tools, t.call.Tool)
		}
		for _, w := range q.pollers {
			s.Workers = append(s.Workers, w.worker)
		}
		out = append(out, s)
	}
	for _, t := range p.leases {
		for i := range out {
			if (poolKey{out[i].Scope, out[i].Pool}) == t.pool.poolKey {
				out[i].Workers = append(out[i].Workers, t.worker)
			}
		}
	}
	for i := range out {
		out[i].Workers = distinct(out[i].Workers)
		out[i].Tools = distinct(out[i].Tools)
	}
	slices.SortFunc(out, func(a, b PoolStats) int {
		return cmp.Or(strings.Compare(a.Scope, b.Scope), strings.Compare(a.Pool, b.Pool))
	})
	return out
}

// Busy reports whether workers have calls whose answers somebody waits for.
func (p *Pools) Busy() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range p.leases {
		if !t.cancelled {
			return true
		}
	}
	return false
}

func distinct(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}
