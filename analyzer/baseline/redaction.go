package baseline

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Redacted stands for a hidden value.
const Redacted = "***REDACTED***"

// RedactionPolicy hides secrets in traces. It is immutable and safe for concurrent use.
type RedactionPolicy struct {
	keys    []string       // lower case; the whole value is hidden
	pattern *regexp.Regexp // in texts; nil for none
	length  int            // code points of a text, 0 for no limit
}

var secretKeys = []string{"password", "token", "api_key", "apikey", "secret", "authorization"}

// secretText are the forms in which keys of well-known services come.
var secretText = regexp.MustCompile(`(?i)\b(?:bearer\s+[a-z0-9._-]+|[srp]k-[a-z0-9]{16,}|gh[pousr]_[a-z0-9]{20,}|AKIA[0-9A-Z]{16}|xox[abpsr]-[a-z0-9-]{10,})\b`)

// DefaultRedaction hides values by name only.
func DefaultRedaction() RedactionPolicy { return RedactionPolicy{keys: secretKeys} }

// RecommendedRedaction knows more names and the keys of well-known services, and cuts texts at 4,096 code points.
func RecommendedRedaction() RedactionPolicy {
	return RedactionPolicy{pattern: secretText, length: 4096, keys: slices.Concat(secretKeys, []string{"access_token", "refresh_token", "client_secret",
		"private_key", "credential", "credentials", "session_token", "cookie", "set-cookie"})}
}

// StrictRedaction hides names of personal data as well and cuts texts at 256 code points.
func StrictRedaction() RedactionPolicy {
	p := RecommendedRedaction()
	p.keys = slices.Concat(p.keys, []string{"email", "phone", "ssn", "account", "account_number", "card", "card_number", "pin"})
	p.length = 256
	return p
}

// Redact returns a copy of a JSON value without its secrets.
func (p RedactionPolicy) Redact(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, inner := range v {
			if slices.Contains(p.keys, strings.ToLower(key)) {
				out[key] = Redacted
			} else {
				out[key] = p.Redact(inner)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = p.Redact(v[i])
		}
		return out
	case string:
		return p.text(v)
	}
	return v
}

func (p RedactionPolicy) text(s string) string {
	if p.pattern != nil {
		s = p.pattern.ReplaceAllString(s, Redacted)
	}
	if p.length > 0 && utf8.RuneCountInString(s) > p.length {
		s = string([]rune(s)[:p.length]) + "…(truncated)"
	}
	return s
}
