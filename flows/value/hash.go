package value

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"math/bits"
)

// Key is the secret of a keyed hash: without it hashes of guessed values cannot be compared.
type Key [16]byte

// Hash returns a keyed 64-bit hash of v: SipHash-2-4 (Aumasson and Bernstein, 2012) of each scalar, combined
// over arrays in order and over objects by sum, so that equal values have equal hashes under one key, in every
// process. Different values collide with probability near 2^-64; compare with Equal where that matters.
func Hash(key Key, v any) uint64 {
	h := hasher{binary.LittleEndian.Uint64(key[:8]), binary.LittleEndian.Uint64(key[8:])}
	return h.value(v)
}

type hasher struct{ k0, k1 uint64 }

// Tags keep the types apart.
const (
	tagNull uint64 = iota + 1
	tagFalse
	tagTrue
	tagInt
	tagFloat
	tagBig
	tagString
	tagArray
	tagObject
)

func (h hasher) value(v any) uint64 {
	switch v := simplify(v).(type) {
	case nil:
		return h.words(tagNull, 0)
	case bool:
		if v {
			return h.words(tagTrue, 0)
		}
		return h.words(tagFalse, 0)
	case string:
		return h.words(tagString, h.text(v))
	case int64:
		if v >= -maxExact && v <= maxExact {
			return h.words(tagInt, uint64(v))
		}
		return h.words(tagBig, h.text(string(Canonical(v))))
	case float64:
		if i, ok := integral(v); ok {
			return h.words(tagInt, uint64(i))
		}
		if v == math.Trunc(v) {
			return h.words(tagBig, h.text(string(Canonical(v))))
		}
		return h.words(tagFloat, math.Float64bits(v))
	case json.Number:
		return h.words(tagBig, h.text(string(v)))
	case []any:
		sum := uint64(len(v))
		for i := range v {
			sum = h.words(sum, h.value(v[i]))
		}
		return h.words(tagArray, sum)
	case map[string]any:
		var sum uint64
		for k, e := range v {
			sum += h.words(h.text(k), h.value(e))
		}
		return h.words(tagObject, sum)
	case Members:
		return h.value(shallow(v))
	default:
		other, err := Of(v)
		if err != nil {
			return h.words(tagNull, 0)
		}
		return h.value(other)
	}
}

// sip is the state of SipHash.
type sip struct{ v0, v1, v2, v3 uint64 }

func (h hasher) start() sip {
	return sip{h.k0 ^ 0x736f6d6570736575, h.k1 ^ 0x646f72616e646f6d, h.k0 ^ 0x6c7967656e657261, h.k1 ^ 0x7465646279746573}
}

func (s *sip) round() {
	s.v0 += s.v1
	s.v2 += s.v3
	s.v1 = bits.RotateLeft64(s.v1, 13) ^ s.v0
	s.v3 = bits.RotateLeft64(s.v3, 16) ^ s.v2
	s.v0 = bits.RotateLeft64(s.v0, 32)
	s.v2 += s.v1
	s.v0 += s.v3
	s.v1 = bits.RotateLeft64(s.v1, 17) ^ s.v2
	s.v3 = bits.RotateLeft64(s.v3, 21) ^ s.v0
	s.v2 = bits.RotateLeft64(s.v2, 32)
}

func (s *sip) word(m uint64) {
	s.v3 ^= m
	s.round()
	s.round()
	s.v0 ^= m
}

func (s *sip) finish() uint64 {
	s.v2 ^= 0xff
	for range 4 {
		s.round()
	}
	return s.v0 ^ s.v1 ^ s.v2 ^ s.v3
}

// words hashes a 16-byte message of two words.
func (h hasher) words(a, b uint64) uint64 {
	s := h.start()
	s.word(a)
	s.word(b)
	s.word(16 << 56)
	return s.finish()
}

// text hashes the bytes of t.
func (h hasher) text(t string) uint64 {
	s := h.start()
	last := uint64(len(t)) << 56
	for ; len(t) >= 8; t = t[8:] {
		s.word(uint64(t[0]) | uint64(t[1])<<8 | uint64(t[2])<<16 | uint64(t[3])<<24 |
			uint64(t[4])<<32 | uint64(t[5])<<40 | uint64(t[6])<<48 | uint64(t[7])<<56)
	}
	for i := range len(t) {
		last |= uint64(t[i]) << (8 * i)
	}
	s.word(last)
	return s.finish()
}
