package assembly

import (
	"context"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"

	"pave/ingest"
	"pave/ingest/store"
)

// Calls lists assembled tool calls over sessions.
type Calls struct {
	Store interface {
		Sessions(ctx context.Context, tenant string, filter store.SessionFilter) (store.Page[ingest.SessionSummary], error)
	}
	Loader Loader
}

// CallFilter selects and pages calls. Empty fields take everything; the time is that of the start of their session.
type CallFilter struct {
	Session, Agent, Tool string
	Status               ingest.Status
	From, To             time.Time
	Limit                int
	Cursor               string
}

// ListedCall is a call with where it stands.
type ListedCall struct {
	Session string
	Run     int // position of the agent run in the session
	Agent   string
	ingest.Call
}

// Sessions are read so many at a time; a page that found too little after listPages of them ends, and has a next one.
const (
	listSessions = 20
	listPages    = 25
)

// callCursor is where a page of calls ended: after a session, and so many calls into the one that follows.
type callCursor struct {
	after   string // a cursor of sessions, which has no colon
	calls   int
	session string // into which; when it is gone nothing of another is skipped
}

func (c callCursor) String() string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.Itoa(c.calls) + ":" + c.after + ":" + c.session))
}

func parseCallCursor(text string) (c callCursor, err error) {
	if text == "" {
		return c, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	parts := strings.SplitN(string(raw), ":", 3)
	if err == nil && len(parts) == 3 {
		c.after, c.session = parts[1], parts[2]
		c.calls, err = strconv.Atoi(parts[0])
	}
	if err != nil || len(parts) != 3 || c.calls < 0 {
		return c, fmt.Errorf("%w %.40q: take the value of next from the page before", store.ErrCursor, text)
	}
	return c, nil
}

// List pages through calls: sessions newest first, the calls of each in their order. A page may have fewer calls than
// the limit, or none, and still a next one. Errors: store.ErrCursor, those of the store.
func (c Calls) List(ctx context.Context, tenant string, f CallFilter) (page store.Page[ListedCall], err error) {
	at, err := parseCallCursor(f.Cursor)
	if err != nil {
		return page, err
	}
	if f.Limit <= 0 {
		f.Limit = store.DefaultLimit
	}
	if f.Session != "" {
		_, err := c.take(ctx, tenant, f, f.Session, &at, &page)
		return page, err
	}
	for range listPages {
		sessions, err := c.Store.Sessions(ctx, tenant, store.SessionFilter{From: f.From, To: f.To, Agent: f.Agent, Tool: f.Tool,
			Limit: listSessions, Cursor: at.after})
		if err != nil {
			return page, err
		}
		for i := range sessions.Items {
			s := &sessions.Items[i]
			full, err := c.take(ctx, tenant, f, s.ID, &at, &page)
			if err != nil || full {
				return page, err
			}
			at = callCursor{after: store.Position{Start: s.Start, ID: s.ID}.Cursor()}
		}
		if sessions.Next == "" {
			return page, nil
		}
	}
	page.Next = at.String()
	return page, nil
}

// take adds the calls of a session to the page, from the cursor on; full: the page is, and ends inside of the session.
func (c Calls) take(ctx context.Context, tenant string, f CallFilter, id string, at *callCursor, page *store.Page[ListedCall]) (full bool, err error) {
	err = c.Loader.Sessions(ctx, tenant, []string{id}, func(s *ingest.Session) error {
		seen := 0
		for run := range s.Runs {
			r := &s.Runs[run]
			for i := range r.Calls {
				seen++
				if s.ID == at.session && seen <= at.calls || !f.takes(r, &r.Calls[i]) {
					continue
				}
				if len(page.Items) == f.Limit {
					full, page.Next = true, callCursor{at.after, seen - 1, s.ID}.String()
					return nil
				}
				page.Items = append(page.Items, ListedCall{Session: s.ID, Run: run, Agent: r.Agent, Call: r.Calls[i]})
			}
		}
		return nil
	})
	return full, err
}

func (f *CallFilter) takes(r *ingest.AgentRun, c *ingest.Call) bool {
	status := c.Status
	if status == "" {
		status = ingest.StatusUnknown
	}
	return (f.Agent == "" || f.Agent == r.Agent) && (f.Tool == "" || f.Tool == c.Tool) && (f.Status == "" || f.Status == status)
}
