// Package outbox sends webhook deliveries from the state store's outbox: at least once, signed, with backoff. A webhook
// whose every attempt failed for a day is disabled; its deliveries wait.
package outbox

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"pave/governance"
)

// Headers of a delivery. Signature is "t=UNIX,v1=HEX": the HMAC-SHA-256 of "UNIX.BODY" under the webhook's secret.
const (
	HeaderSignature = "Pave-Signature"
	HeaderEvent     = "Pave-Event"
	HeaderDelivery  = "Pave-Delivery"
)

// Limits of sending.
const (
	batch       = 32
	atATime     = 8 // attempts, so that a slow receiver does not hold up the others
	patience    = 10 * time.Second
	maxAnswer   = 4 << 10 // bytes of an answer that are read
	firstRetry  = time.Minute
	lastRetry   = 6 * time.Hour
	DisableTime = 24 * time.Hour // of failures only
)

// Queue is the outbox; governance.Service is one.
type Queue interface {
	// DueDeliveries lists what is to be sent now.
	DueDeliveries(ctx context.Context, limit int) ([]governance.DueDelivery, error)
	// EndDelivery stores the outcome of an attempt.
	EndDelivery(ctx context.Context, d governance.DueDelivery, out governance.DeliveryOutcome) error
}

// Options are the seams of a Sender. Queue is required.
type Options struct {
	Queue Queue
	// Transport guards where webhooks may lead; nil is http.DefaultTransport. Redirects are never followed.
	Transport http.RoundTripper
	Logger    *slog.Logger     // nil discards
	Now       func() time.Time // nil: time.Now
	Patience  time.Duration    // how long an attempt may take; 0 is 10 s
}

// Sender sends deliveries.
type Sender struct {
	queue  Queue
	client *http.Client
	log    *slog.Logger
	now    func() time.Time
}

// New builds a Sender.
func New(o Options) *Sender {
	s := &Sender{queue: o.Queue, log: o.Logger, now: o.Now, client: &http.Client{Transport: o.Transport, Timeout: cmp.Or(o.Patience, patience),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.now == nil {
		s.now = time.Now
	}
	return s
}

// Run sends what is due at every tick until ctx ends.
func (s *Sender) Run(ctx context.Context, ticks <-chan time.Time) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks:
		}
		if _, err := s.Send(ctx); err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "send webhooks", "error", err)
		}
	}
}

// Send attempts what is due now, a batch at a time, and returns the number of attempts.
func (s *Sender) Send(ctx context.Context) (attempts int, err error) {
	for {
		due, err := s.queue.DueDeliveries(ctx, batch)
		if err != nil || len(due) == 0 {
			return attempts, err
		}
		if err := s.sendAll(ctx, due); err != nil {
			return attempts, err
		}
		attempts += len(due)
	}
}

// sendAll attempts deliveries, some at a time.
func (s *Sender) sendAll(ctx context.Context, due []governance.DueDelivery) error {
	var group errgroup.Group
	group.SetLimit(atATime)
	for _, d := range due {
		group.Go(func() error {
			out := s.attempt(ctx, d)
			if ctx.Err() != nil {
				return ctx.Err() // an attempt that the process's end cut counts for nothing
			}
			return s.queue.EndDelivery(ctx, d, out)
		})
	}
	return group.Wait()
}

// attempt posts one delivery.
func (s *Sender) attempt(ctx context.Context, d governance.DueDelivery) governance.DeliveryOutcome {
	now := s.now()
	out := governance.DeliveryOutcome{Retry: Backoff(d.Attempts + 1), DisableAfter: DisableTime}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, d.URL, bytes.NewReader(d.Body))
	if err != nil {
		out.Error = err.Error()
		return out
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "pave-webhook")
	r.Header.Set(HeaderEvent, d.Event)
	r.Header.Set(HeaderDelivery, d.ID)
	r.Header.Set(HeaderSignature, Sign(d.Secret, now, d.Body))
	resp, err := s.client.Do(r)
	if err != nil {
		out.Error = reason(err)
		return out
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxAnswer)) // so that the connection can be used again
	_ = resp.Body.Close()
	out.Status = resp.StatusCode
	if out.Delivered = resp.StatusCode >= 200 && resp.StatusCode < 300; !out.Delivered {
		out.Error = "answered " + resp.Status
	}
	return out
}

// reason is an error without the address, which may hold a token of the receiver.
func reason(err error) string {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err.Error()
		}
		err = next
	}
}

// Sign makes the signature header of a body sent at a time.
func Sign(secret string, at time.Time, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	stamp := strconv.FormatInt(at.Unix(), 10)
	mac.Write([]byte(stamp + "."))
	mac.Write(body)
	return fmt.Sprintf("t=%s,v1=%s", stamp, hex.EncodeToString(mac.Sum(nil)))
}

// Backoff is the pause after the n-th failed attempt, n from 1: a minute, doubled each time, up to six hours.
func Backoff(n int) time.Duration {
	pause := firstRetry
	for range n - 1 {
		if pause *= 2; pause >= lastRetry {
			return lastRetry
		}
	}
	return pause
}
