package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"pave/ingest/store"
)

// shipper moves entries from the spool to the server, one shipment at a time and in order, for as long as it takes.
type shipper struct {
	spool  *spool
	limits Limits
	log    *slog.Logger
	send   func(context.Context, *shipment) error

	more   chan struct{} // entries were added
	urgent chan struct{} // a flush waits: neither linger nor back off
	stop   chan struct{}
	ended  chan struct{}

	mu       sync.Mutex
	want     int64 // newest entry that a flush waits for
	shipped  int64 // newest entry that the server has
	failures int   // failed attempts so far
	reason   error // of the last attempt, nil when it succeeded
	changed  chan struct{}
}

func newShipper(sp *spool, limits Limits, log *slog.Logger, send func(context.Context, *shipment) error) *shipper {
	return &shipper{
		spool: sp, limits: limits, log: log, send: send,
		more: make(chan struct{}, 1), urgent: make(chan struct{}, 1),
		stop: make(chan struct{}), ended: make(chan struct{}), changed: make(chan struct{}),
	}
}

// signal wakes the receiver of a channel of capacity one; a pending signal is enough.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// run ships until stop is closed, then what is left unless that fails. ctx bounds the last part.
func (s *shipper) run(ctx context.Context) {
	defer close(s.ended)
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = s.limits.RetryFirst, s.limits.RetryMax
	for s.awaitWork() {
		err := s.shipOne(ctx)
		if err == nil {
			pause.Reset()
			continue
		}
		wait := time.NewTimer(pause.NextBackOff())
		select {
		case <-wait.C:
		case <-s.urgent:
		case <-s.stop:
		}
		wait.Stop()
	}
	for s.spool.state().Rows > 0 && s.shipOne(ctx) == nil {
	}
}

// awaitWork returns true when a shipment is due: enough rows, enough bytes, old enough, or a flush waits for it. It
// returns false at the end.
func (s *shipper) awaitWork() bool {
	for {
		select {
		case <-s.stop:
			return false
		default:
		}
		st := s.spool.state()
		wait := time.Until(st.Oldest.Add(s.limits.Linger))
		switch {
		case st.Rows == 0:
			wait = time.Hour // until more comes
		case st.Rows >= int64(s.limits.BatchRows), st.Bytes >= s.limits.BatchBytes, wait <= 0, s.flushWaits():
			return true
		}
		timer := time.NewTimer(wait)
		select {
		case <-s.more:
		case <-s.urgent:
		case <-timer.C:
		case <-s.stop:
		}
		timer.Stop()
	}
}

func (s *shipper) flushWaits() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.want > s.shipped
}

// shipOne sends the next shipment and removes it from the spool.
func (s *shipper) shipOne(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.limits.SendTimeout)
	defer cancel()
	ship, err := s.spool.next(ctx, s.limits.BatchRows, s.limits.BatchBytes)
	if ship == nil && err == nil {
		return nil
	}
	if err == nil {
		err = s.send(ctx, ship)
	}
	if err == nil {
		err = s.spool.done(ctx, ship)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil:
		if s.reason == nil {
			s.log.Warn("ClickHouse does not take the spool; events stay there and are sent again", "error", err)
		}
		s.failures++
	default:
		if s.reason != nil {
			s.log.Info("ClickHouse takes the spool again", "rows_behind", s.spool.state().Rows)
		}
		s.shipped = ship.last
	}
	s.reason = err
	close(s.changed)
	s.changed = make(chan struct{})
	return err
}

// flush returns when the server has everything that was added before the call. It gives up with ErrUnavailable when
// an attempt fails meanwhile or nothing moves for the FlushWait limit.
func (s *shipper) flush(ctx context.Context) error {
	target := s.spool.newest()
	s.mu.Lock()
	failures := s.failures
	s.want = max(s.want, target)
	s.mu.Unlock()
	timer := time.NewTimer(s.limits.FlushWait)
	defer timer.Stop()
	for first := true; ; first = false {
		s.mu.Lock()
		shipped, failed, reason, changed := s.shipped, s.failures > failures, s.reason, s.changed
		s.mu.Unlock()
		if shipped >= target || s.spool.state().Rows == 0 {
			return nil
		}
		if failed {
			return fmt.Errorf("%w: acknowledged events have not reached ClickHouse yet: %w", store.ErrUnavailable, reason)
		}
		if first {
			signal(s.urgent)
		} else {
			timer.Reset(s.limits.FlushWait)
		}
		select {
		case <-changed:
		case <-timer.C:
			return fmt.Errorf("%w: ClickHouse did not take the spool within %s", store.ErrUnavailable, s.limits.FlushWait)
		case <-s.ended:
			return errClosed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// status is the last attempt's failure, nil when it succeeded or none was made.
func (s *shipper) status() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reason
}

// close stops the shipper; what is left is sent first when that takes no longer than the CloseWait limit.
func (s *shipper) close(cancel context.CancelFunc) {
	close(s.stop)
	timer := time.AfterFunc(s.limits.CloseWait, cancel)
	<-s.ended
	timer.Stop()
	cancel()
}

var errClosed = errors.New("event store is closed")
