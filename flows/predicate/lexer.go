package predicate

import (
	"encoding/json"
	"math/big"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

type tokenKind uint8

const (
	tokEnd tokenKind = iota
	tokNewline
	tokName
	tokKeyword
	tokConst // number, string or bytes; val
	tokFString
	tokOp // text
)

type token struct {
	kind tokenKind
	text string
	val  any
	pos  int
}

// bytesValue is a bytes literal: the language has them, contexts do not.
type bytesValue string

// keywords of Python that are never names.
var keywords = map[string]bool{
	"False": true, "None": true, "True": true, "and": true, "as": true, "assert": true, "async": true, "await": true,
	"break": true, "class": true, "continue": true, "def": true, "del": true, "elif": true, "else": true, "except": true,
	"finally": true, "for": true, "from": true, "global": true, "if": true, "import": true, "in": true, "is": true,
	"lambda": true, "nonlocal": true, "not": true, "or": true, "pass": true, "raise": true, "return": true, "try": true,
	"while": true, "with": true, "yield": true,
}

// operators, longest first.
var operators = []string{
	"...", "**", "//", "<<", ">>", "<=", ">=", "==", "!=", ":=",
	"+", "-", "*", "/", "%", "@", "&", "|", "^", "~", "<", ">", "(", ")", "[", "]", "{", "}", ",", ":", ".", "=",
}

type lexer struct {
	source string
	pos    int
	open   int // brackets open; newlines inside them are blanks
}

func (l *lexer) syntax(pos int, reason string) *Error {
	return &Error{Source: l.source, Offset: pos, Category: Syntax, Reason: reason}
}

func (l *lexer) rest() string { return l.source[l.pos:] }

func (l *lexer) next() (token, error) {
	if newline := l.blanks(); newline {
		return token{kind: tokNewline, pos: l.pos - 1}, nil
	}
	start := l.pos
	if start == len(l.source) {
		return token{kind: tokEnd, pos: start}, nil
	}
	c := l.source[start]
	if c >= '0' && c <= '9' || c == '.' && start+1 < len(l.source) && isDigit(l.source[start+1]) {
		return l.number()
	}
	if length := stringStart(l.rest()); length > 0 {
		return l.text(l.source[start : start+length-1])
	}
	if r, _ := utf8.DecodeRuneInString(l.rest()); r == '_' || unicode.IsLetter(r) || unicode.Is(unicode.Nl, r) {
		return l.name()
	}
	for _, op := range operators {
		if strings.HasPrefix(l.rest(), op) {
			l.pos += len(op)
			return token{kind: tokOp, text: op, pos: start}, nil
		}
	}
	r, _ := utf8.DecodeRuneInString(l.rest())
	return token{}, l.syntax(start, "unexpected character "+strconv.QuoteRune(r))
}

// blanks skips white space and comments; it stops behind a newline that ends the expression and reports it.
func (l *lexer) blanks() (newline bool) {
	for l.pos < len(l.source) {
		switch c := l.source[l.pos]; {
		case c == ' ' || c == '\t' || c == '\f':
			l.pos++
		case c == '\n' || c == '\r':
			l.pos++
			if l.open == 0 {
				return true
			}
		case c == '#':
			if i := strings.IndexAny(l.rest(), "\r\n"); i >= 0 {
				l.pos += i
			} else {
				l.pos = len(l.source)
			}
		case strings.HasPrefix(l.rest(), "\\\n"):
			l.pos += 2
		default:
			return false
		}
	}
	return false
}

func (l *lexer) name() (token, error) {
	start := l.pos
	for l.pos < len(l.source) {
		r, size := utf8.DecodeRuneInString(l.rest())
		if !isNamePart(r) {
			break
		}
		l.pos += size
	}
	// Python normalises identifiers; context keys are compared as they are.
	text := norm.NFKC.String(l.source[start:l.pos])
	if keywords[text] {
		return token{kind: tokKeyword, text: text, pos: start}, nil
	}
	return token{kind: tokName, text: text, pos: start}, nil
}

func isNamePart(r rune) bool {
	return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.In(r, unicode.Nl, unicode.Mn, unicode.Mc, unicode.Pc)
}

// maxDigits of a decimal integer is Python's bound.
const maxDigits = 4300

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// number reads an integer or a float. Underscores stand between digits only.
func (l *lexer) number() (token, error) {
	start := l.pos
	base := 10
	if rest := strings.ToLower(l.rest()); len(rest) > 2 && rest[0] == '0' && strings.IndexByte("xob", rest[1]) >= 0 {
		base = map[byte]int{'x': 16, 'o': 8, 'b': 2}[rest[1]]
		l.pos += 2
	}
	isFloat := false
	for l.pos < len(l.source) {
		c := l.source[l.pos]
		lower := c | 0x20
		switch {
		case isDigit(c) || c == '_' || base == 16 && lower >= 'a' && lower <= 'f':
		case base == 10 && c == '.':
			isFloat = true
		case base == 10 && lower == 'e':
			isFloat = true
			if l.pos+1 < len(l.source) && (l.source[l.pos+1] == '+' || l.source[l.pos+1] == '-') {
				l.pos++
			}
		default:
			return l.numberEnd(start, base, isFloat)
		}
		l.pos++
	}
	return l.numberEnd(start, base, isFloat)
}

func (l *lexer) numberEnd(start, base int, isFloat bool) (token, error) {
	lit := l.source[start:l.pos]
	bad := func() (token, error) { return token{}, l.syntax(start, "invalid number "+strconv.Quote(lit)) }
	if r, _ := utf8.DecodeRuneInString(l.rest()); l.pos < len(l.source) && isNamePart(r) && !l.keywordFollows() {
		return bad()
	}
	digits := lit
	if base != 10 {
		digits = strings.TrimPrefix(lit[2:], "_")
	}
	if strings.HasSuffix(digits, "_") || strings.HasPrefix(digits, "_") || strings.Contains(digits, "__") {
		return bad()
	}
	for _, mark := range []string{"_.", "._", "_e", "_E", "e_", "E_", "+_", "-_"} {
		if base == 10 && strings.Contains(digits, mark) {
			return bad()
		}
	}
	digits = strings.ReplaceAll(digits, "_", "")
	if isFloat {
		f, err := strconv.ParseFloat(digits, 64)
		// Beyond the range Python has an infinity.
		if err != nil && !strings.Contains(err.Error(), strconv.ErrRange.Error()) {
			return bad()
		}
		return token{kind: tokConst, val: f, pos: start}, nil
	}
	if base == 10 && len(digits) > 1 && digits[0] == '0' && strings.Trim(digits, "0") != "" {
		return bad()
	}
	if base == 10 && len(digits) > maxDigits {
		return bad()
	}
	i, ok := new(big.Int).SetString(digits, base)
	if !ok {
		return bad()
	}
	return token{kind: tokConst, val: integer(i), pos: start}, nil
}

func (l *lexer) keywordFollows() bool {
	for _, word := range []string{"and", "or", "in", "is", "if", "else", "not", "for"} {
		if after, found := strings.CutPrefix(l.rest(), word); found {
			r, _ := utf8.DecodeRuneInString(after)
			return after == "" || !isNamePart(r)
		}
	}
	return false
}

// integer is i as a JSON value.
func integer(i *big.Int) any {
	if i.IsInt64() {
		return i.Int64()
	}
	return json.Number(i.String())
}
