package ingest

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"hash"
	"io"
	"math"
	"strconv"
)

// originOf is the origin that an event shows by itself, "" when it has neither trace nor session.
func originOf(e *Event) string {
	switch {
	case e.TraceID != "":
		return "trace:" + e.TraceID
	case e.SessionID != "":
		return "session:" + e.SessionID
	}
	return ""
}

// Identify sets Origin and Identity where they are empty, and returns how many tool calls had nothing to be told by.
// The events must be one request, whole and in order: what has no ids is told by the hash of the request and its
// index in it, so that the same request sent again makes copies, not new calls.
//
//   - trace and span id, when both are there;
//   - session (else trace), call id, tool and turn of a tool call with a call id;
//   - session and content of a model call or user message that has a place in it (turn, seq or time);
//   - session of a session end;
//   - hash of the request and index, for the rest.
func Identify(events []Event) (noIdentity int) {
	var request string // hash of the request, computed when it is first needed
	requestID := func() string {
		if request == "" {
			request = hashRequest(events)
		}
		return request
	}
	for i := range events {
		e := &events[i]
		if e.Identity == "" {
			if e.Identity = identityOf(e); e.Identity == "" {
				e.Identity = requestID() + "." + strconv.Itoa(i)
				if e.Kind == KindToolCall {
					noIdentity++
				}
			}
		}
		if e.Origin == "" {
			if e.Origin = originOf(e); e.Origin == "" {
				e.Origin = "request:" + requestID()
			}
		}
	}
	return noIdentity
}

// identityOf is the identity that an event shows by itself, "" when it shows none.
func identityOf(e *Event) string {
	if e.TraceID != "" && e.SpanID != "" {
		return DeriveIdentity("span", e.TraceID, e.SpanID, strconv.Itoa(int(e.Kind)))
	}
	scope := e.SessionID
	if scope == "" {
		if scope = e.TraceID; scope == "" {
			return ""
		}
	}
	placed := e.HasTurn || e.HasSeq || !e.Start.IsZero()
	switch {
	case e.Kind == KindToolCall && e.Call.CallID != "":
		turn := ""
		if e.HasTurn {
			turn = strconv.Itoa(int(e.Turn))
		}
		return DeriveIdentity("call", scope, e.Call.CallID, e.Call.Tool, turn)
	case e.Kind == KindSessionEnd:
		return DeriveIdentity("end", scope)
	case (e.Kind == KindLLMCall || e.Kind == KindUserMessage) && placed:
		h := newDigest()
		h.text("content", scope)
		h.event(e)
		return h.sum()
	}
	return ""
}

// ShownIdentity is the identity that ids of the event give, "" when it has none of them: of a span, or of a tool call with a
// call id. A store may leave such an identity out and derive it again.
func ShownIdentity(e *Event) string {
	if e.TraceID != "" && e.SpanID != "" || e.Kind == KindToolCall && e.Call.CallID != "" {
		return identityOf(e)
	}
	return ""
}

// SourceTotals is the Source of a session's totals, as recorded sessions have them beside their calls.
const SourceTotals = "file/sessions"

// PlaceIdentity is the identity of an event of a file by its place in its session, "" when it has no such place: its sequence
// number, or that it stands for the whole session.
func PlaceIdentity(e *Event) string {
	switch {
	case e.Source == SourceTotals:
		return DeriveIdentity("file", e.SessionID, "totals")
	case e.HasSeq:
		return DeriveIdentity("file", e.Origin, strconv.Itoa(int(e.Kind)), "seq "+strconv.FormatInt(e.Seq, 10))
	}
	return ""
}

// DeriveIdentity makes an identity from a kind and parts: 128 bits of SHA-256 as 22 characters.
func DeriveIdentity(kind string, parts ...string) string {
	var room [256]byte // enough for most, without a hash in memory of its own
	text := appendText(room[:0], kind)
	for _, part := range parts {
		text = appendText(text, part)
	}
	sum := sha256.Sum256(text)
	return shortened(sum[:])
}

// appendText appends a text with its length before it.
func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// shortened writes the first 128 bits of a hash.
func shortened(sum []byte) string {
	var text [22]byte
	base64.RawURLEncoding.Encode(text[:], sum[:16])
	return string(text[:])
}

// hashRequest digests what the events say, in order.
func hashRequest(events []Event) string {
	h := newDigest()
	for i := range events {
		h.event(&events[i])
	}
	return h.sum()
}

// digest hashes length-prefixed parts, so that no two lists of parts run into each other.
type digest struct {
	h   io.Writer
	sha hash.Hash
	buf []byte
}

func newDigest() *digest {
	h := sha256.New()
	return &digest{h: h, sha: h}
}

// hashEvent digests the event's content into any hash.
func hashEvent(h io.Writer, e *Event) {
	d := digest{h: h}
	d.event(e)
}

func (d *digest) text(parts ...string) {
	for _, s := range parts {
		d.buf = appendText(d.buf, s)
	}
	d.flush()
}

func (d *digest) raw(raw []byte) {
	d.buf = append(binary.AppendUvarint(d.buf, uint64(len(raw))), raw...)
	d.flush()
}

func (d *digest) ints(values ...int64) {
	for _, v := range values {
		d.buf = binary.AppendVarint(d.buf, v)
	}
	d.flush()
}

func (d *digest) flush() {
	_, _ = d.h.Write(d.buf)
	d.buf = d.buf[:0]
}

func (d *digest) sum() string { return shortened(d.sha.Sum(nil)) }

// event digests everything that the sender said: all but Origin, Received and Identity.
func (d *digest) event(e *Event) {
	d.text(e.SessionID, e.TraceID, e.SpanID, e.ParentSpanID, e.RunID, e.Agent, e.Source, string(e.OriginKind))
	var start int64
	if !e.Start.IsZero() {
		start = e.Start.UnixNano()
	}
	d.ints(int64(e.Kind), e.Seq, flag(e.HasSeq), int64(e.Turn), flag(e.HasTurn), start, int64(e.Duration))
	d.raw(e.Metadata)
	if c := e.Call; c != nil {
		d.text(c.Tool, c.CallID, string(c.Status), c.Error)
		d.raw(c.Args)
		d.raw(c.Result)
	}
	if l := e.LLM; l != nil {
		d.text(l.Model)
		d.ints(int64(l.Count), l.InputTokens, l.OutputTokens, l.CachedTokens, int64(math.Float64bits(l.CostUSD)), flag(l.HasCost))
	}
	if e.User != nil {
		d.text(e.User.Text)
	}
}

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
