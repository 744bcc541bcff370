package loop

import (
	"context"
	"errors"
	"time"

	"pave/governance"
	"pave/observer"
)

// Event is one event of a pass. Exactly one field beside Seq is set: Phase; Progress; or Run, the pass at its end, which is
// the last event.
type Event struct {
	Seq      int64 // rises within a pass
	Phase    string
	Progress *observer.Progress
	Run      *governance.MiningRun
}

// ErrEnded says that a follower has got everything.
var ErrEnded = errors.New("the pass has ended")

// lastSeq is the number of the last event of every pass, however many were before it.
const lastSeq = 1 << 20

// progressEvery is how often progress makes an event at most; only the newest is kept.
const progressEvery = 200 * time.Millisecond

// trail is what the running pass, or the last one of this process, told; under Loop.mu.
type trail struct {
	id     string
	events []Event
	seq    int64
	ended  bool
	at     time.Time     // of the newest progress
	wake   chan struct{} // closed at the next change; nil while nobody waits
}

func (t *trail) changed() {
	if t.wake != nil {
		close(t.wake)
		t.wake = nil
	}
}

func (t *trail) add(ev Event) {
	t.seq++
	ev.Seq = t.seq
	t.events = append(t.events, ev)
	t.changed()
}

func (t *trail) progress(p observer.Progress, now time.Time) {
	if now.Sub(t.at) < progressEvery {
		return
	}
	t.at = now
	if n := len(t.events); n > 0 && t.events[n-1].Progress != nil {
		t.events = t.events[:n-1]
	}
	t.add(Event{Progress: &p})
}

// Follower reads the events of one pass. It is for one goroutine.
type Follower struct {
	l     *Loop
	actor governance.Actor
	id    string
	after int64
}

// Follow reads a pass as it goes on, from the event behind after, 0 for all. Errors: those of governance.
func (l *Loop) Follow(ctx context.Context, actor governance.Actor, id string, after int64) (*Follower, error) {
	if _, err := l.queue.MiningRun(ctx, actor, id); err != nil {
		return nil, err
	}
	return &Follower{l: l, actor: actor, id: id, after: after}, nil
}

// unseen is how often a pass is looked at that runs and whose trail is not here, such as one that begins just now.
const unseen = 250 * time.Millisecond

// Next waits for events. ErrEnded: there are no more; ctx's error: none came.
func (f *Follower) Next(ctx context.Context) ([]Event, error) {
	for {
		if f.after >= lastSeq {
			return nil, ErrEnded
		}
		events, wake, here := f.look()
		if len(events) > 0 {
			f.after = events[len(events)-1].Seq
			return events, nil
		}
		if wake == nil {
			run, err := f.l.queue.MiningRun(ctx, f.actor, f.id)
			if err != nil {
				return nil, err
			}
			if here || run.State != governance.MiningRunning {
				f.after = lastSeq
				return []Event{{Seq: lastSeq, Run: run}}, nil
			}
		}
		timer := time.NewTimer(unseen)
		select {
		case <-wake:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		}
		timer.Stop()
	}
}

// look reads the trail, when it is that of the pass; wake is nil when nothing more comes into it.
func (f *Follower) look() (events []Event, wake <-chan struct{}, here bool) {
	f.l.mu.Lock()
	defer f.l.mu.Unlock()
	t := &f.l.trail
	if t.id != f.id {
		return nil, nil, false
	}
	for _, ev := range t.events {
		if ev.Seq > f.after {
			events = append(events, ev)
		}
	}
	if t.ended {
		return events, nil, true
	}
	if t.wake == nil {
		t.wake = make(chan struct{})
	}
	return events, t.wake, true
}
