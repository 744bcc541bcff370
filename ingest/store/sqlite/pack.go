package sqlite

import (
	"encoding/base64"
	"encoding/hex"
)

// Forms of a string in a block: as it is, or packed because it is an id.
const (
	formPlain  = 0
	formHex    = 1 // lower-case hex, as trace and span ids
	formBase64 = 2 // 16 bytes as 22 characters of unpadded URL base64, as identities
	forms      = 4
)

// Lengths for which packing is tried.
const (
	minHex    = 16
	maxHex    = 64
	lenBase64 = 22
)

var idEncoding = base64.RawURLEncoding.Strict()

// pack appends the packed form of s, if it has one that unpack turns into exactly s, and tells which.
func pack(to []byte, s string) ([]byte, uint64) {
	if len(s) >= minHex && len(s) <= maxHex && len(s)%2 == 0 && isHex(s) {
		packed, _ := hex.AppendDecode(to, []byte(s)) // cannot fail
		return packed, formHex
	}
	if len(s) == lenBase64 {
		var b [16]byte
		if n, err := idEncoding.Decode(b[:], []byte(s)); err == nil && n == len(b) {
			return append(to, b[:]...), formBase64
		}
	}
	return to, formPlain
}

func isHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// unpack appends the string of which b is the packed form.
func unpack(to, b []byte, form uint64) []byte {
	if form == formHex {
		return hex.AppendEncode(to, b)
	}
	return idEncoding.AppendEncode(to, b)
}
