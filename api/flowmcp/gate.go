package flowmcp

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"pave/flows"
	"pave/governance"
	"pave/ingest"
)

// Rates of one principal, by default.
const (
	DefaultRate  = 60 // requests a second
	defaultBurst = 2  // times the rate
)

// maxLimiters bounds the memory of callers that were seen; past it all begin anew.
const maxLimiters = 10_000

// limits hold each caller to a rate, and to a number of runs at a time.
type limits struct {
	rate   float64
	atOnce int

	mu  sync.Mutex
	per map[string]*allowance
}

// allowance is what one caller may do.
type allowance struct {
	rate   *rate.Limiter
	places chan struct{}
}

func (l *limits) of(who string) *allowance {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.per[who]
	if a == nil {
		if len(l.per) >= maxLimiters {
			clear(l.per)
		}
		a = &allowance{rate.NewLimiter(rate.Limit(l.rate), int(math.Ceil(l.rate*defaultBurst))), make(chan struct{}, l.atOnce)}
		l.per[who] = a
	}
	return a
}

// admit takes one request of a caller in, or says when to come again.
func (l *limits) admit(who string) error {
	if l.of(who).rate.Allow() {
		return nil
	}
	return &flows.Error{Code: flows.CodeRateLimited, Message: fmt.Sprintf("CW-E046: more than %g requests a second; slow down", l.rate),
		Err: &ingest.RetryError{After: time.Second}}
}

// Admit is the gate before authorisation: it holds the caller to a rate.
func (s *Server) Admit(actor governance.Actor) error {
	return s.limits.admit(owner(actor))
}

// Denied keeps a refusal of the gate before a call: actor is empty when nobody was authenticated.
func (s *Server) Denied(actor governance.Actor, err error) {
	reason := "refused"
	if known := new(flows.Error); errors.As(err, &known) {
		reason = string(known.Code)
	}
	s.audit.add(governance.GateDecision{Actor: actor.Principal, Action: "mcp.request", Object: "mcp", Reason: reason})
}
