package transcript

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"pave/ingest"
	"pave/ingest/rawjson"
)

// dialogue turns what one agent's conversation tells, in order, into events. Every answer of the model is a turn,
// numbered from 1; results are paired with calls by id, the latest unanswered one first, else by position in the turn.
//
// Identities are made of the session and the position in it, so that the same file gives the same events and a file
// that has grown completes them.
type dialogue struct {
	template ingest.Event // header of every event: origin, session, source, agent, run
	failed   func(result string) bool
	events   []ingest.Event
	turn     int32
	calls    []int // events of calls without a result
	fresh    int   // calls before this index of calls are of earlier turns
	n        int   // events so far
	nameless int   // calls that were left out because they name no tool
	emitted  int   // events that were given to emit
	emit     func(...ingest.Event) error
}

// maxHeld bounds the events of a conversation that wait for results.
const maxHeld = 4096

// session starts a conversation of a session.
func (s *sink) session(in *input, id, source string) *dialogue {
	return &dialogue{
		template: ingest.Event{Origin: "session:" + id, SessionID: id, Source: source, OriginKind: ingest.OriginAgent},
		emit:     s.add,
	}
}

func (d *dialogue) event(kind ingest.Kind, at time.Time) *ingest.Event {
	e := d.template
	e.Kind, e.Start = kind, at
	e.Turn, e.HasTurn = d.turn, true
	e.Identity = ingest.DeriveIdentity("file", e.Origin, e.RunID, "message", strconv.Itoa(d.n))
	d.n++
	d.events = append(d.events, e)
	return &d.events[len(d.events)-1]
}

// user adds a message of the user.
func (d *dialogue) user(text string, at time.Time) {
	e := d.event(ingest.KindUserMessage, at)
	e.Turn++ // the turn that answers it
	e.User = &ingest.UserMessage{Text: text}
}

// unknownUsage is a model call of which nothing is known.
func unknownUsage() ingest.LLMCall {
	return ingest.LLMCall{Count: 1, InputTokens: -1, OutputTokens: -1, CachedTokens: -1}
}

// answer starts the next turn with a model call, and returns its place for usage.
func (d *dialogue) answer(l ingest.LLMCall, at time.Time) int {
	d.turn++
	d.fresh = len(d.calls)
	d.event(ingest.KindLLMCall, at).LLM = &l
	return d.place()
}

// place is the place of the event that was added last; at finds it again, nil when it has been given away.
func (d *dialogue) place() int { return d.emitted + len(d.events) - 1 }

func (d *dialogue) at(place int) *ingest.Event {
	if place -= d.emitted; place >= 0 && place < len(d.events) {
		return &d.events[place]
	}
	return nil
}

// call adds a tool call that the model asked for and returns its place, -1 when it names no tool.
func (d *dialogue) call(id, tool string, args []byte, at time.Time) int {
	if tool == "" {
		d.nameless++
		return -1
	}
	e := d.event(ingest.KindToolCall, at)
	e.Call = &ingest.ToolCall{Tool: tool, CallID: id, Args: ingest.NormaliseArgs(args), Status: ingest.StatusUnknown}
	d.calls = append(d.calls, d.place())
	return d.place()
}

// outcome is a result as its file tells it.
type outcome struct {
	result  []byte // JSON; nil when there is none
	failed  bool   // the file says so
	message string // of the failure
	at      time.Time
}

// result completes the call that it answers and reports whether there is one.
func (d *dialogue) result(id string, o outcome) bool {
	at := -1
	for i := len(d.calls) - 1; i >= 0 && at < 0; i-- {
		if e := d.at(d.calls[i]); e != nil && id != "" && e.Call.CallID == id {
			at = i
		}
	}
	for i := d.fresh; i < len(d.calls) && at < 0; i++ {
		if e := d.at(d.calls[i]); e != nil && (id == "" || e.Call.CallID == "") {
			at = i
		}
	}
	if at < 0 {
		return false
	}
	e := d.at(d.calls[at])
	d.calls = append(d.calls[:at], d.calls[at+1:]...)
	if at < d.fresh {
		d.fresh--
	}
	d.complete(e, o)
	return true
}

func (d *dialogue) complete(e *ingest.Event, o outcome) {
	e.Call.Status, e.Call.Result = ingest.StatusOK, o.result
	text := rawjson.Text(o.result)
	if o.failed || d.failed != nil && d.failed(text) {
		e.Call.Status, e.Call.Error = ingest.StatusError, o.message
		if e.Call.Error == "" {
			e.Call.Error = text
		}
	}
	if !o.at.IsZero() && o.at.After(e.Start) && !e.Start.IsZero() && e.Duration == 0 {
		e.Duration = o.at.Sub(e.Start)
	}
}

// settle gives away what waits for nothing, and the oldest events when too many wait. The current turn waits: files tell
// more of it behind its results.
func (d *dialogue) settle() error {
	n := 0
	for n < len(d.events) && d.events[n].Turn < d.turn {
		n++
	}
	for _, place := range d.calls {
		if at := place - d.emitted; at >= 0 && at < n {
			n = at
		}
	}
	if len(d.events)-n > maxHeld {
		n = len(d.events) - maxHeld/2
	}
	return d.give(n)
}

// finish gives away everything.
func (d *dialogue) finish() error { return d.give(len(d.events)) }

func (d *dialogue) give(n int) error {
	if n == 0 {
		return nil
	}
	given := d.events[:n:n]
	d.events = append([]ingest.Event(nil), d.events[n:]...)
	d.emitted += n
	lost := 0 // calls that were given away without a result
	for lost < len(d.calls) && d.calls[lost] < d.emitted {
		lost++
	}
	d.calls, d.fresh = d.calls[lost:], max(0, d.fresh-lost)
	return d.emit(given...)
}

// provenance is the metadata of an event that a line of a file tells of.
func (in *input) provenance(line int) json.RawMessage {
	m := rawjson.AppendString([]byte(`{"file":`), in.name)
	return append(strconv.AppendInt(append(m, `,"line":`...), int64(line), 10), '}')
}

// resultOf reads a tool message: these files hold JSON of any kind as text, numbers included.
func resultOf(content string) json.RawMessage {
	trimmed := strings.TrimSpace(content)
	if k := rawjson.Kind([]byte(trimmed)); k != 0 && k != '"' && rawjson.Valid([]byte(trimmed), rawjson.Limits{}) == nil {
		return json.RawMessage(trimmed)
	}
	return rawjson.Quote(content)
}

// timeOf reads a time of any of the forms in these files: RFC 3339 text, with or without zone, or a number of seconds
// or milliseconds. It is zero when it is none.
func timeOf(raw []byte) time.Time {
	text := rawjson.Text(raw)
	if rawjson.Kind(raw) == '0' {
		f, err := strconv.ParseFloat(string(raw), 64)
		if err != nil || f <= 0 || f > 1e14 {
			return time.Time{}
		}
		if f > 1e11 { // milliseconds
			f /= 1000
		}
		sec := int64(f)
		return storable(time.Unix(sec, int64((f-float64(sec))*1e9)).UTC().Round(time.Microsecond))
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02 15:04:05.999999999"} {
		if t, err := time.Parse(layout, text); err == nil {
			return storable(t.UTC())
		}
	}
	return time.Time{}
}

func storable(t time.Time) time.Time {
	if t.Year() < 1970 || t.Year() >= 2262 {
		return time.Time{}
	}
	return t
}

// count reads a number of tokens, -1 when it is none.
func count(raw []byte) int64 {
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || n < 0 {
		return -1
	}
	return n
}
