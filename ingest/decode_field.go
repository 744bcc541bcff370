package ingest

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"pave/ingest/rawjson"
)

// str reads a text member; absent and null are "".
func (p *recordParser) str(f field, limit int) string {
	raw := p.known[f].raw
	switch rawjson.Kind(raw) {
	case 0, 'n':
		return ""
	case '"':
		text := rawjson.Text(raw)
		if len(text) > limit {
			p.fail(f, fmt.Sprintf("at most %d bytes", limit))
		}
		return text
	}
	p.fail(f, "must be a string")
	return ""
}

// id is str that takes numbers as text.
func (p *recordParser) id(f field, limit int) string {
	if raw := p.known[f].raw; rawjson.Kind(raw) == '0' && len(raw) <= limit {
		return string(raw)
	}
	return p.str(f, limit)
}

func (p *recordParser) int(f field, low, high int64) (int64, bool) {
	raw := p.known[f].raw
	if k := rawjson.Kind(raw); k == 0 || k == 'n' {
		return 0, false
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || n < low || n > high {
		p.fail(f, fmt.Sprintf("must be an integer from %d to %d", low, high))
		return 0, false
	}
	return n, true
}

func (p *recordParser) float(f field) (float64, bool) {
	raw := p.known[f].raw
	if k := rawjson.Kind(raw); k == 0 || k == 'n' {
		return 0, false
	}
	n, err := strconv.ParseFloat(string(raw), 64)
	if err != nil {
		p.fail(f, "must be a number")
		return 0, false
	}
	return n, true
}

func (p *recordParser) bool(f field) bool {
	switch rawjson.Kind(p.known[f].raw) {
	case 't':
		return true
	case 0, 'n', 'f':
		return false
	}
	p.fail(f, "must be true or false")
	return false
}

// timeLayouts: RFC 3339, and the forms without a zone, read as UTC, that people's logs have.
var timeLayouts = []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02 15:04:05.999999999"}

// time reads a time as text, or as seconds since 1970.
func (p *recordParser) time(f field) time.Time {
	raw := p.known[f].raw
	switch rawjson.Kind(raw) {
	case 0, 'n':
		return time.Time{}
	case '0':
		if sec, ok := p.float(f); ok && sec >= 0 && sec < 9e9 {
			return time.Unix(0, 0).Add(time.Duration(sec * 1e9)).UTC()
		}
	case '"':
		text := rawjson.Text(raw)
		for _, layout := range timeLayouts {
			if t, err := time.Parse(layout, text); err == nil && storableTime(t) {
				return t.UTC()
			}
		}
	}
	p.fail(f, `must be a time such as "2026-11-30T09:00:00.123Z"`)
	return time.Time{}
}

// storableTime: the stores keep nanoseconds since 1970 in 64 bits.
func storableTime(t time.Time) bool { return t.Year() >= 1970 && t.Year() < 2262 }

// cutText cuts text to at most limit bytes, at a character, and says so at its end.
func cutText(text string, limit int) string {
	const mark = " [cut]"
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:max(0, limit-len(mark))], "") + mark
}
