package executor

import (
	"slices"
	"strings"
	"time"

	"pave/flows"
)

// Backoff is the delay before retry k (1 is the first): backoff_seconds * multiplier^(k-1), at most
// max_backoff_seconds, times jitter when the policy wants it. k below 1 is 0. jitter lies within [0.5, 1.5).
func Backoff(p *flows.RetryPolicy, k int, jitter float64) time.Duration {
	if k < 1 {
		return 0
	}
	seconds := p.BackoffSeconds
	for range k - 1 {
		seconds *= max(p.BackoffMultiplier, 1)
	}
	if p.MaxBackoffSeconds > 0 {
		seconds = min(seconds, p.MaxBackoffSeconds)
	}
	if p.Jitter {
		seconds *= jitter
	}
	const most = float64(1<<62) / float64(time.Second)
	return time.Duration(min(seconds, most) * float64(time.Second))
}

// retryable reports whether the policy retries a failure: its neutral class is listed, or the class name that the
// tool reported, or any ("builtins:Exception", or an empty list). A final failure is never retried.
func retryable(p *flows.RetryPolicy, f *failure) bool {
	return !f.final && (len(p.RetryableErrors) == 0 || slices.ContainsFunc(p.RetryableErrors, func(filter string) bool {
		_, name, imported := strings.Cut(filter, ":")
		if !imported {
			return filter == f.class
		}
		if same, ok := sameClass[name]; ok {
			name = same
		}
		return name == "Exception" || name == "BaseException" || name == f.typ
	}))
}

// sameClass are names of imported filters that stand for another name.
var sameClass = map[string]string{"IOError": "OSError", "EnvironmentError": "OSError", "ValidationError": "ValueError"}
