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
)

// Redactor removes secrets from a payload before it is stored. It returns raw itself when there is nothing to hide,
// never changes raw's bytes, and is safe for concurrent use.
type Redactor interface {
	Redact(raw json.RawMessage) json.RawMessage
}

// DefaultSecretKeys are the member names whose values are never stored, at any depth, in any letter case.
var DefaultSecretKeys = []string{"password", "token", "api_key", "apikey", "secret", "authorization"}

// KeyRedactor replaces the values of members with secret names by tokens such as "[redacted:password:5f0c1a22b3d4]".
// The digits are a keyed hash of the value: equal secrets stay equal, so that mining still sees where a value
// goes, and nobody without the key can test a guess.
type KeyRedactor struct {
	key   []byte
	names map[string]bool
	long  int // length of the longest name
}

// NewKeyRedactor hides the values of members called names (DefaultSecretKeys when none are given). Keep key (32 random
// bytes) over restarts, or tokens of one secret will differ; with an empty key a random one is made.
func NewKeyRedactor(key []byte, names ...string) *KeyRedactor {
	if len(key) == 0 {
		key = make([]byte, 32)
		_, _ = rand.Read(key) // never fails
	}
	if len(names) == 0 {
		names = DefaultSecretKeys
	}
	r := &KeyRedactor{key: bytes.Clone(key), names: make(map[string]bool, len(names))}
	for _, n := range names {
		r.names[strings.ToLower(n)] = true
		r.long = max(r.long, len(n))
	}
	return r
}

// Redact implements Redactor for valid JSON; what is not is returned as it is.
func (r *KeyRedactor) Redact(raw json.RawMessage) json.RawMessage {
	w := redaction{r: r, s: rawjson.Scanner{Data: raw, Limits: rawjson.Limits{Depth: 1 << 10, Tokens: 1 << 24, Number: 1 << 20}}}
	if err := w.value(""); err != nil || w.out == nil {
		return raw
	}
	return append(w.out, raw[w.copied:]...)
}

// secret returns the lower-case name when the key is secret, "" otherwise.
func (r *KeyRedactor) secret(key []byte) string {
	if len(key) > r.long {
		return ""
	}
	if name := strings.ToLower(string(key)); r.names[name] {
		return name
	}
	return ""
}

func (r *KeyRedactor) token(name string, value []byte) string {
	mac := hmac.New(sha256.New, r.key)
	mac.Write(value)
	return "[redacted:" + name + ":" + hex.EncodeToString(mac.Sum(nil)[:6]) + "]"
}

// redaction copies the document up to each secret and writes the token in its place.
type redaction struct {
	r      *KeyRedactor
	s      rawjson.Scanner
	out    []byte
	copied int // bytes of the document that are in out, or replaced there
}

// value walks one value; name is the secret member it belongs to, "" for none.
func (w *redaction) value(name string) error {
	switch c := w.s.Peek(); c {
	case '{':
		if err := w.s.Open(c); err != nil {
			return err
		}
		for {
			key, more, err := w.s.Key()
			if err != nil || !more {
				return err
			}
			inner := w.r.secret(key)
			if inner == "" {
				inner = name
			}
			if err := w.value(inner); err != nil {
				return err
			}
		}
	case '[':
		if err := w.s.Open(c); err != nil {
			return err
		}
		for {
			if more, err := w.s.Next(); err != nil || !more {
				return err
			}
			if err := w.value(name); err != nil {
				return err
			}
		}
	}
	raw, err := w.s.Value()
	if err != nil || name == "" {
		return err
	}
	w.hide(name, raw)
	return nil
}

// hide replaces the scalar that ends at the scanner. Null, true, false, "" and tokens hide nothing.
func (w *redaction) hide(name string, raw []byte) {
	switch kind := rawjson.Kind(raw); {
	case kind != '"' && kind != '0', len(raw) == 2 && kind == '"', bytes.HasPrefix(raw, []byte(`"[redacted:`)):
		return
	}
	// The hash is of the text, so that a secret is the same whether it was escaped or not, or sent as a number.
	text := raw
	if rawjson.Kind(raw) == '"' {
		text = []byte(rawjson.Text(raw))
	}
	start := w.s.Pos - len(raw)
	w.out = append(w.out, w.s.Data[w.copied:start]...)
	w.out = rawjson.AppendString(w.out, w.r.token(name, text))
	w.copied = w.s.Pos
}
