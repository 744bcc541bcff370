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
