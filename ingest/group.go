package ingest

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"time"

	"pave/flows"
)

// run is the recorder's one committing goroutine.
func (r *Recorder) run() {
	defer close(r.done)
	for first := range r.queue {
		r.commit(r.collect(first))
	}
}

// collect gathers a group: until the oldest request has waited for Linger, or the group is large enough. Requests that
// piled up during the last commit are past their linger already and go at once.
func (r *Recorder) collect(first *submission) []*submission {
	group := []*submission{first}
	events, bytes := len(first.events), first.bytes
	timer := time.NewTimer(r.opts.Limits.Linger - r.opts.Now().Sub(first.queued))
	defer timer.Stop()
	expired := false
	for events < r.opts.Limits.Group && bytes < r.opts.Limits.GroupSize {
		var s *submission
		var open bool
		if expired {
			select {
			case s, open = <-r.queue:
			default:
			}
		} else {
			select {
			case s, open = <-r.queue:
			case <-timer.C:
				expired = true
				continue
			}
		}
		if !open {
			return group
		}
		group = append(group, s)
		events += len(s.events)
		bytes += s.bytes
	}
	return group
}

// commit stores a group, one Append per tenant in order of arrival, and answers its requests.
func (r *Recorder) commit(group []*submission) {
	r.groups.Add(1)
	var tenants []string
	byTenant := make(map[string][]*submission, 1)
	for _, s := range group {
		if byTenant[s.tenant] == nil {
			tenants = append(tenants, s.tenant)
		}
		byTenant[s.tenant] = append(byTenant[s.tenant], s)
	}
	for _, tenant := range tenants {
		r.commitTenant(tenant, byTenant[tenant])
	}
	for _, s := range group {
		r.mu.Lock()
		r.events -= len(s.events)
		r.bytes -= s.bytes
		r.mu.Unlock()
		close(s.done)
	}
}

func (r *Recorder) commitTenant(tenant string, group []*submission) {
	err := r.append(tenant, group)
	if err != nil && len(group) > 1 && !errors.Is(err, ErrStoreFull) && !errors.Is(err, ErrStoreUnavailable) {
		// One request's events may be what the store refuses; the others must not suffer.
		for _, s := range group {
			r.answer(s, r.append(tenant, []*submission{s}))
		}
		return
	}
	for _, s := range group {
		r.answer(s, err)
	}
}

// append stores the events that are no exact repeats of committed ones or of others in the group.
func (r *Recorder) append(tenant string, group []*submission) error {
	var fresh []Event
	marks := make(map[uint64]uint64)
	for _, s := range group {
		s.receipt.Accepted, s.receipt.Duplicates = 0, 0
		for i := range s.events {
			id, content := r.recent.keys(tenant, &s.events[i])
			if before, seen := marks[id]; seen && before == content || r.recent.has(id, content) {
				s.receipt.Duplicates++
				continue
			}
			marks[id] = content
			s.receipt.Accepted++
			fresh = append(fresh, s.events[i])
		}
	}
	if len(fresh) > 0 {
		if err := r.appendSafely(tenant, fresh); err != nil {
			r.appendErrors.Add(1)
			return err
		}
		for id, content := range marks {
			r.recent.add(id, content)
		}
		if r.opts.Committed != nil {
			r.opts.Committed(tenant, fresh)
		}
	}
	return nil
}

// appendSafely is one Append; a panic of the store is this group's error and not the end of the recorder.
func (r *Recorder) appendSafely(tenant string, events []Event) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("event store panic: %v", p)
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), r.opts.AppendTimeout)
	defer cancel()
	return r.store.Append(ctx, tenant, events)
}

func (r *Recorder) answer(s *submission, err error) {
	if err == nil {
		r.committed.Add(int64(s.receipt.Accepted))
		r.duplicates.Add(int64(s.receipt.Duplicates))
		return
	}
	s.receipt = Receipt{}
	retry := &RetryError{After: r.opts.RetryAfter, Err: err}
	switch {
	case errors.Is(err, ErrStoreFull):
		s.err = &flows.Error{Code: flows.CodeFull, Message: "the event store has no room; free disk space or wait until it has been shipped", Err: retry}
	case errors.Is(err, ErrStoreUnavailable), errors.Is(err, context.DeadlineExceeded):
		s.err = &flows.Error{Code: flows.CodeUnavailable, Message: "the event store cannot be written now; send the request again later", Err: retry}
	default:
		s.err = &flows.Error{Code: flows.CodeInternal, Message: "the events could not be stored", Err: err}
	}
}

// recentSize bounds the memory of repeats: two generations of this many events, 32 bytes each.
const recentSize = 1 << 17

// recentSet remembers recently committed events by identity and content, both as keyed 64-bit hashes: a wrong match
// needs both to collide. It forgets a whole generation at a time.
type recentSet struct {
	seed     maphash.Seed
	now, old map[uint64]uint64
}

func newRecentSet() *recentSet {
	return &recentSet{seed: maphash.MakeSeed(), now: make(map[uint64]uint64)}
}

// keys hashes an event's identity and content.
func (s *recentSet) keys(tenant string, e *Event) (id, content uint64) {
	var h maphash.Hash
	h.SetSeed(s.seed)
	_, _ = h.WriteString(tenant)
	_ = h.WriteByte(0)
	_, _ = h.WriteString(e.Identity)
	id = h.Sum64()
	h.Reset()
	hashEvent(&h, e)
	return id, h.Sum64()
}

func (s *recentSet) has(id, content uint64) bool {
	if c, ok := s.now[id]; ok && c == content {
		return true
	}
	c, ok := s.old[id]
	return ok && c == content
}

func (s *recentSet) add(id, content uint64) {
	if len(s.now) >= recentSize {
		s.old, s.now = s.now, make(map[uint64]uint64)
	}
	s.now[id] = content
}
