package schema

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"pave/flows/value"
)

// Fingerprint is the first 16 hex digits of the SHA-256 of the schema's normal form: RFC 8785 with titles,
// descriptions, examples and comments left out and required sorted. Two schemas with one fingerprint accept the
// same values. An empty document has the fingerprint of the schema {}.
func Fingerprint(raw json.RawMessage) (string, error) {
	doc, err := decode(raw)
	if err != nil {
		return "", err
	}
	return short(value.Canonical(normalise(doc, false))), nil
}

// PeerFingerprint is the base system's fingerprint of the document exactly as it stands, titles included.
func PeerFingerprint(raw json.RawMessage) (string, error) {
	doc, err := decode(raw)
	if err != nil {
		return "", err
	}
	return short(appendPeer(nil, doc)), nil
}

func decode(raw json.RawMessage) (any, error) {
	if len(raw) == 0 {
		return map[string]any{}, nil
	}
	return value.DecodeStrict(raw)
}

func short(canonical []byte) string {
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:8])
}

var (
	annotations = []string{"title", "description", "examples", "$comment"}
	// named hold schemas under names that are not keywords; plain values of literal keywords stay as they are.
	named   = []string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
	literal = []string{"enum", "const", "default"}
)

// normalise drops annotations. names is set when the keys of v are names, not keywords.
func normalise(v any, names bool) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = normalise(v[i], false)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, e := range v {
			switch {
			case names:
				out[key] = normalise(e, false)
			case slices.Contains(annotations, key):
			case slices.Contains(literal, key):
				out[key] = e
			case key == "required":
				out[key] = sorted(e)
			default:
				out[key] = normalise(e, slices.Contains(named, key))
			}
		}
		return out
	}
	return v
}

func sorted(v any) any {
	list, ok := v.([]any)
	if !ok {
		return v
	}
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b any) int { return strings.Compare(string(value.Canonical(a)), string(value.Canonical(b))) })
	return list
}

// appendPeer writes the base system's canonical JSON: sorted keys, ASCII only, floats as Python shows them.
func appendPeer(dst []byte, v any) []byte {
	switch v := v.(type) {
	case string:
		return appendASCII(dst, v)
	case float64:
		return append(dst, pythonFloat(v)...)
	case []any:
		dst = append(dst, '[')
		for i := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendPeer(dst, v[i])
		}
		return append(dst, ']')
	case map[string]any:
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		dst = append(dst, '{')
		for i, k := range keys {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(appendASCII(dst, k), ':')
			dst = appendPeer(dst, v[k])
		}
		return append(dst, '}')
	}
	return value.AppendJSON(dst, v)
}

// appendASCII writes s quoted with every character beyond printable ASCII as \uXXXX.
func appendASCII(dst []byte, s string) []byte {
	for _, r := range string(value.Encode(s)) {
		if r < 0x7f {
			dst = append(dst, byte(r))
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			hexed := strconv.FormatUint(uint64(unit), 16)
			dst = append(dst, `\u`...)
			dst = append(dst, "0000"[len(hexed):]...)
			dst = append(dst, hexed...)
		}
	}
	return dst
}

// pythonFloat is repr(f): an exponent from 1e16 on and below 1e-4.
func pythonFloat(f float64) string {
	if abs := math.Abs(f); abs != 0 && (abs < 1e-4 || abs >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	text := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}
