package rawjson

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// AppendString appends s as a JSON string. Invalid UTF-8 becomes U+FFFD.
func AppendString[T string | []byte](dst []byte, s T) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(string(s[i:min(i+utf8.UTFMax, len(s))]))
			if r == utf8.RuneError && size == 1 {
				dst = append(append(dst, s[start:i]...), "\uFFFD"...)
				start = i + 1
			}
			i += size
			continue
		}
		dst = append(dst, s[start:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		i++
		start = i
	}
	return append(append(dst, s[start:]...), '"')
}

// Quote is AppendString to a new slice.
func Quote(s string) []byte { return AppendString(make([]byte, 0, len(s)+2), s) }

// Contained returns the document that the text holds, when the whole text is one JSON object or array. A bare
// number, word or quoted string is no container and stays text: "007" is an id more often than a number.
func Contained(text string, limits Limits) ([]byte, bool) {
	trimmed := strings.TrimSpace(text)
	if trimmed == "" || trimmed[0] != '{' && trimmed[0] != '[' {
		return nil, false
	}
	raw := []byte(trimmed)
	if Valid(raw, limits) != nil {
		return nil, false
	}
	return raw, true
}

// Get returns the value of the object's member key, the last of several; nil when raw is no object or has none.
func Get(raw []byte, key string) []byte {
	s := Scanner{Data: raw}
	if s.Peek() != '{' || s.Open('{') != nil {
		return nil
	}
	var found []byte
	for {
		k, more, err := s.Key()
		if err != nil || !more {
			return found
		}
		match := string(k) == key
		v, err := s.Value()
		if err != nil {
			return found
		}
		if match {
			found = v
		}
	}
}

// Elements calls fn with each element of the array until fn returns false; nothing when raw is no array.
func Elements(raw []byte, fn func(element []byte) bool) {
	s := Scanner{Data: raw}
	if s.Peek() != '[' || s.Open('[') != nil {
		return
	}
	for {
		if more, err := s.Next(); err != nil || !more {
			return
		}
		v, err := s.Value()
		if err != nil || !fn(v) {
			return
		}
	}
}

// Text returns the text of raw when it is a JSON string, "" otherwise.
func Text(raw []byte) string {
	if len(raw) == 0 || raw[0] != '"' {
		return ""
	}
	text, err := Unquote(raw)
	if err != nil {
		return ""
	}
	return text
}

// Kind returns what the value is by its first byte: '{', '[', '"', 't', 'f', 'n', '0' for numbers, 0 for nothing.
func Kind(raw []byte) byte {
	if len(raw) == 0 {
		return 0
	}
	switch c := raw[0]; c {
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return '0'
	default:
		return c
	}
}

// PointerAt returns the JSON pointer of the value that holds the byte offset, as far as data can be read: the
// place of an Error for people.
func PointerAt(data []byte, offset int) string {
	w := pointerWalk{Scanner: Scanner{Data: data, Limits: Limits{Depth: 10_000, Tokens: 1 << 30, Number: 1 << 30}}, offset: offset}
	w.value()
	var b strings.Builder
	for i, token := range w.path {
		if i == maxPointerTokens {
			b.WriteString("/...")
			break
		}
		b.WriteByte('/')
		b.WriteString(escapePointer.Replace(token))
	}
	return b.String()
}

// maxPointerTokens keeps the pointer into a hostile document readable.
const maxPointerTokens = 16

var escapePointer = strings.NewReplacer("~", "~0", "/", "~1")

// pointerWalk descends to the innermost value around offset; path is where it stopped.
type pointerWalk struct {
	Scanner
	offset int
	path   []string
}

// value walks one value without recursion past the interesting depth and reports whether the offset was passed.
func (w *pointerWalk) value() (done bool) {
	c := w.Peek()
	if len(w.path) > maxPointerTokens || c != '{' && c != '[' {
		_, err := w.Value()
		return err != nil || w.Pos > w.offset
	}
	if w.Open(c) != nil {
		return true
	}
	for i := 0; ; i++ {
		token, more := strconv.Itoa(i), false
		var err error
		if c == '{' {
			var key []byte
			key, more, err = w.Key()
			token = string(key)
		} else {
			more, err = w.Next()
		}
		if err != nil || !more {
			return err != nil || w.Pos > w.offset
		}
		w.path = append(w.path, token)
		if w.value() {
			return true
		}
		w.path = w.path[:len(w.path)-1]
	}
}
