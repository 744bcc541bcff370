// Package rawjson walks JSON text without decoding it: a validating pull scanner over one document, and a reader
// that cuts a stream into records. Payloads of observed calls stay the bytes that arrived, so the way from socket
// to disk costs about a nanosecond a byte.
//
// Accepted is RFC 8259 with limits. A repeated key is no error here; the last one counts for whoever reads it.
package rawjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// Limits of one document; zero means the default.
type Limits struct {
	Depth  int // nesting of arrays and objects, 64
	Tokens int // values and keys in all, 100,000
	Number int // bytes of a number literal, 400
}

// Default limits.
const (
	MaxDepth  = 64
	MaxTokens = 100_000
	MaxNumber = 400
)

// Error says why and where a document is not taken.
type Error struct {
	Offset  int
	Msg     string
	IsLimit bool // a limit was passed; the text may be valid JSON
}

func (e *Error) Error() string { return fmt.Sprintf("%s at byte %d", e.Msg, e.Offset) }

// Scanner is a pull scanner over Data. The zero value with Data set is ready to use. Slices that it returns
// alias Data.
type Scanner struct {
	Data   []byte
	Pos    int
	Limits Limits

	depth  int
	tokens int
	first  bool // the container at Pos has just been opened
}

// Peek returns the next byte that is not white space, 0 at the end.
func (s *Scanner) Peek() byte {
	s.space()
	if s.Pos < len(s.Data) {
		return s.Data[s.Pos]
	}
	return 0
}

// Open consumes c, '{' or '['.
func (s *Scanner) Open(c byte) error {
	if s.Peek() != c {
		return s.unexpected(map[byte]string{'{': "an object", '[': "an array"}[c])
	}
	s.Pos++
	s.first = true
	return s.enter()
}

// Key returns the next key of the open object, unescaped, and consumes the colon; more is false when the object
// ended instead.
func (s *Scanner) Key() (key []byte, more bool, err error) {
	if more, err = s.member('}'); !more || err != nil {
		return nil, false, err
	}
	if s.Peek() != '"' {
		return nil, false, s.unexpected("a key in quotes")
	}
	start := s.Pos
	escaped, err := s.str()
	if err != nil {
		return nil, false, err
	}
	key = s.Data[start+1 : s.Pos-1]
	if escaped {
		text, err := Unquote(s.Data[start:s.Pos])
		if err != nil {
			return nil, false, s.fail(start, "invalid key")
		}
		key = []byte(text)
	}
	if s.Peek() != ':' {
		return nil, false, s.unexpected("a colon after the key")
	}
	s.Pos++
	return key, true, nil
}

// Next reports whether the open array has another element, which is then at Pos.
func (s *Scanner) Next() (more bool, err error) { return s.member(']') }

// Value validates one value and returns its text without white space around it.
func (s *Scanner) Value() (raw []byte, err error) {
	s.space()
	start := s.Pos
	if err := s.skip(); err != nil {
		return nil, err
	}
	return s.Data[start:s.Pos], nil
}

// End is an error unless only white space is left.
func (s *Scanner) End() error {
	if s.Peek() != 0 || s.Pos < len(s.Data) {
		return s.unexpected("the end of the document")
	}
	return nil
}

// Valid checks that data is exactly one document.
func Valid(data []byte, limits Limits) error {
	s := Scanner{Data: data, Limits: limits}
	if _, err := s.Value(); err != nil {
		return err
	}
	return s.End()
}

func (s *Scanner) member(closing byte) (more bool, err error) {
	first := s.first
	s.first = false
	switch c := s.Peek(); {
	case c == closing:
		s.Pos++
		s.depth--
		return false, nil
	case first && c != 0:
		return true, nil
	case c == ',':
		s.Pos++
		if s.Peek() == closing {
			return false, s.unexpected("another value after the comma")
		}
		return true, nil
	}
	return false, s.unexpected("a comma or " + strconv.QuoteRune(rune(closing)))
}

// skip validates the value at Pos.
func (s *Scanner) skip() error {
	if s.tokens++; s.tokens > limit(s.Limits.Tokens, MaxTokens) {
		return s.over("more than %d values", limit(s.Limits.Tokens, MaxTokens))
	}
	if s.Pos >= len(s.Data) {
		return s.unexpected("a value")
	}
	switch c := s.Data[s.Pos]; {
	case c == '"':
		_, err := s.str()
		return err
	case c == '{':
		if err := s.Open('{'); err != nil {
			return err
		}
		for {
			if more, err := s.skipKey(); !more || err != nil {
				return err
			}
			s.space()
			if err := s.skip(); err != nil {
				return err
			}
		}
	case c == '[':
		if err := s.Open('['); err != nil {
			return err
		}
		for {
			if more, err := s.member(']'); !more || err != nil {
				return err
			}
			if err := s.skip(); err != nil {
				return err
			}
		}
	case c == '-' || c >= '0' && c <= '9':
		return s.number()
	case c == 't':
		return s.word("true")
	case c == 'f':
		return s.word("false")
	case c == 'n':
		return s.word("null")
	}
	return s.unexpected("a value")
}

// skipKey is Key without the key.
func (s *Scanner) skipKey() (more bool, err error) {
	if more, err = s.member('}'); !more || err != nil {
		return false, err
	}
	if s.Peek() != '"' {
		return false, s.unexpected("a key in quotes")
	}
	if s.tokens++; s.tokens > limit(s.Limits.Tokens, MaxTokens) {
		return false, s.over("more than %d values", limit(s.Limits.Tokens, MaxTokens))
	}
	if _, err = s.str(); err != nil {
		return false, err
	}
	if s.Peek() != ':' {
		return false, s.unexpected("a colon after the key")
	}
	s.Pos++
	return true, nil
}

func (s *Scanner) enter() error {
	if s.depth++; s.depth > limit(s.Limits.Depth, MaxDepth) {
		return s.over("nested more than %d deep", limit(s.Limits.Depth, MaxDepth))
	}
	return nil
}

func (s *Scanner) space() {
	for s.Pos < len(s.Data) {
		switch s.Data[s.Pos] {
		case ' ', '\t', '\n', '\r':
			s.Pos++
		default:
			return
		}
	}
}

// str consumes the string at Pos and says whether it has escapes.
func (s *Scanner) str() (escaped bool, err error) {
	data, i := s.Data, s.Pos+1
	for i < len(data) {
		if !special[data[i]] {
			i++
			continue
		}
		switch c := data[i]; {
		case c == '"':
			s.Pos = i + 1
			return escaped, nil
		case c == '\\':
			escaped = true
			n := escapeLen(data[i:])
			if n == 0 {
				return false, s.fail(i, "invalid escape in a string")
			}
			i += n
		default:
			return false, s.fail(i, "control character in a string")
		}
	}
	return false, s.fail(len(data), "the string does not end")
}

// special are the bytes of a string that end it, escape, or may not be there.
var special = func() (t [256]bool) {
	for c := range 0x20 {
		t[c] = true
	}
	t['"'], t['\\'] = true, true
	return t
}()

// escapeLen is the length of the escape that b starts with, 0 when it is none.
func escapeLen(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if len(b) < 6 {
			return 0
		}
		for _, c := range b[2:6] {
			if (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'f') {
				return 0
			}
		}
		return 6
	}
	return 0
}

func (s *Scanner) number() error {
	start, plain := s.Pos, true
	if s.at() == '-' {
		s.Pos++
	}
	switch c := s.at(); {
	case c == '0':
		s.Pos++
	case c >= '1' && c <= '9':
		s.digits()
	default:
		return s.unexpected("a digit")
	}
	if s.at() == '.' {
		if s.Pos++; s.digits() == 0 {
			return s.unexpected("a digit")
		}
	}
	if c := s.at(); c == 'e' || c == 'E' {
		plain = false
		s.Pos++
		if c := s.at(); c == '+' || c == '-' {
			s.Pos++
		}
		if s.digits() == 0 {
			return s.unexpected("a digit")
		}
	}
	length := s.Pos - start
	if length > limit(s.Limits.Number, MaxNumber) {
		s.Pos = start
		return s.over("a number of more than %d bytes", limit(s.Limits.Number, MaxNumber))
	}
	if plain && length <= 300 {
		return nil
	}
	if f, err := strconv.ParseFloat(string(s.Data[start:s.Pos]), 64); err != nil && math.IsInf(f, 0) {
		s.Pos = start
		return s.over("a number beyond %g", math.MaxFloat64)
	}
	return nil
}

func (s *Scanner) at() byte {
	if s.Pos < len(s.Data) {
		return s.Data[s.Pos]
	}
	return 0
}

func (s *Scanner) digits() int {
	start := s.Pos
	for s.Pos < len(s.Data) && s.Data[s.Pos] >= '0' && s.Data[s.Pos] <= '9' {
		s.Pos++
	}
	return s.Pos - start
}

func (s *Scanner) word(w string) error {
	if !bytes.HasPrefix(s.Data[s.Pos:], []byte(w)) {
		return s.unexpected("a value")
	}
	s.Pos += len(w)
	return nil
}

func (s *Scanner) unexpected(want string) error {
	if s.Pos >= len(s.Data) {
		return s.fail(s.Pos, "the document ends where "+want+" is expected")
	}
	return s.fail(s.Pos, fmt.Sprintf("%q where %s is expected", s.Data[s.Pos], want))
}

func (s *Scanner) fail(offset int, msg string) error { return &Error{Offset: offset, Msg: msg} }

func (s *Scanner) over(format string, bound any) error {
	return &Error{Offset: s.Pos, Msg: fmt.Sprintf(format, bound), IsLimit: true}
}

func limit(v, fallback int) int {
	if v == 0 {
		return fallback
	}
	return v
}

// Unquote returns the text of a JSON string that was validated.
func Unquote(raw []byte) (string, error) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", &Error{Msg: "not a string"}
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1]), nil
	}
	var text string
	err := json.Unmarshal(raw, &text)
	return text, err
}
