package executor

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// Key is the idempotency key of the call: the same for every attempt of one effect of one run.
func (c CallInfo) Key() string {
	place := c.Path
	if place == "" {
		place = strconv.Itoa(c.StepIndex)
	}
	key := c.RunID + "-" + place
	if c.Fallback {
		key += "-fallback"
	}
	return key
}

// Traceparent is the W3C trace context of the call: the run's trace, and a span id that is derived from the call. It
// is "" for a trace id that is not one of 32 hex digits.
func (c CallInfo) Traceparent() string {
	id := strings.ToLower(strings.ReplaceAll(c.TraceID, "-", ""))
	if raw, err := hex.DecodeString(id); err != nil || len(raw) != 16 || id == strings.Repeat("0", 32) {
		return ""
	}
	span := sha256.Sum256(fmt.Appendf(nil, "%s/%d/%d", c.Key(), c.StepIndex, c.Attempt))
	return "00-" + id + "-" + hex.EncodeToString(span[:8]) + "-01"
}

// TraceStateKey is the member of a W3C tracestate under which pave passes the id of a run on to its tools. Spans that
// a tool exports carry it back, so that they are known for steps of the run.
const TraceStateKey = "pave"

// Tracestate goes with Traceparent.
func (c CallInfo) Tracestate() string {
	if c.RunID == "" {
		return ""
	}
	return TraceStateKey + "=" + c.RunID
}
