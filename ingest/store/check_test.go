package store

import (
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
