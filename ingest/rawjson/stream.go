package rawjson

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// Form is how records follow each other in a stream.
type Form uint8

const (
	// Auto looks at the first bytes: '[' is an Array; an object whose first line is complete is Lines; an object
	// that goes on in the next line is Values.
	Auto   Form = iota
	Array       // one JSON array
	Lines       // one record a line (NDJSON, JSONL)
	Values      // JSON values one after the other, of any layout
)

// ErrRecordTooLarge is the error of a record above the limit; the stream goes on behind it.
var ErrRecordTooLarge = errors.New("the record is too large")

// Stream cuts a stream into records by brackets and quotes only, so that one that is not valid JSON spoils no
// other. Memory is bounded by the record limit.
type Stream struct {
	r      *bufio.Reader
	form   Form
	max    int
	line   int // of the byte before the next, from 1
	opened bool
	count  int
	done   bool
	buf    []byte
}

const streamBuffer = 64 << 10

// NewStream reads records of at most max bytes.
func NewStream(r io.Reader, form Form, max int) *Stream {
	return &Stream{r: bufio.NewReaderSize(r, streamBuffer), form: form, max: max, line: 1}
}

// Next returns the next record and the line where it starts. The bytes are valid until the next call. The error is
// io.EOF at the end, ErrRecordTooLarge for one record, *Error when the stream is broken here (the next call gives
// io.EOF), or what the reader returned.
func (s *Stream) Next() (raw []byte, line int, err error) {
	if s.done {
		return nil, s.line, io.EOF
	}
	if s.form == Auto {
		if err := s.detect(); err != nil {
			s.done = true
			return nil, s.line, err
		}
	}
	if s.form == Lines {
		raw, line, err = s.nextLine()
	} else {
		raw, line, err = s.nextValue()
	}
	if err != nil && !errors.Is(err, ErrRecordTooLarge) {
		s.done = true
	}
	return raw, line, err
}

func (s *Stream) detect() error {
	if head, _ := s.r.Peek(3); bytes.Equal(head, []byte("\xEF\xBB\xBF")) {
		_, _ = s.r.Discard(3)
	}
	c, err := s.skipSpace()
	if err != nil {
		return err
	}
	switch c {
	case '[':
		s.form = Array
	case '{':
		head, _ := s.r.Peek(streamBuffer)
		first, _, found := bytes.Cut(head, []byte("\n"))
		if s.form = Lines; found && Valid(bytes.TrimSpace(first), Limits{Depth: 1 << 10}) != nil && openEnded(first) {
			s.form = Values
		}
	default:
		s.form = Lines
	}
	return nil
}

// openEnded reports whether more brackets are opened than closed.
func openEnded(b []byte) bool {
	var c cutter
	for _, x := range b {
		c.step(x)
	}
	return c.depth > 0 && !c.inString
}

// cutter follows brackets and quotes.
type cutter struct {
	depth             int
	inString, escaped bool
}

func (c *cutter) step(b byte) {
	switch {
	case c.escaped:
		c.escaped = false
	case c.inString:
		switch b {
		case '\\':
			c.escaped = true
		case '"':
			c.inString = false
		}
	case b == '"':
		c.inString = true
	case b == '{', b == '[':
		c.depth++
	case b == '}', b == ']':
		c.depth--
	}
}

// skipSpace moves to the next byte that is not white space and returns it.
func (s *Stream) skipSpace() (byte, error) {
	for {
		c, err := s.r.ReadByte()
		if err != nil {
			return 0, err
		}
		switch c {
		case '\n':
			s.line++
		case ' ', '\t', '\r':
		default:
			return c, s.r.UnreadByte()
		}
	}
}

func (s *Stream) nextLine() (raw []byte, line int, err error) {
	if _, err := s.skipSpace(); err != nil {
		return nil, s.line, err
	}
	line = s.line
	s.buf = s.buf[:0]
	large := false
	for {
		chunk, err := s.r.ReadSlice('\n')
		if large = large || len(s.buf)+len(chunk) > s.max+2; !large {
			s.buf = append(s.buf, chunk...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err == nil:
			s.line++
		case !errors.Is(err, io.EOF):
			return nil, line, err
		}
		s.buf = bytes.TrimSpace(s.buf)
		if large || len(s.buf) > s.max {
			return nil, line, ErrRecordTooLarge
		}
		s.count++
		return s.buf, line, nil
	}
}

// nextValue returns the next element of the array or the next value.
func (s *Stream) nextValue() (raw []byte, line int, err error) {
	c, err := s.skipSpace()
	if s.form == Array {
		if end, err := s.separator(c, err); end || err != nil {
			return nil, s.line, err
		}
		c, err = s.skipSpace()
	}
	if errors.Is(err, io.EOF) && s.form == Array {
		return nil, s.line, &Error{Msg: "the array ends after a comma"}
	}
	if err != nil {
		return nil, s.line, err
	}
	if c == ',' || c == ']' || c == '}' {
		return nil, s.line, &Error{Msg: fmt.Sprintf("%q where a record is expected", c)}
	}
	return s.element()
}

// separator consumes what stands before the next element; end is true behind the closing bracket.
func (s *Stream) separator(c byte, err error) (end bool, _ error) {
	if err != nil {
		if errors.Is(err, io.EOF) && s.opened {
			return true, &Error{Msg: fmt.Sprintf("the array does not end after record %d", s.count-1)}
		}
		return true, err
	}
	switch {
	case !s.opened && c == '[':
		_, _ = s.r.Discard(1)
		s.opened = true
		if c, err := s.skipSpace(); err != nil || c != ']' {
			if errors.Is(err, io.EOF) {
				return true, &Error{Msg: "the array does not end"}
			}
			return false, err
		}
	case s.opened && s.count > 0 && c == ',':
		_, _ = s.r.Discard(1)
		return false, nil
	case !s.opened || c != ']':
		return true, &Error{Msg: fmt.Sprintf("%q where a comma or the end of the array is expected after record %d", c, s.count-1)}
	}
	_, _ = s.r.Discard(1) // the closing bracket
	if c, err := s.skipSpace(); !errors.Is(err, io.EOF) {
		if err == nil {
			err = &Error{Msg: fmt.Sprintf("%q after the end of the array", c)}
		}
		return true, err
	}
	return true, io.EOF
}

// element reads to the end of the value at hand: the closing bracket of an object or array, or what ends a scalar.
func (s *Stream) element() (raw []byte, line int, err error) {
	line = s.line
	s.buf = s.buf[:0]
	s.count++
	var cut cutter
	for large := false; ; {
		if _, err := s.r.Peek(1); err != nil {
			if !errors.Is(err, io.EOF) {
				return nil, line, err
			}
			if s.form == Values && cut.depth == 0 && !cut.inString {
				return s.finish(line, large)
			}
			return nil, line, &Error{Msg: fmt.Sprintf("the text ends inside record %d", s.count-1)}
		}
		chunk, _ := s.r.Peek(s.r.Buffered())
		n, ended := cut.scan(chunk, len(s.buf) == 0)
		if large = large || len(s.buf)+n > s.max; !large {
			s.buf = append(s.buf, chunk[:n]...)
		}
		s.line += bytes.Count(chunk[:n], newline)
		_, _ = s.r.Discard(n)
		if cut.depth < 0 {
			return nil, line, &Error{Msg: fmt.Sprintf("unbalanced bracket in record %d", s.count-1)}
		}
		if ended {
			return s.finish(line, large)
		}
	}
}

var newline = []byte{'\n'}

// scan follows chunk to the end of the value and returns how much of it belongs to the value. start says that the
// value starts with this chunk.
func (c *cutter) scan(chunk []byte, start bool) (n int, ended bool) {
	for i, b := range chunk {
		if c.inString {
			c.step(b)
			continue
		}
		if c.depth == 0 && (i > 0 || !start) && endsScalar(b) {
			return i, true
		}
		switch b {
		case '{', '[':
			c.depth++
		case '"':
			c.inString = true
		case '}', ']':
			if c.depth--; c.depth <= 0 {
				return i + 1, true
			}
		}
	}
	return len(chunk), false
}

func (s *Stream) finish(line int, large bool) ([]byte, int, error) {
	if large {
		return nil, line, ErrRecordTooLarge
	}
	return s.buf, line, nil
}

func endsScalar(c byte) bool {
	switch c {
	case ',', ']', '}', ' ', '\t', '\r', '\n', '{', '[':
		return true
	}
	return false
}
