package predicate

import (
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/text/unicode/runenames"
)

// stringStart returns the length of a string prefix and its first quote at the start of s, 0 when there is none.
func stringStart(s string) int {
	for i := 0; i < len(s) && i < 3; i++ {
		switch c := s[i]; {
		case c == '\'' || c == '"':
			prefix := strings.ToLower(s[:i])
			switch prefix {
			case "", "r", "u", "b", "f", "br", "rb", "fr", "rf":
				return i + 1
			}
			return 0
		case !strings.ContainsRune("rRuUbBfF", rune(c)):
			return 0
		}
	}
	return 0
}

// text reads a string literal whose prefix was seen; l.pos is at the prefix.
func (l *lexer) text(prefix string) (token, error) {
	start := l.pos
	prefix = strings.ToLower(prefix)
	l.pos += len(prefix)
	quote := l.source[l.pos : l.pos+1]
	if triple := strings.Repeat(quote, 3); strings.HasPrefix(l.rest(), triple) {
		quote = triple
	}
	l.pos += len(quote)
	var b strings.Builder
	for {
		rest := l.rest()
		switch {
		case rest == "" || rest[0] == 0 || len(quote) == 1 && (rest[0] == '\n' || rest[0] == '\r'):
			return token{}, l.syntax(start, "string without end")
		case strings.HasPrefix(rest, quote):
			l.pos += len(quote)
			return stringToken(prefix, b.String(), start), nil
		case rest[0] == '\\' && strings.Contains(prefix, "r"):
			if len(rest) < 2 {
				return token{}, l.syntax(start, "string without end")
			}
			_, size := utf8.DecodeRuneInString(rest[1:])
			b.WriteString(rest[:1+size])
			l.pos += 1 + size
		case rest[0] == '\\':
			size, err := l.escape(&b, rest, strings.Contains(prefix, "b"))
			if err != nil {
				return token{}, err
			}
			l.pos += size
		case rest[0] >= utf8.RuneSelf && strings.Contains(prefix, "b"):
			return token{}, l.syntax(l.pos, "bytes can only hold ASCII characters")
		default:
			b.WriteByte(rest[0])
			l.pos++
		}
	}
}

func stringToken(prefix, text string, pos int) token {
	switch {
	case strings.Contains(prefix, "f"):
		return token{kind: tokFString, pos: pos}
	case strings.Contains(prefix, "b"):
		return token{kind: tokConst, val: bytesValue(text), pos: pos}
	}
	return token{kind: tokConst, val: text, pos: pos}
}

var simpleEscapes = map[byte]string{
	'\n': "", '\\': "\\", '\'': "'", '"': "\"", 'a': "\a", 'b': "\b", 'f': "\f", 'n': "\n", 'r': "\r", 't': "\t", 'v': "\v",
}

// escape writes the character that the escape at the start of rest stands for and returns the escape's length.
func (l *lexer) escape(b *strings.Builder, rest string, inBytes bool) (int, error) {
	if len(rest) < 2 {
		return 0, l.syntax(l.pos, "string without end")
	}
	c := rest[1]
	if text, ok := simpleEscapes[c]; ok {
		b.WriteString(text)
		return 2, nil
	}
	write := func(code uint64) {
		if inBytes {
			b.WriteByte(byte(code))
		} else {
			b.WriteRune(rune(code))
		}
	}
	size := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]
	switch {
	case size > 0 && (c == 'x' || !inBytes):
		if len(rest) < 2+size {
			return 0, l.syntax(l.pos, "truncated escape")
		}
		code, err := strconv.ParseUint(rest[2:2+size], 16, 32)
		if err != nil || code > utf8.MaxRune {
			return 0, l.syntax(l.pos, "invalid escape")
		}
		write(code)
		return 2 + size, nil
	case c == 'N' && !inBytes:
		name, found := strings.CutPrefix(rest[2:], "{")
		name, _, closed := strings.Cut(name, "}")
		r, known := runesByName()[strings.ToUpper(name)]
		if !found || !closed || !known {
			return 0, l.syntax(l.pos, "unknown character name")
		}
		b.WriteRune(r)
		return 4 + len(name), nil
	}
	end := 1
	for end < len(rest) && end < 4 && rest[end] >= '0' && rest[end] <= '7' {
		end++
	}
	if end == 1 { // an unknown escape stands for itself
		b.WriteByte('\\')
		return 1, nil
	}
	code, err := strconv.ParseUint(rest[1:end], 8, 32)
	if err != nil {
		return 0, l.syntax(l.pos, "invalid escape")
	}
	write(code)
	return end, nil
}

// runesByName holds the characters that have a name of their own; it is built by the first escape that names one.
var runesByName = sync.OnceValue(func() map[string]rune {
	names := map[string]rune{}
	for r := rune(0); r <= utf8.MaxRune; r++ {
		if name := runenames.Name(r); name != "" && name[0] != '<' {
			names[name] = r
		}
	}
	return names
})
