package store

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/ingest"
)

func TestCheckEvents(t *testing.T) {
	at := time.Unix(1, 0)
	good := ingest.Event{Kind: ingest.KindSpan, Origin: "trace:a", Received: at}
	require.NoError(t, CheckEvents([]ingest.Event{good, {Kind: ingest.KindToolCall, Origin: "o", Received: at, Call: &ingest.ToolCall{}}}))
	for want, bad := range map[string]ingest.Event{
		"event 1 of 2 has no origin":        {Kind: ingest.KindSpan, Received: at},
		"event 1 of 2 has no received time": {Kind: ingest.KindSpan, Origin: "o"},
		"event 1 of 2 has no known kind":    {Origin: "o", Received: at},
		"event 1 of 2 has no LLM call":      {Kind: ingest.KindLLMCall, Origin: "o", Received: at, Call: &ingest.ToolCall{}},
	} {
		err := CheckEvents([]ingest.Event{good, bad})
		require.ErrorIs(t, err, ErrInvalid)
		require.ErrorContains(t, err, want)
	}
}

// What was read of a session up to the bounds may not be all of it.
func TestAtLimit(t *testing.T) {
	call := func(bytes int) ingest.Event {
		return ingest.Event{Kind: ingest.KindToolCall, Call: &ingest.ToolCall{Tool: "t", Result: make([]byte, bytes)}}
	}
	for name, c := range map[string]struct {
		events []ingest.Event
		want   bool
	}{
		"none":  {nil, false},
		"few":   {[]ingest.Event{call(10), call(1 << 20)}, false},
		"many":  {slices.Repeat([]ingest.Event{call(1)}, MaxSessionEvents), true},
		"fewer": {slices.Repeat([]ingest.Event{call(1)}, MaxSessionEvents-1), false},
		"large": {slices.Repeat([]ingest.Event{call(1 << 20)}, 62), true},
		"half":  {slices.Repeat([]ingest.Event{call(1 << 20)}, 32), false},
	} {
		require.Equal(t, c.want, AtLimit(c.events), name)
	}
}
