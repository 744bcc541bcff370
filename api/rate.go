package api

import (
	"slices"
	"sync"
	"time"

	"github.com/labstack/echo/v4"
	"golang.org/x/time/rate"

	"pave/flows"
	"pave/governance"
	"pave/ingest"
)

// RateLimits bound the requests of one principal a second; bursts of twice as many pass. 0 turns a limit off.
type RateLimits struct {
	Requests float64 // of everything but ingest
	Ingest   float64
}

// DefaultRates are the limits of a service that nobody configured.
var DefaultRates = RateLimits{Requests: 60, Ingest: 500}

// rateIdle is how long the bucket of a principal that sends nothing is kept; a full bucket says nothing.
const rateIdle = time.Minute

// limiter holds a bucket for each principal and kind of request.
type limiter struct {
	limits RateLimits
	now    func() time.Time

	mu      sync.Mutex
	buckets map[bucketKey]*bucket
	swept   time.Time
}

type bucketKey struct {
	tenant, principal string
	ingest            bool
}

type bucket struct {
	*rate.Limiter
	used time.Time
}

func newLimiter(limits RateLimits) *limiter {
	return &limiter{limits: limits, now: time.Now, buckets: map[bucketKey]*bucket{}}
}

// take takes a token of the principal; wait is how long until there is one, 0 when it was taken.
func (l *limiter) take(actor governance.Actor, ingest bool) (wait time.Duration) {
	limit := l.limits.Requests
	if ingest {
		limit = l.limits.Ingest
	}
	if limit <= 0 {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if now.Sub(l.swept) > rateIdle {
		l.swept = now
		for key, b := range l.buckets {
			if now.Sub(b.used) > rateIdle {
				delete(l.buckets, key)
			}
		}
	}
	key := bucketKey{actor.Tenant, actor.Principal, ingest}
	b := l.buckets[key]
	if b == nil {
		b = &bucket{Limiter: rate.NewLimiter(rate.Limit(limit), max(1, int(2*limit)))}
		l.buckets[key] = b
	}
	b.used = now
	r := b.ReserveN(now, 1)
	if wait = r.DelayFrom(now); wait > 0 {
		r.CancelAt(now)
	}
	return wait
}

// rates refuses requests of a principal beyond its limit. Callers inside the process are not bounded.
func (s *Server) rates(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		op := s.operation(c)
		if op == nil || op.public || inProcess(c.Request()) {
			return next(c)
		}
		wait := s.limiter.take(actorFrom(c.Request().Context()), slices.Contains(op.scopes, governance.ScopeIngest))
		if wait > 0 {
			return &flows.Error{Code: flows.CodeRateLimited, Message: "too many requests of this principal; slow down, or raise the limit (rate in the settings)",
				Err: &ingest.RetryError{After: wait}}
		}
		return next(c)
	}
}
