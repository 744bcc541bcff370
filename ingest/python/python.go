// Package python reads values as Python writes them for people: some frameworks log them so.
package python

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"pave/ingest/rawjson"
)

// nameMember is the member that holds the name of a Python object.
const nameMember = "<name>"

const (
	maxDepth = 64
	maxNodes = 200_000
)

var errValue = errors.New("not a Python value")

// JSON reads such a text as JSON: dicts, lists, tuples and sets, strings of any quotes, numbers, True, False, None, and
// objects as Name(key=value), which become {"<name>": "Name", "key": value} with what has no key under "args". What is too
// deep or too long, or no value, is an error.
func JSON(text string) ([]byte, error) {
	p := parser{text: text}
	if err := p.value(0); err != nil {
		return nil, err
	}
	if p.space(); p.pos < len(p.text) {
		return nil, p.fail("the end")
	}
	return p.out, nil
}

type parser struct {
	text  string
	pos   int
	nodes int
	out   []byte
}

func (p *parser) fail(want string) error {
	return fmt.Errorf("%w: %s is expected at byte %d", errValue, want, p.pos)
}

func (p *parser) space() {
	for p.pos < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.pos]) >= 0 {
		p.pos++
	}
}

// next skips white space and returns the byte there, 0 at the end.
func (p *parser) next() byte {
	p.space()
	if p.pos < len(p.text) {
		return p.text[p.pos]
	}
	return 0
}

func (p *parser) value(depth int) error {
	if p.nodes++; depth > maxDepth || p.nodes > maxNodes {
		return fmt.Errorf("%w: too deep or too long", errValue)
	}
	switch c := p.next(); {
	case c == '{':
		return p.dict(depth)
	case c == '[':
		return p.list(']', depth)
	case c == '(':
		return p.list(')', depth)
	case c == '"' || c == '\'':
		return p.str()
	case c == '-' || c == '+' || c == '.' || c >= '0' && c <= '9':
		return p.number()
	case c == '<': // <object at 0x...>
		end := strings.IndexByte(p.text[p.pos:], '>')
		if end < 0 {
			return p.fail("the end of an object")
		}
		p.out = rawjson.AppendString(p.out, p.text[p.pos:p.pos+end+1])
		p.pos += end + 1
		return nil
	}
	return p.word(depth)
}

// dict reads {key: value, ...}, or a set.
func (p *parser) dict(depth int) error {
	p.pos++
	start, isSet := len(p.out), false
	p.out = append(p.out, '{')
	for i := 0; ; i++ {
		if p.next() == '}' {
			p.pos++
			break
		}
		if i > 0 {
			if p.next() != ',' {
				return p.fail("a comma")
			}
			p.pos++
			if p.next() == '}' {
				p.pos++
				break
			}
			p.out = append(p.out, ',')
		}
		from := len(p.out)
		if err := p.value(depth + 1); err != nil {
			return err
		}
		if i == 0 && p.next() != ':' {
			isSet = true
		}
		if isSet {
			continue
		}
		if rawjson.Kind(p.out[from:]) != '"' { // other keys become text
			key := string(p.out[from:])
			p.out = rawjson.AppendString(p.out[:from], key)
		}
		if p.next() != ':' {
			return p.fail("a colon")
		}
		p.pos++
		p.out = append(p.out, ':')
		if err := p.value(depth + 1); err != nil {
			return err
		}
	}
	if p.out = append(p.out, '}'); isSet {
		p.out[start], p.out[len(p.out)-1] = '[', ']'
	}
	return nil
}

// list reads the elements of a list or tuple.
func (p *parser) list(closing byte, depth int) error {
	p.pos++
	p.out = append(p.out, '[')
	for i := 0; ; i++ {
		if p.next() == closing {
			break
		}
		if i > 0 {
			if p.next() != ',' {
				return p.fail("a comma")
			}
			if p.pos++; p.next() == closing {
				break
			}
			p.out = append(p.out, ',')
		}
		if err := p.value(depth + 1); err != nil {
			return err
		}
	}
	p.pos++
	p.out = append(p.out, ']')
	return nil
}

func (p *parser) number() error {
	start := p.pos
	for p.pos < len(p.text) && strings.IndexByte("+-.0123456789eE_", p.text[p.pos]) >= 0 {
		p.pos++
	}
	literal := strings.TrimPrefix(strings.ReplaceAll(p.text[start:p.pos], "_", ""), "+")
	if rawjson.Valid([]byte(literal), rawjson.Limits{}) == nil {
		p.out = append(p.out, literal...)
		return nil
	}
	f, err := strconv.ParseFloat(literal, 64)
	if err != nil || math.IsInf(f, 0) {
		p.pos = start
		return p.fail("a number")
	}
	p.out = strconv.AppendFloat(p.out, f, 'g', -1, 64)
	return nil
}

// str reads a string and those that follow it directly, which are one.
func (p *parser) str() error {
	var b strings.Builder
	for c := p.next(); c == '"' || c == '\''; c = p.next() {
		quote := string(c)
		if triple := strings.Repeat(quote, 3); strings.HasPrefix(p.text[p.pos:], triple) {
			quote = triple
		}
		p.pos += len(quote)
		if err := p.quoted(&b, quote); err != nil {
			return err
		}
	}
	p.out = rawjson.AppendString(p.out, b.String())
	return nil
}

func (p *parser) quoted(b *strings.Builder, quote string) error {
	for p.pos < len(p.text) {
		rest := p.text[p.pos:]
		if strings.HasPrefix(rest, quote) {
			p.pos += len(quote)
			return nil
		}
		if rest[0] != '\\' {
			r, size := utf8.DecodeRuneInString(rest)
			b.WriteRune(r)
			p.pos += size
			continue
		}
		if len(rest) < 2 {
			break
		}
		p.pos += p.escape(b, rest)
	}
	return p.fail("the end of a string")
}

// escape writes what the escape at the start of rest means and returns its length.
func (p *parser) escape(b *strings.Builder, rest string) int {
	if i := strings.IndexByte("abfnrtv0", rest[1]); i >= 0 {
		b.WriteByte("\a\b\f\n\r\t\v\x00"[i])
		return 2
	}
	if digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[rest[1]]; digits > 0 && len(rest) >= 2+digits {
		if r, err := strconv.ParseUint(rest[2:2+digits], 16, 32); err == nil {
			b.WriteRune(rune(r)) // what is no character becomes U+FFFD
			return 2 + digits
		}
	}
	switch rest[1] {
	case '\n':
	case '\\', '\'', '"':
		b.WriteByte(rest[1])
	default:
		b.WriteString(rest[:2])
	}
	return 2
}

// word reads True, False, None, nan, inf, a prefixed string, or an object Name(...).
func (p *parser) word(depth int) error {
	start := p.pos
	for p.pos < len(p.text) && (p.text[p.pos] == '_' || p.text[p.pos] == '.' || p.text[p.pos] >= '0' && p.text[p.pos] <= '9' || p.text[p.pos]|0x20 >= 'a' && p.text[p.pos]|0x20 <= 'z') {
		p.pos++
	}
	name := p.text[start:p.pos]
	switch name {
	case "":
		return p.fail("a value")
	case "True", "true":
		p.out = append(p.out, "true"...)
		return nil
	case "False", "false":
		p.out = append(p.out, "false"...)
		return nil
	case "None", "null", "nan", "inf":
		p.out = append(p.out, "null"...)
		return nil
	}
	switch c := p.next(); {
	case (c == '"' || c == '\'') && len(name) <= 2: // b'...', r'...', u'...'
		return p.str()
	case c == '(':
		return p.object(name, depth)
	}
	p.pos = start
	return p.fail("a value")
}

func (p *parser) object(name string, depth int) error {
	p.pos++
	p.out = append(rawjson.AppendString(append(p.out, '{'), nameMember), ':')
	p.out = rawjson.AppendString(p.out, name)
	var args [][]byte
	for i := 0; ; i++ {
		if p.next() == ')' {
			break
		}
		if i > 0 {
			if p.next() != ',' {
				return p.fail("a comma")
			}
			if p.pos++; p.next() == ')' {
				break
			}
		}
		key := p.keyword()
		from := len(p.out)
		if key != "" {
			p.out = append(rawjson.AppendString(append(p.out, ','), key), ':')
		}
		valueFrom := len(p.out)
		if err := p.value(depth + 1); err != nil {
			return err
		}
		if key == "" {
			args = append(args, append([]byte(nil), p.out[valueFrom:]...))
			p.out = p.out[:from]
		}
	}
	p.pos++
	if len(args) > 0 {
		p.out = append(p.out, `,"args":[`...)
		for i, a := range args {
			if i > 0 {
				p.out = append(p.out, ',')
			}
			p.out = append(p.out, a...)
		}
		p.out = append(p.out, ']')
	}
	p.out = append(p.out, '}')
	return nil
}

// keyword consumes "name=" of an argument, "" when it has none.
func (p *parser) keyword() string {
	p.space()
	i := p.pos
	for i < len(p.text) && (p.text[i] == '_' || p.text[i] >= '0' && p.text[i] <= '9' || p.text[i]|0x20 >= 'a' && p.text[i]|0x20 <= 'z') {
		i++
	}
	if i == p.pos || i+1 >= len(p.text) || p.text[i] != '=' || p.text[i+1] == '=' {
		return ""
	}
	key := p.text[p.pos:i]
	p.pos = i + 1
	return key
}
