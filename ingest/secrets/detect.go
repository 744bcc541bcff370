package secrets

import (
	"encoding/base64"
	"strings"
)

// detector looks at the text around a literal at text[from:to] and returns the secret that it belongs to.
type detector func(f *Finder, text string, from, to int) (Span, bool)

// services are the beginnings of keys by which services make them known, and other marks.
var services = map[string]detector{
	"sk-": key(16), "pk-": key(16), "rk-": key(16), "sk_live_": key(10), "sk_test_": key(10), "rk_live_": key(10), "rk_test_": key(10), "pk_live_": key(10),
	"whsec_": key(16), "ghp_": key(20), "gho_": key(20), "ghu_": key(20), "ghs_": key(20), "ghr_": key(20), "github_pat_": key(20), "glpat-": key(16),
	"xoxb-": key(10), "xoxa-": key(10), "xoxp-": key(10), "xoxr-": key(10), "xoxs-": key(10), "xapp-": key(10),
	"aiza": key(30), "ya29.": key(20), "hf_": key(20), "npm_": key(30), "pypi-": key(40), "dop_v1_": key(30), "sg.": key(30), "shpat_": key(30),
	"gsk_": key(20), "xai-": key(20), "pplx-": key(20), "r8_": key(30), "lin_api_": key(20), "atatt3": key(30), "tvly-": key(20), "sq0atp-": key(20),
	"akia": (*Finder).awsKey, "asia": (*Finder).awsKey, "eyj": (*Finder).jwt, "-----begin": (*Finder).privateKey,
	"bearer ": (*Finder).bearer, "basic ": (*Finder).basic, "://": (*Finder).userinfo,
}

func alnum(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
}

func wordByte(c byte) bool { return alnum(c) || c == '_' || c == '-' }

// run returns where the bytes from at on for which fits holds end.
func run(text string, at int, fits func(byte) bool) int {
	for at < len(text) && fits(text[at]) {
		at++
	}
	return at
}

func hasDigit(s string) bool { return strings.ContainsAny(s, "0123456789") }

// key makes the detector of a service's key: its beginning, at the start of a word, and at least that many bytes more
// with a digit among them, which names of things rarely have.
func key(rest int) detector {
	return func(_ *Finder, text string, from, to int) (Span, bool) {
		if from > 0 && wordByte(text[from-1]) {
			return Span{}, false
		}
		end := run(text, to, func(c byte) bool { return wordByte(c) || c == '.' || c == '=' })
		end -= len(text[to:end]) - len(strings.TrimRight(text[to:end], ".-="))
		return Span{from, end, KindSecret}, end-to >= rest && hasDigit(text[to:end])
	}
}

// awsKey is the id of an access key: four letters and sixteen capitals and digits.
func (*Finder) awsKey(text string, from, to int) (Span, bool) {
	upper := func(c byte) bool { return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' }
	end := run(text, from, upper)
	return Span{from, end, KindSecret}, end-from == 20 && (from == 0 || !alnum(text[from-1])) && (end == len(text) || !alnum(text[end]))
}

// jwt is three parts of base64, the first two of JSON objects.
func (*Finder) jwt(text string, from, to int) (Span, bool) {
	if text[from:to] != "eyJ" || from > 0 && (wordByte(text[from-1]) || text[from-1] == '.') {
		return Span{}, false
	}
	end := from
	for part := range 3 {
		start := end
		if end = run(text, end, wordByte); part < 2 {
			if end-start < 4 || end >= len(text) || text[end] != '.' || part == 1 && !strings.HasPrefix(text[start:], "ey") {
				return Span{}, false
			}
			end++
		}
	}
	return Span{from, end, KindSecret}, true
}

// privateKey is a PEM block, to its end or that of the text.
func (*Finder) privateKey(text string, from, to int) (Span, bool) {
	const dashes = "-----"
	label := text[to:min(len(text), to+64)]
	i := strings.Index(label, dashes)
	if i < 0 || !strings.HasSuffix(label[:i], "PRIVATE KEY") && !strings.HasSuffix(label[:i], "PRIVATE KEY BLOCK") {
		return Span{}, false
	}
	body := to + i + len(dashes)
	end := len(text)
	if j := strings.Index(text[body:], dashes+"END"); j >= 0 {
		end = body + j
		if k := strings.Index(text[end+len(dashes):], dashes); k >= 0 {
			end += len(dashes) + k + len(dashes)
		}
	}
	return Span{from, end, KindSecret}, true
}

func tokenByte(c byte) bool { return alnum(c) || strings.IndexByte("-._~+/=", c) >= 0 }

// bearer is the token behind the scheme.
func (*Finder) bearer(text string, from, to int) (Span, bool) {
	if from > 0 && wordByte(text[from-1]) {
		return Span{}, false
	}
	end := run(text, to, tokenByte)
	n := end - to
	return Span{to, end, KindSecret}, n >= 8 && (hasDigit(text[to:end]) || n >= 20)
}

// basic is a name and password in base64 behind the scheme.
func (*Finder) basic(text string, from, to int) (Span, bool) {
	end := run(text, to, tokenByte)
	decoded, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(text[to:end], "="))
	return Span{to, end, KindSecret}, err == nil && strings.Contains(string(decoded), ":") && (from == 0 || !wordByte(text[from-1]))
}

// userinfo is the password in an address: scheme://user:password@host.
func (*Finder) userinfo(text string, from, to int) (Span, bool) {
	end := run(text, to, func(c byte) bool { return c > ' ' && strings.IndexByte(`/?#"'<>\`, c) < 0 })
	at := strings.LastIndexByte(text[to:end], '@')
	if at < 0 {
		return Span{}, false
	}
	colon := strings.IndexByte(text[to:to+at], ':')
	return Span{to + colon + 1, to + at, KindSecret}, colon >= 0
}

// email is the whole address.
func (*Finder) email(text string, from, to int) (Span, bool) {
	local := func(c byte) bool { return wordByte(c) || c == '.' || c == '+' || c == '%' }
	start := from
	for start > 0 && local(text[start-1]) {
		start--
	}
	end := run(text, to, func(c byte) bool { return alnum(c) || c == '-' || c == '.' })
	end -= len(text[to:end]) - len(strings.TrimRight(text[to:end], ".-"))
	dot := strings.LastIndexByte(text[to:end], '.')
	return Span{start, end, KindEmail}, start < from && dot > 0 && end-to-dot > 2
}

// assignment is the value behind a secret name: password=hunter2, "api_key": "...", X-Api-Key: ....
func (f *Finder) assignment(text string, from, to int) (Span, bool) {
	for from > 0 && wordByte(text[from-1]) {
		from--
	}
	to = run(text, to, wordByte)
	name := text[from:to]
	if !f.SecretName(name) || strings.HasSuffix(text[:from], "[redacted:") {
		return Span{}, false
	}
	i := run(text, to, func(c byte) bool { return c == '"' || c == '\'' || c == '\\' || c == ']' })
	i = run(text, i, space)
	if i >= len(text) || text[i] != '=' && text[i] != ':' {
		return Span{}, false
	}
	loose := text[i] == ':' // prose has colons too
	i++
	if i < len(text) && (text[i] == '=' || text[i] == ':' || text[i] == '/') {
		return Span{}, false
	}
	i = run(text, i, func(c byte) bool { return space(c) || c == '[' })
	i = run(text, i, func(c byte) bool { return c == '\\' })
	if i < len(text) && (text[i] == '"' || text[i] == '\'') {
		quote := text[i]
		end := run(text, i+1, func(c byte) bool { return c != quote && c != '\\' && c != '\n' })
		return value(text, i+1, end)
	}
	end := run(text, i, func(c byte) bool { return c > ' ' && strings.IndexByte(`&;,'"<>)}]\|`, c) < 0 })
	if p := plain(name); strings.HasSuffix(p, "cookie") { // name=value; name=value
		end = run(text, i, func(c byte) bool { return c >= ' ' && c != '"' && c != '\\' })
	} else if loose && !strings.Contains(p, "pass") && !strings.Contains(p, "pwd") && !hasDigit(text[i:end]) {
		return Span{}, false
	}
	return value(text, i, end)
}

func space(c byte) bool { return c == ' ' || c == '\t' }

// value is the span unless what it holds is no secret: a word for nothing, a scheme, a variable, a placeholder.
func value(text string, from, to int) (Span, bool) {
	v := text[from:to]
	switch strings.ToLower(v) {
	case "null", "none", "nil", "undefined", "true", "false", "bearer", "basic", "string", "required", "optional", "missing", "invalid", "redacted":
		return Span{}, false
	}
	// What stands behind a scheme is found by the scheme.
	if scheme, rest, ok := strings.Cut(v, " "); ok && (strings.EqualFold(scheme, "bearer") || strings.EqualFold(scheme, "basic")) {
		from, v = from+len(scheme)+1, rest
	}
	if len(v) < 3 || strings.HasPrefix(strings.TrimPrefix(v, "["), "redacted:") || strings.HasPrefix(v, "$") || strings.HasPrefix(v, "{{") || strings.Trim(v, "*x.•") == "" {
		return Span{}, false
	}
	return Span{from, to, KindSecret}, true
}

// minCard is the length of the shortest number of a card.
const minCard = 13

// cards finds the card number that ends before end, in digits that single blanks or dashes may divide.
func cards(text string, end int) []Span {
	var digits []byte
	start := end
	for start > 0 {
		c := text[start-1]
		if c >= '0' && c <= '9' {
			digits = append(digits, c-'0')
		} else if c != ' ' && c != '-' || start > 1 && !(text[start-2] >= '0' && text[start-2] <= '9') {
			break
		}
		start--
	}
	start = run(text, start, func(c byte) bool { return c == ' ' || c == '-' })
	end = start + len(strings.TrimRight(text[start:end], " -"))
	if start > 0 && (wordByte(text[start-1]) || text[start-1] == '.') || end < len(text) && (wordByte(text[end]) || text[end] == '.' && end+1 < len(text) && alnum(text[end+1])) {
		return nil
	}
	if !isCard(digits) {
		return nil
	}
	return []Span{{start, end, KindCard}}
}

// isCard checks issuer, length and check digit (ISO/IEC 7812) of digits in reverse order.
func isCard(reversed []byte) bool {
	n := len(reversed)
	if n < minCard || n > 19 {
		return false
	}
	first, two := reversed[n-1], reversed[n-1]*10+reversed[n-2]
	switch {
	case first == 4 && (n == 13 || n == 16 || n == 19):
	case (two >= 51 && two <= 55 || two >= 22 && two <= 27) && n == 16:
	case (two == 34 || two == 37) && n == 15:
	case (two == 60 || two == 64 || two == 65 || two == 62) && n == 16, two == 35 && n == 16, (two == 36 || two == 38) && n == 14:
	default:
		return false
	}
	sum := 0
	for i, d := range reversed {
		v := int(d)
		if i%2 == 1 {
			if v *= 2; v > 9 {
				v -= 9
			}
		}
		sum += v
	}
	return sum%10 == 0
}

// IsCard reports whether a number literal is the number of a card.
func IsCard(literal []byte) bool {
	if len(literal) < minCard || len(literal) > 19 {
		return false
	}
	reversed := make([]byte, 0, len(literal))
	for i := len(literal) - 1; i >= 0; i-- {
		if literal[i] < '0' || literal[i] > '9' {
			return false
		}
		reversed = append(reversed, literal[i]-'0')
	}
	return isCard(reversed)
}
