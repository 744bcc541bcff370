package value

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// Limits of one decoded document; zero means the default.
type Limits struct {
	Depth int // nesting of arrays and objects, MaxDepth
	Nodes int // values in all, MaxNodes
}

const (
	// MaxDepth is the default limit of nesting.
	MaxDepth = 64
	// MaxNodes is the default limit of values in one document.
	MaxNodes = 1 << 20
)

// Names of the limits in Error.Limit.
const (
	LimitDepth = "max_depth"
	LimitNodes = "max_nodes"
)

// Error says why and where a document is not taken.
type Error struct {
	Offset int // byte offset
	Msg    string
	Limit  string // LimitDepth or LimitNodes when a limit was passed
}

func (e *Error) Error() string { return fmt.Sprintf("invalid JSON at byte %d: %s", e.Offset, e.Msg) }

// Decode reads one JSON document within the default limits. A repeated key keeps its last value.
// Errors are *Error.
func Decode(data []byte) (any, error) { return decode(data, Limits{}, false, false) }

// DecodeStrict is Decode that refuses repeated keys.
func DecodeStrict(data []byte) (any, error) { return decode(data, Limits{}, true, false) }

// DecodeOrdered reads one JSON document, refuses repeated keys and returns every object as Members.
func DecodeOrdered(data []byte, limits Limits) (any, error) {
	return decode(data, limits, true, true)
}

func decode(data []byte, limits Limits, strict, ordered bool) (any, error) {
	d := decoder{data: data, strict: strict, ordered: ordered, depth: limits.Depth, nodes: limits.Nodes}
	if d.depth == 0 {
		d.depth = MaxDepth
	}
	if d.nodes == 0 {
		d.nodes = MaxNodes
	}
	v, err := d.value()
	if err != nil {
		return nil, err
	}
	if d.space(); d.pos < len(data) {
		return nil, d.fail("unexpected data after the document")
	}
	return v, nil
}

// decoder is a recursive descent over the document; depth and nodes count down.
type decoder struct {
	data            []byte
	pos             int
	depth, nodes    int
	strict, ordered bool
}

func (d *decoder) fail(msg string) error { return &Error{Offset: d.pos, Msg: msg} }

func (d *decoder) space() {
	for d.pos < len(d.data) {
		switch d.data[d.pos] {
		case ' ', '\t', '\n', '\r':
			d.pos++
		default:
			return
		}
	}
}

// peek returns the next byte that is not white space, 0 at the end.
func (d *decoder) peek() byte {
	d.space()
	if d.pos == len(d.data) {
		return 0
	}
	return d.data[d.pos]
}

func (d *decoder) value() (any, error) {
	if d.nodes--; d.nodes < 0 {
		return nil, &Error{Offset: d.pos, Msg: "too many values", Limit: LimitNodes}
	}
	switch c := d.peek(); {
	case c == '{':
		return d.nested(d.object)
	case c == '[':
		return d.nested(d.array)
	case c == '"':
		return d.text()
	case c == '-' || c >= '0' && c <= '9':
		return d.number()
	case c == 't':
		return true, d.word("true")
	case c == 'f':
		return false, d.word("false")
	case c == 'n':
		return nil, d.word("null")
	case c == 0 && d.pos == len(d.data):
		return nil, d.fail("unexpected end")
	}
	return nil, d.fail(fmt.Sprintf("unexpected character %q", d.data[d.pos]))
}

func (d *decoder) nested(read func() (any, error)) (any, error) {
	if d.depth--; d.depth < 0 {
		return nil, &Error{Offset: d.pos, Msg: "nested too deeply", Limit: LimitDepth}
	}
	d.pos++
	v, err := read()
	d.depth++
	return v, err
}

func (d *decoder) word(w string) error {
	if !bytes.HasPrefix(d.data[d.pos:], []byte(w)) {
		return d.fail("unknown word")
	}
	d.pos += len(w)
	return nil
}

func (d *decoder) array() (any, error) {
	out := []any{}
	if d.peek() == ']' {
		d.pos++
		return out, nil
	}
	for {
		v, err := d.value()
		if err != nil {
			return nil, err
		}
		out = append(out, v)
		switch d.peek() {
		case ',':
			d.pos++
		case ']':
			d.pos++
			return out, nil
		default:
			return nil, d.fail("expected , or ]")
		}
	}
}

func (d *decoder) object() (any, error) {
	plain := map[string]any{}
	var members Members
	if d.ordered {
		members = Members{}
	}
	done := func() (any, error) {
		d.pos++
		if d.ordered {
			return members, nil
		}
		return plain, nil
	}
	if d.peek() == '}' {
		return done()
	}
	for {
		if d.peek() != '"' {
			return nil, d.fail("expected a key")
		}
		at := d.pos
		key, err := d.text()
		if err != nil {
			return nil, err
		}
		if d.strict {
			if _, dup := plain[key]; dup {
				return nil, &Error{Offset: at, Msg: fmt.Sprintf("duplicate key %q", key)}
			}
		}
		if d.peek() != ':' {
			return nil, d.fail("expected :")
		}
		d.pos++
		v, err := d.value()
		if err != nil {
			return nil, err
		}
		if d.ordered {
			plain[key] = nil // only to see repeats
			members = append(members, Member{key, v})
		} else {
			plain[key] = v
		}
		switch d.peek() {
		case ',':
			d.pos++
		case '}':
			return done()
		default:
			return nil, d.fail("expected , or }")
		}
	}
}

// text reads a string. Invalid UTF-8 and lone surrogates become U+FFFD, as in encoding/json.
func (d *decoder) text() (string, error) {
	start := d.pos
	plain := true
	for i := start + 1; i < len(d.data); i++ {
		switch c := d.data[i]; {
		case c == '"':
			d.pos = i + 1
			if raw := d.data[start+1 : i]; plain && (isASCII(raw) || utf8.Valid(raw)) {
				return string(raw), nil
			}
			var s string
			if err := json.Unmarshal(d.data[start:i+1], &s); err != nil {
				return "", &Error{Offset: start, Msg: "malformed string escape"}
			}
			return s, nil
		case c == '\\':
			plain = false
			i++
		case c < ' ':
			return "", &Error{Offset: i, Msg: "control character in a string"}
		}
	}
	return "", &Error{Offset: start, Msg: "string without end"}
}

func isASCII(b []byte) bool {
	for _, c := range b {
		if c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func (d *decoder) number() (any, error) {
	start := d.pos
	digits := func() bool {
		from := d.pos
		for d.pos < len(d.data) && d.data[d.pos] >= '0' && d.data[d.pos] <= '9' {
			d.pos++
		}
		return d.pos > from
	}
	at := func(set string) bool {
		return d.pos < len(d.data) && bytes.IndexByte([]byte(set), d.data[d.pos]) >= 0
	}
	if at("-") {
		d.pos++
	}
	if at("0") {
		d.pos++
	} else if !digits() {
		return nil, d.fail("expected a digit")
	}
	if at(".") {
		d.pos++
		if !digits() {
			return nil, d.fail("expected a digit")
		}
	}
	if at("eE") {
		d.pos++
		if at("+-") {
			d.pos++
		}
		if !digits() {
			return nil, d.fail("expected a digit")
		}
	}
	v, ok := number(string(d.data[start:d.pos]))
	if !ok {
		return nil, &Error{Offset: start, Msg: "number out of range"}
	}
	return v, nil
}
