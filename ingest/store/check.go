package store

import (
	"fmt"

	"pave/ingest"
)

// CheckEvents reports, as ErrInvalid with the index, the first event that cannot be stored: one without Origin or
// Received, of an unknown kind, or without the part that its kind promises. Engines call it before they write.
func CheckEvents(events []ingest.Event) error {
	for i := range events {
		if lack := lacks(&events[i]); lack != "" {
			return fmt.Errorf("%w: event %d of %d has no %s", ErrInvalid, i, len(events), lack)
		}
	}
	return nil
}

// lacks names what is missing, "" when nothing is.
func lacks(e *ingest.Event) string {
	switch {
	case e.Origin == "":
		return "origin"
	case e.Received.IsZero():
		return "received time"
	}
	switch e.Kind {
	case ingest.KindToolCall:
		if e.Call == nil {
			return "call"
		}
	case ingest.KindLLMCall:
		if e.LLM == nil {
			return "LLM call"
		}
	case ingest.KindUserMessage:
		if e.User == nil {
			return "user message"
		}
	case ingest.KindSessionEnd, ingest.KindSpan:
	default:
		return "known kind"
	}
	return ""
}
