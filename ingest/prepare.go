package ingest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"pave/ingest/rawjson"
)

// prepare makes an event fit to be stored: secrets hidden first, so that no half of one survives a cut, then payloads
// and texts cut to their limits. It reports whether something was cut.
func prepare(e *Event, redact Redactor, limits *Limits) (cut bool) {
	e.Metadata = redactRaw(redact, e.Metadata)
	if len(e.Metadata) > limits.Payload {
		e.Metadata, cut = cutPayload(e.Metadata), true
	}
	if u := e.User; u != nil {
		if u.Text = redact.RedactText(u.Text); len(u.Text) > limits.Text {
			u.Text, cut = cutText(u.Text, limits.Text), true
		}
	}
	c := e.Call
	if c == nil {
		return cut
	}
	c.Error = cutText(redact.RedactText(c.Error), limits.Text)
	c.Args, c.Result = redactRaw(redact, c.Args), redactRaw(redact, c.Result)
	for _, payload := range []*json.RawMessage{&c.Args, &c.Result} {
		if len(*payload) > limits.Payload {
			*payload = cutPayload(*payload)
			c.Truncated, cut = true, true
		}
	}
	return cut
}

func redactRaw(redact Redactor, raw json.RawMessage) json.RawMessage {
	if raw == nil {
		return raw
	}
	return redact.Redact(raw)
}

// cutHead is how much of a payload above the limit is kept for people to read.
const cutHead = 8 << 10

// cutPayload stands for a payload above the limit: its size and digest, and how it began.
func cutPayload(raw []byte) json.RawMessage {
	sum := sha256.Sum256(raw)
	out := slices.Concat([]byte(`{"pave_truncated":true,"bytes":`), strconv.AppendInt(nil, int64(len(raw)), 10),
		[]byte(`,"sha256":"`+hex.EncodeToString(sum[:])+`","head":`))
	head := strings.ToValidUTF8(string(raw[:min(cutHead, len(raw))]), "")
	return append(rawjson.AppendString(out, head), '}')
}
