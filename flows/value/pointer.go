package value

import (
	"fmt"
	"strconv"
	"strings"
)

// Pointer is a JSON pointer (RFC 6901) as its decoded tokens; the empty pointer is the whole document.
type Pointer []string

// ParsePointer reads "" or "/a/b". Array indexes are checked when the pointer meets an array. A tilde that does
// not start ~0 or ~1 stands for itself.
func ParsePointer(s string) (Pointer, error) {
	if s == "" {
		return nil, nil
	}
	if s[0] != '/' {
		return nil, fmt.Errorf("JSON pointer %q must be empty or start with /", s)
	}
	p := Pointer(strings.Split(s[1:], "/"))
	for i, token := range p {
		p[i] = Unescape(token)
	}
	return p, nil
}

var (
	escaper   = strings.NewReplacer("~", "~0", "/", "~1")
	unescaper = strings.NewReplacer("~1", "/", "~0", "~")
)

// Escape writes one token so that it can stand in a pointer.
func Escape(token string) string { return escaper.Replace(token) }

// Unescape is the inverse of Escape.
func Unescape(token string) string {
	if !strings.Contains(token, "~") {
		return token
	}
	return unescaper.Replace(token)
}

// String writes the pointer in its escaped form.
func (p Pointer) String() string {
	var b strings.Builder
	for _, token := range p {
		b.WriteByte('/')
		b.WriteString(Escape(token))
	}
	return b.String()
}

// Get returns the value that the pointer leads to in v; ok is false when it leads nowhere.
func (p Pointer) Get(v any) (found any, ok bool) {
	for _, token := range p {
		if v, ok = child(v, token); !ok {
			return nil, false
		}
	}
	return v, true
}

// Lookup is ParsePointer and Get in one, without the pointer's tokens in between.
func Lookup(v any, pointer string) (found any, ok bool) {
	if pointer == "" {
		return v, true
	}
	if pointer[0] != '/' {
		return nil, false
	}
	for rest, more := pointer[1:], true; more; {
		var token string
		token, rest, more = strings.Cut(rest, "/")
		if v, ok = child(v, Unescape(token)); !ok {
			return nil, false
		}
	}
	return v, true
}

// Missing returns the shortest prefix of p that leads nowhere in v, nil when the whole pointer leads somewhere.
func (p Pointer) Missing(v any) Pointer {
	for i, token := range p {
		var ok bool
		if v, ok = child(v, token); !ok {
			return p[:i+1]
		}
	}
	return nil
}

func child(v any, token string) (any, bool) {
	switch v := v.(type) {
	case map[string]any:
		c, ok := v[token]
		return c, ok
	case Members:
		return v.Get(token)
	case []any:
		if i, ok := Index(token); ok && i < len(v) {
			return v[i], true
		}
	}
	return nil, false
}

// Index reads an array index as RFC 6901 writes it: ASCII digits, no sign, no leading zero.
func Index(token string) (int, bool) {
	if token == "" || len(token) > 1 && token[0] == '0' {
		return 0, false
	}
	for i := range len(token) {
		if token[i] < '0' || token[i] > '9' {
			return 0, false
		}
	}
	i, err := strconv.Atoi(token)
	return i, err == nil
}
