package bind

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

var secretRef = regexp.MustCompile(`\{\{\s*secret:([A-Za-z_][A-Za-z0-9_]*)\s*\}\}`)

// Expand replaces the references {{secret:NAME}} of a text by what lookup knows and returns the values that it used.
func Expand(ctx context.Context, text string, lookup func(ctx context.Context, name string) (string, error)) (out string, used []string, err error) {
	out = secretRef.ReplaceAllStringFunc(text, func(ref string) string {
		name := secretRef.FindStringSubmatch(ref)[1]
		if lookup == nil {
			err = fmt.Errorf("secret %s: no secrets are configured", name)
			return ""
		}
		secret, failed := lookup(ctx, name)
		if failed != nil {
			err = failed
		}
		used = append(used, secret)
		return secret
	})
	return out, used, err
}

// MaxExcerpt is the longest text from outside that is quoted, in characters.
const MaxExcerpt = 200

// redacted stands for a secret that came back.
const redacted = "***REDACTED***"

// minSecret is the length from which a secret is taken out of results; a shorter one would hit ordinary text.
const minSecret = 6

// Scrub clears a text of secret values.
func Scrub(text string, secrets []string) string {
	for _, s := range slices.SortedFunc(slices.Values(secrets), func(a, b string) int { return len(b) - len(a) }) {
		if s != "" {
			text = strings.ReplaceAll(text, s, redacted)
		}
	}
	return text
}

// ScrubValue clears every string of a decoded answer, keys included; it changes v in place.
func ScrubValue(v any, secrets []string) any {
	secrets = slices.DeleteFunc(slices.Clone(secrets), func(s string) bool { return len(s) < minSecret })
	if len(secrets) == 0 {
		return v
	}
	var walk func(v any) any
	walk = func(v any) any {
		switch v := v.(type) {
		case string:
			return Scrub(v, secrets)
		case []any:
			for i := range v {
				v[i] = walk(v[i])
			}
		case map[string]any:
			for key, member := range v {
				if clean := Scrub(key, secrets); clean != key {
					delete(v, key)
					key = clean
				}
				v[key] = walk(member)
			}
		}
		return v
	}
	return walk(v)
}

// OneLine is the beginning of a text from outside, without what could steer a terminal or forge a line of a log.
func OneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "\ufffd"))
	if runes := []rune(text); len(runes) > MaxExcerpt {
		text = string(runes[:MaxExcerpt]) + "…"
	}
	return text
}
