package store

import "context"

// Deleter removes what was recorded, for good.
type Deleter interface {
	// Delete removes the sessions: every event of theirs, copies included, what was derived from them, and that they
	// were ever there. Of an origin that other sessions share, the events that ingest.Belongs gives to the deleted ones
	// go, and the other sessions become dirty. Unknown sessions are skipped. Events that arrive later make a session of
	// the same name anew. When it returns nil nothing of the events can be read any more, neither through the store nor
	// in the pages of its files, save where the engine says otherwise. An error may leave a part deleted; again is safe.
	Delete(ctx context.Context, tenant string, sessionIDs []string) (Deleted, error)
}

// Deleted counts what a Delete removed: events as stored (copies included), and tool calls among them.
type Deleted struct {
	Sessions, Events, ToolCalls int64
}

// Add sums up.
func (d *Deleted) Add(more Deleted) {
	d.Sessions += more.Sessions
	d.Events += more.Events
	d.ToolCalls += more.ToolCalls
}
