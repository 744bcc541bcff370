package ingest

import (
	"sync/atomic"
	"time"

	"pave/flows"
)

// InFlight bounds the bytes of requests that are in memory at once, over all ways in together: bodies while they are read,
// events until they are durable. Safe for concurrent use.
type InFlight struct {
	most int64
	held atomic.Int64
}

// NewInFlight bounds them to most bytes.
func NewInFlight(most int64) *InFlight { return &InFlight{most: most} }

// Hold begins a request. Release it at its end.
func (f *InFlight) Hold() *Held { return &Held{in: f} }

// Held is what one request holds, for one goroutine.
type Held struct {
	in    *InFlight
	bytes int64
}

// Add takes n more bytes. What does not fit beside other requests is refused with CodeFull and a time to come again; a request
// that is alone always fits, for its own limits bound it. Bytes are held even where they are refused: they are there.
func (h *Held) Add(n int64) error {
	h.bytes += n
	if all := h.in.held.Add(n); all <= h.in.most || all == h.bytes {
		return nil
	}
	return &flows.Error{Code: flows.CodeFull, Message: "too many bytes are being received at once; send the request again later", Err: &RetryError{After: time.Second}}
}

// Release gives all back.
func (h *Held) Release() {
	h.in.held.Add(-h.bytes)
	h.bytes = 0
}

// Size estimates the memory of events in bytes.
func Size(events ...Event) (n int64) {
	for i := range events {
		n += eventSize(&events[i])
	}
	return n
}
