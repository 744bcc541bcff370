package ingest

import (
	"fmt"
	"sync"
	"time"

	"pave/flows"
)

// Rates are what one key may send a second, on average; bursts of Burst seconds' worth are taken. Zero is no limit.
type Rates struct {
	Requests float64 `yaml:"requests"`
	Records  float64 `yaml:"records"` // spans, log records, records of the JSON API
	Bytes    float64 `yaml:"bytes"`   // of bodies after decompression
}

// rateBurst is how many seconds of an average may come at once.
const rateBurst = 10

// maxRateKeys bounds the keys that are remembered; those that have nothing to pay off are forgotten first.
const maxRateKeys = 10_000

// RateLimiter holds keys to their rates. What a request costs is known only after it was read: a request is let in while its
// key has something left, and what it took is charged afterwards, so that the key waits until that is paid off. Safe for
// concurrent use.
type RateLimiter struct {
	fallback Rates
	own      map[string]Rates
	now      func() time.Time

	mu   sync.Mutex
	keys map[string]*account
}

// account is what a key has left, in the units of Rates.
type account struct {
	left Rates
	at   time.Time
}

// NewRateLimiter limits each key to its own rates, and keys without to those of fallback. now is the clock, nil is time.Now.
func NewRateLimiter(fallback Rates, own map[string]Rates, now func() time.Time) *RateLimiter {
	if now == nil {
		now = time.Now
	}
	return &RateLimiter{fallback: fallback, own: own, now: now, keys: make(map[string]*account)}
}

func (l *RateLimiter) rates(key string) Rates {
	if r, ok := l.own[key]; ok {
		return r
	}
	return l.fallback
}

// Admit lets a request of the key in, or is an error of CodeRateLimited with the time to wait.
func (l *RateLimiter) Admit(key string) error {
	r := l.rates(key)
	if r == (Rates{}) {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.account(key, r)
	wait, of := 0.0, ""
	for _, limit := range [...]struct {
		name       string
		rate, left float64
	}{{"requests", r.Requests, a.left.Requests}, {"records", r.Records, a.left.Records}, {"bytes", r.Bytes, a.left.Bytes}} {
		if limit.rate > 0 && limit.left <= 0 && -limit.left/limit.rate >= wait {
			wait, of = -limit.left/limit.rate, limit.name
		}
	}
	if of == "" {
		a.left.Requests--
		return nil
	}
	after := max(time.Duration(wait*float64(time.Second)), 100*time.Millisecond)
	return &flows.Error{Code: flows.CodeRateLimited, Err: &RetryError{After: after},
		Message: fmt.Sprintf("this key sends more %s a second than it may; send the request again in %s", of, after.Round(100*time.Millisecond))}
}

// Charge takes what an admitted request held.
func (l *RateLimiter) Charge(key string, records int, bytes int64) {
	r := l.rates(key)
	if r == (Rates{}) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.account(key, r)
	a.left.Records -= float64(records)
	a.left.Bytes -= float64(bytes)
}

// account brings a key's account up to date.
func (l *RateLimiter) account(key string, r Rates) *account {
	now := l.now()
	a := l.keys[key]
	if a == nil {
		if len(l.keys) >= maxRateKeys {
			l.forget(now)
		}
		a = &account{left: Rates{r.Requests * rateBurst, r.Records * rateBurst, r.Bytes * rateBurst}, at: now}
		l.keys[key] = a
		return a
	}
	passed := max(0, now.Sub(a.at).Seconds())
	a.at = now
	a.left.Requests = min(a.left.Requests+passed*r.Requests, r.Requests*rateBurst)
	a.left.Records = min(a.left.Records+passed*r.Records, r.Records*rateBurst)
	a.left.Bytes = min(a.left.Bytes+passed*r.Bytes, r.Bytes*rateBurst)
	return a
}

// forget drops the accounts of keys that have been still for the time of a burst; when all are busy, any half.
func (l *RateLimiter) forget(now time.Time) {
	for key, a := range l.keys {
		if now.Sub(a.at) > rateBurst*time.Second {
			delete(l.keys, key)
		}
	}
	for key := range l.keys {
		if len(l.keys) < maxRateKeys/2 {
			return
		}
		delete(l.keys, key)
	}
}
