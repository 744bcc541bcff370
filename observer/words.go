package observer

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"pave/flows/value"
)

// scalarText is a scalar as a person would write it; "" for anything else.
func scalarText(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case nil, bool, []any, map[string]any:
		return ""
	}
	return string(value.Encode(v))
}

// shortText is the length below which a text counts as mentioned only as a word of its own.
const shortText = 4

// mentions reports whether text holds part. Short parts must stand alone, so that 1 is not found in 2019.
func mentions(text, part string) bool {
	if part == "" {
		return false
	}
	if len(part) >= shortText {
		return strings.Contains(text, part)
	}
	for from := 0; ; {
		i := strings.Index(text[from:], part)
		if i < 0 {
			return false
		}
		i += from
		before, _ := utf8.DecodeLastRuneInString(text[:i])
		after, _ := utf8.DecodeRuneInString(text[i+len(part):])
		if !isWordRune(before) && !isWordRune(after) {
			return true
		}
		from = i + 1
	}
}

func isWordRune(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// freeTextLength is the length above which a text of several words is prose, not a value.
const freeTextLength = 24

func isFreeText(s string) bool {
	return len(s) > freeTextLength && strings.ContainsAny(s, " \n")
}

// uninformative reports whether a value is equal to others by chance everywhere.
func uninformative(v any) bool {
	switch v := v.(type) {
	case nil, bool:
		return true
	case string:
		return v == ""
	case int64:
		return v == 0 || v == 1
	case float64:
		return v == 0 || v == 1
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}

// sameName compares names without case, separators and plural s.
func sameName(a, b string) bool { return plainName(a) == plainName(b) }

func plainName(name string) string {
	plain := strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r == '.' || r == ' ' {
			return -1
		}
		return unicode.ToLower(r)
	}, name)
	return strings.TrimSuffix(plain, "s")
}
