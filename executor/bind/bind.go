// Package bind holds what the ways to tools below it share: the guard of outgoing connections, and the time that a
// call may take.
package bind

import (
	"context"
	"time"
)

// WithMargin ends a little before ctx does, so that a binding can still say what it was waiting for: an answer that
// comes after the deadline of a call is no longer looked at. Without a deadline it only adds the cancel.
func WithMargin(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	left := time.Until(deadline)
	return context.WithTimeout(ctx, left-min(left/10, 50*time.Millisecond))
}

// Progress is what a tool says of a call that goes on. Total is 0 when it is not known.
type Progress struct {
	Tool    string
	Done    float64
	Total   float64
	Message string
}

type progressKey struct{}

// WithProgress returns a context whose calls report their progress to fn, which must return soon and is called from
// other goroutines.
func WithProgress(ctx context.Context, fn func(Progress)) context.Context {
	return context.WithValue(ctx, progressKey{}, fn)
}

// Report hands a call's progress to whoever listens.
func Report(ctx context.Context, p Progress) {
	if fn, ok := ctx.Value(progressKey{}).(func(Progress)); ok {
		fn(p)
	}
}
