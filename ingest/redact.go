package ingest

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"

	"pave/ingest/rawjson"
	"pave/ingest/secrets"
)

// Redactor removes secrets before anything is stored. It never changes the bytes it is given, and is safe for concurrent
// use.
type Redactor interface {
	// Redact returns the JSON without its secrets, raw itself when there is nothing to hide.
	Redact(raw json.RawMessage) json.RawMessage
	// RedactText does the same for a text.
	RedactText(text string) string
}

// DefaultSecretKeys are the member names whose values a KeyRedactor never lets through, at any depth, in any letter case.
var DefaultSecretKeys = []string{"password", "token", "api_key", "apikey", "secret", "authorization"}

// KeyRedactor replaces secrets by tokens such as "[redacted:secret:5f0c1a22b3d4]". The digits are a keyed hash of the
// secret: equal secrets stay equal wherever they stand, so that mining still sees where a value goes, and nobody
// without the key can test a guess.
type KeyRedactor struct {
	key   []byte
	names map[string]bool // exact names in lower case, where there is no finder
	long  int             // length of the longest name
	find  *secrets.Finder // nil: by exact names only
}

// NewKeyRedactor hides the values of members called names (DefaultSecretKeys when none are given) and nothing else. Keep
// key (32 random bytes) over restarts, or tokens of one secret will differ; with an empty key a random one is made.
func NewKeyRedactor(key []byte, names ...string) *KeyRedactor {
	if len(names) == 0 {
		names = DefaultSecretKeys
	}
	r := &KeyRedactor{key: keyOrRandom(key), names: make(map[string]bool, len(names))}
	for _, n := range names {
		r.names[strings.ToLower(n)] = true
		r.long = max(r.long, len(n))
	}
	return r
}

// NewRedactor hides what secrets.Finder finds: values of members, headers and assignments with secret names, and secrets
// by their form, in JSON, in JSON inside of texts, and in texts. For the key see NewKeyRedactor.
func NewRedactor(key []byte, opts secrets.Options) *KeyRedactor {
	return &KeyRedactor{key: keyOrRandom(key), find: secrets.New(opts)}
}

func keyOrRandom(key []byte) []byte {
	if len(key) > 0 {
		return bytes.Clone(key)
	}
	key = make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	return key
}

// Redact implements Redactor for valid JSON; what is not is taken as a text.
func (r *KeyRedactor) Redact(raw json.RawMessage) json.RawMessage {
	if r.find != nil && !r.find.Suspicious(raw) {
		return raw
	}
	return r.redact(raw, 0)
}

func (r *KeyRedactor) redact(raw []byte, depth int) []byte {
	w := redaction{r: r, s: rawjson.Scanner{Data: raw, Limits: rawjson.Limits{Depth: 1 << 10, Tokens: 1 << 24, Number: 1 << 20}}, depth: depth}
	if err := w.value(false); err != nil {
		if r.find == nil {
			return raw
		}
		return []byte(r.text(string(raw)))
	}
	if w.out == nil {
		return raw
	}
	return append(w.out, raw[w.copied:]...)
}

// RedactText implements Redactor.
func (r *KeyRedactor) RedactText(text string) string {
	if r.find == nil || !r.find.Suspicious([]byte(text)) {
		return text
	}
	return r.innerText(text, 0)
}

// maxInnerJSON bounds how often JSON is looked for in texts of JSON.
const maxInnerJSON = 4

// innerText redacts a text, by its members where it holds JSON.
func (r *KeyRedactor) innerText(text string, depth int) string {
	if depth >= maxInnerJSON {
		return r.text(text)
	}
	var b strings.Builder
	from := 0
	for at, tries := 0, 0; tries < maxEmbedded; tries++ {
		i := strings.IndexAny(text[at:], "{[")
		if i < 0 {
			break
		}
		at += i
		s := rawjson.Scanner{Data: []byte(text[at:])}
		raw, err := s.Value()
		if err != nil || len(raw) < len(`{"a":1}`) {
			at++
			continue
		}
		b.WriteString(r.text(text[from:at]))
		b.Write(r.redact(raw, depth+1))
		at += len(raw)
		from = at
	}
	if from == 0 {
		return r.text(text)
	}
	b.WriteString(r.text(text[from:]))
	return b.String()
}

// maxEmbedded bounds how often JSON is looked for in one text.
const maxEmbedded = 16

// text replaces the secrets that the finder finds.
func (r *KeyRedactor) text(text string) string {
	found := r.find.Find(text)
	if len(found) == 0 {
		return text
	}
	var b strings.Builder
	from := 0
	for _, s := range found {
		b.WriteString(text[from:s.From])
		b.WriteString(r.token(s.Kind, text[s.From:s.To]))
		from = s.To
	}
	b.WriteString(text[from:])
	return b.String()
}

// secret reports whether the member is secret.
func (r *KeyRedactor) secret(key []byte) bool {
	if r.find != nil {
		return r.find.SecretName(string(key))
	}
	return len(key) <= r.long && r.names[strings.ToLower(string(key))]
}

const tokenStart = "[redacted:"

// removed stands where the executor, or another recorder, has taken a value out.
const removed = "***REDACTED***"

func (r *KeyRedactor) token(kind, value string) string {
	mac := hmac.New(sha256.New, r.key)
	mac.Write([]byte(value))
	return tokenStart + kind + ":" + hex.EncodeToString(mac.Sum(nil)[:6]) + "]"
}

// redaction copies the document up to each secret and writes the token in its place.
type redaction struct {
	r      *KeyRedactor
	s      rawjson.Scanner
	depth  int // of JSON in texts
	out    []byte
	copied int // bytes of the document that are in out, or replaced there
}

// value walks one value; hidden is set inside of a secret member.
func (w *redaction) value(hidden bool) error {
	switch c := w.s.Peek(); c {
	case '{':
		return w.object(hidden)
	case '[':
		return w.array(hidden)
	}
	raw, err := w.s.Value()
	if err != nil {
		return err
	}
	w.scalar(raw, hidden)
	return nil
}

// object walks members. {"name": "Authorization", "value": ...} is a member in other words.
func (w *redaction) object(hidden bool) error {
	if err := w.s.Open('{'); err != nil {
		return err
	}
	pair := false // the object's name is that of a secret
	for {
		key, more, err := w.s.Key()
		if err != nil || !more {
			return err
		}
		inner := hidden || w.r.secret(key) || pair && isOne(key, "value", "values", "val")
		if !inner && w.r.find != nil && isOne(key, "name", "key", "header", "field") && w.s.Peek() == '"' {
			start := w.s.Pos
			raw, err := w.s.Value()
			if err != nil {
				return err
			}
			pair = w.r.find.SecretName(rawjson.Text(raw))
			w.s.Pos = start
		}
		if err := w.value(inner); err != nil {
			return err
		}
	}
}

func isOne(key []byte, names ...string) bool {
	for _, n := range names {
		if string(key) == n {
			return true
		}
	}
	return false
}

// array walks elements. ["Authorization", ...] is a header.
func (w *redaction) array(hidden bool) error {
	if err := w.s.Open('['); err != nil {
		return err
	}
	header := false
	for i := 0; ; i++ {
		more, err := w.s.Next()
		if err != nil || !more {
			return err
		}
		if i == 0 && !hidden && w.r.find != nil && w.s.Peek() == '"' {
			start := w.s.Pos
			raw, err := w.s.Value()
			if err != nil {
				return err
			}
			header = w.r.find.SecretName(rawjson.Text(raw))
			w.s.Pos = start
		}
		if err := w.value(hidden || header && i == 1); err != nil {
			return err
		}
	}
}

// scalar replaces the scalar that ends at the scanner when it is secret or holds a secret. Null, true, false, "" and
// tokens hide nothing.
func (w *redaction) scalar(raw []byte, hidden bool) {
	kind := rawjson.Kind(raw)
	if kind != '"' && kind != '0' || kind == '"' && len(raw) == 2 {
		return
	}
	if kind == '0' {
		switch {
		case hidden:
			w.replace(raw, w.r.token(secrets.KindSecret, string(raw)))
		case w.r.find != nil && secrets.IsCard(raw):
			w.replace(raw, w.r.token(secrets.KindCard, string(raw)))
		}
		return
	}
	if !hidden && (w.r.find == nil || !w.r.find.Suspicious(raw)) {
		return
	}
	// The hash is of the text, so that a secret is the same whether it was escaped or not, or sent as a number.
	text := rawjson.Text(raw)
	out := text
	if hidden {
		out = w.hide(text)
	} else {
		out = w.r.innerText(text, w.depth)
	}
	if out != text {
		w.replace(raw, out)
	}
}

// hide replaces a whole text; what stands before a token, such as its scheme, stays.
func (w *redaction) hide(text string) string {
	if strings.HasPrefix(text, tokenStart) || text == removed {
		return text
	}
	if scheme, rest, ok := strings.Cut(text, " "); ok && w.r.find != nil && (strings.EqualFold(scheme, "bearer") || strings.EqualFold(scheme, "basic")) {
		if strings.HasPrefix(rest, tokenStart) {
			return text
		}
		return scheme + " " + w.r.token(secrets.KindSecret, rest)
	}
	return w.r.token(secrets.KindSecret, text)
}

func (w *redaction) replace(raw []byte, text string) {
	start := w.s.Pos - len(raw)
	w.out = append(w.out, w.s.Data[w.copied:start]...)
	w.out = rawjson.AppendString(w.out, text)
	w.copied = w.s.Pos
}
