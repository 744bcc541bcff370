package observer

import (
	"context"
	"strings"

	"pave/ingest"
)

// keptSession is what inference needs of a session, without pointers into what the store gave: arguments and results of
// its calls, and what users wrote. It does not change.
type keptSession struct {
	id      string
	runs    []recordedRun
	payload []byte // arguments and results, one call after the other
}

type recordedRun struct {
	calls []recordedCall
	users []ingest.UserTurn // texts in lower case
}

type recordedCall struct {
	at           int // in the payload
	args, result int // their sizes, 0 when they were not recorded
	wave         int // number of the assistant turn, as normalisation counts turns
}

func newKeptSession(s *ingest.Session) *keptSession {
	t := &keptSession{id: strings.Clone(s.ID), runs: make([]recordedRun, len(s.Runs))}
	size := 0
	for r := range s.Runs {
		for i := range s.Runs[r].Calls {
			size += len(s.Runs[r].Calls[i].Args) + len(s.Runs[r].Calls[i].Result)
		}
	}
	t.payload = make([]byte, 0, size)
	for r := range s.Runs {
		from, to := &s.Runs[r], &t.runs[r]
		to.calls = make([]recordedCall, len(from.Calls))
		wave := 0
		for i := range from.Calls {
			c := &from.Calls[i]
			if i > 0 && c.Flags&ingest.FlagParallel == 0 {
				wave++
			}
			to.calls[i] = recordedCall{at: len(t.payload), args: len(c.Args), result: len(c.Result), wave: wave}
			t.payload = append(append(t.payload, c.Args...), c.Result...)
		}
		for _, u := range from.Users {
			to.users = append(to.users, ingest.UserTurn{Before: u.Before, Text: strings.Clone(strings.ToLower(u.Text))})
		}
	}
	return t
}

// payloads are the arguments and the result of a call as they were recorded, empty when they were not.
func (t *keptSession) payloads(run, i int) (args, result []byte) {
	c := &t.runs[run].calls[i]
	middle, end := c.at+c.args, c.at+c.args+c.result
	return t.payload[c.at:middle:middle], t.payload[middle:end:end]
}

// size is about how many bytes the keptSession takes.
func (t *keptSession) size() int {
	n := len(t.payload)
	for r := range t.runs {
		n += callBytes * len(t.runs[r].calls)
		for _, u := range t.runs[r].users {
			n += len(u.Text)
		}
	}
	return n
}

// callBytes is what a call takes beside its payload.
const callBytes = 32

// keptSessions are those that were read once and may be asked for again, since samples share sessions.
type keptSessions struct {
	byID map[string]*keptSession
	room int // bytes that may still be kept
}

// keptBytes bounds what a pass keeps of sessions.
const keptBytes = 96 << 20

func newKeptSessions() *keptSessions {
	return &keptSessions{byID: map[string]*keptSession{}, room: keptBytes}
}

// has reports whether a session is kept.
func (k *keptSessions) has(id string) bool { return k.byID[id] != nil }

// read calls fn with each of the sessions: those that are kept first, then those that are left, which it keeps while
// there is room. Errors are those of the source and of ctx.
func (k *keptSessions) read(ctx context.Context, src Source, ids []string, fn func(*keptSession)) error {
	var unread []string
	for _, id := range ids {
		t, ok := k.byID[id]
		if !ok {
			unread = append(unread, id)
			continue
		}
		if fn(t); ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if len(unread) == 0 {
		return nil
	}
	return src.Sessions(ctx, unread, func(s *ingest.Session) error {
		t := newKeptSession(s)
		if size := t.size(); size <= k.room {
			k.room -= size
			k.byID[t.id] = t
		}
		fn(t)
		return ctx.Err()
	})
}
