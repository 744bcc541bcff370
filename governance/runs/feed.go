package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"pave/executor"
	"pave/flows"
	"pave/governance"
)

// feedSize is how many events of a run are kept for those who read them.
const feedSize = 1024

// restartGap is what the sequence numbers of a run's events jump by when it is resumed, so that they rise although
// nobody knows how many were given before a crash.
const restartGap = 1 << 20

// feed keeps the last events of a run for its readers. A run never waits for one.
type feed struct {
	mu     sync.Mutex
	held   int   // by the live run and by readers; under Service.mu
	last   int64 // sequence number of the newest event
	events []executor.Event
	ended  bool
	wake   chan struct{} // closed at the next change
}

func newFeed(last int64) *feed { return &feed{last: last, wake: make(chan struct{})} }

func (f *feed) publish(ev executor.Event) {
	if ev.StepRecord != nil { // the run goes on with what the event points to
		rec := *ev.StepRecord
		ev.StepRecord = &rec
	}
	if ev.Result != nil {
		ev.Result = &executor.RunResult{Status: ev.Result.Status}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.events) == feedSize {
		f.events = append(f.events[:0], f.events[feedSize/4:]...)
	}
	f.events = append(f.events, ev)
	f.last++
	f.changed()
}

func (f *feed) changed() {
	close(f.wake)
	f.wake = make(chan struct{})
}

func (f *feed) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = true
	f.changed()
}

func (f *feed) isEnded() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ended
}

func (f *feed) number() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

// hold gives the feed of a run and keeps it until it is released; last counts when there is none yet.
func (s *Service) hold(id string, last int64) *feed {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.feeds[id]
	if f == nil || f.isEnded() { // the run was interrupted, and goes on
		f = newFeed(last)
		s.feeds[id] = f
	}
	f.held++
	return f
}

// release lets go of a feed; that of a run which has ended ends with it.
func (s *Service) release(f *feed, run *Run) {
	if run != nil && !run.Ended.IsZero() {
		f.end()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.held--; f.held > 0 {
		return
	}
	for id, other := range s.feeds {
		if other == f {
			delete(s.feeds, id)
		}
	}
}

// Event is one event of a run's stream, with redacted values. Seq rises within a run. Exactly one field beside it is
// set: Event; Lost, how many events this reader cannot get any more; or Run, the run at its end, which is the last.
type Event struct {
	Seq   int64
	Event *executor.Event
	Lost  int64
	Run   *Run
}

// Reader gives the events of one run to one caller. It is for one goroutine; Close it.
type Reader struct {
	s      *Service
	tenant string
	id     string
	feed   *feed // nil: the run has ended
	at     int64 // the last number that was given
	first  bool  // nothing was given yet: what is lost was lost before
	over   bool
}

// Errors of a Reader.
var (
	// ErrEnded: there is nothing after the last event.
	ErrEnded = errors.New("the run has no more events")
	// ErrSlow: the reader was so slow that events were dropped.
	ErrSlow = errors.New("the reader is too slow")
)

// Events reads the events of a run after a sequence number, 0 for all that are kept; first the ones that there are,
// then those to come. A run that has ended has one: itself.
func (s *Service) Events(ctx context.Context, actor governance.Actor, id string, after int64) (*Reader, error) {
	if err := governance.Permit(actor, governance.ActionRead); err != nil {
		return nil, err
	}
	if after < 0 {
		return nil, flows.NewError(flows.CodeInvalid, "Last-Event-ID is the id of an event of this run")
	}
	run, err := s.read(ctx, tenant(actor), id)
	if err != nil {
		return nil, err
	}
	r := &Reader{s: s, tenant: tenant(actor), id: id, at: after, first: true}
	if !run.Ended.IsZero() {
		r.over = after > run.events
		return r, nil
	}
	r.feed = s.hold(id, run.events)
	return r, nil
}

// Close lets go of the run.
func (r *Reader) Close() {
	if r.feed != nil {
		r.s.release(r.feed, nil)
		r.feed = nil
	}
}

// Next waits for events. It returns ctx's error, ErrEnded after the last, ErrSlow when some were dropped meanwhile.
func (r *Reader) Next(ctx context.Context) ([]Event, error) {
	if r.over {
		return nil, ErrEnded
	}
	for r.feed != nil {
		events, ended, wake := r.take()
		if len(events) > 0 && events[0].Lost > 0 && !r.first {
			return nil, ErrSlow
		}
		switch {
		case len(events) > 0:
			r.first = false
			return events, nil
		case ended:
			return r.end(ctx, r.at)
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return r.end(ctx, r.at)
}

// take gives what the feed has after r.at.
func (r *Reader) take() (out []Event, ended bool, wake chan struct{}) {
	f := r.feed
	f.mu.Lock()
	first := f.last - int64(len(f.events)) + 1
	from := max(first, r.at+1)
	events := append([]executor.Event(nil), f.events[min(int64(len(f.events)), max(0, from-first)):]...)
	ended, wake = f.ended, f.wake
	f.mu.Unlock()
	if lost := from - r.at - 1; lost > 0 && lost < restartGap && len(events) > 0 {
		out = append(out, Event{Seq: from - 1, Lost: lost})
	}
	for i := range events {
		ev := r.s.redactEvent(events[i])
		out = append(out, Event{Seq: from + int64(i), Event: &ev})
		r.at = from + int64(i)
	}
	return out, ended, wake
}

// end gives the run itself, once.
func (r *Reader) end(ctx context.Context, after int64) ([]Event, error) {
	run, err := r.s.read(ctx, r.tenant, r.id)
	if err != nil {
		return nil, err
	}
	r.over = true
	return []Event{{Seq: max(after, run.events) + 1, Run: run}}, nil
}

// redactEvent brings an event to the form in which it may be shown to others than the caller.
func (s *Service) redactEvent(ev executor.Event) executor.Event {
	log := executor.RunResult{ExecutionLog: []executor.StepRecord{{Inputs: ev.Inputs}}}
	if ev.StepRecord != nil {
		log.ExecutionLog = append(log.ExecutionLog, *ev.StepRecord)
	}
	shown := s.redacted(&log)
	if ev.Inputs != nil {
		ev.Inputs = shown.ExecutionLog[0].Inputs
	}
	if ev.StepRecord != nil {
		ev.StepRecord = &shown.ExecutionLog[1]
	}
	return ev
}

// redactParts brings values of a run to the form in which they may be stored: without its dynamic params, and redacted
// as everything that is stored.
func (s *Service) redactParts(params map[string]any, parts executor.StepRecord) (executor.StepRecord, error) {
	hidden := executor.Redact(&executor.RunResult{ExecutionLog: []executor.StepRecord{parts}}, params)
	raw, err := executor.EncodeResult(hidden)
	if err != nil {
		return parts, fmt.Errorf("redact: %w", err)
	}
	shown, err := executor.DecodeResult(s.redactor.Redact(json.RawMessage(raw)))
	if err != nil {
		return parts, fmt.Errorf("redact: %w", err)
	}
	return shown.ExecutionLog[0], nil
}
