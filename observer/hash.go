package observer

import (
	"encoding/json"
	"hash/maphash"
	"math"
	"math/bits"

	"pave/flows/value"
)

// Tags keep hashes of different types apart.
const (
	tagNull uint64 = iota + 1
	tagFalse
	tagTrue
	tagNumber
	tagArray
	tagObject
	tagText
)

// hashOf is a hash under a seed of this process: equal values (value.Equal) have equal hashes. It is for joining
// values inside one pass, where it is several times faster than value.Hash; nothing keeps it.
func hashOf(seed maphash.Seed, v any) uint64 {
	switch v := v.(type) {
	case nil:
		return mix(tagNull, 0)
	case bool:
		if v {
			return mix(tagTrue, 0)
		}
		return mix(tagFalse, 0)
	case string:
		return maphash.String(seed, v)
	case int64:
		return hashInteger(seed, v)
	case float64:
		if v == math.Trunc(v) && math.Abs(v) <= 1<<53 {
			return hashInteger(seed, int64(v))
		}
	case json.Number:
	case []any:
		h := hashStart(len(v), tagArray)
		for _, e := range v {
			h = mix(h, hashOf(seed, e))
		}
		return h
	case map[string]any:
		h := hashStart(len(v), tagObject)
		for k, e := range v {
			h += mix(maphash.String(seed, k), hashOf(seed, e))
		}
		return h
	}
	return mix(tagNumber, maphash.Bytes(seed, value.Canonical(v)))
}

// hashInteger covers integers that a float may equal; larger ones go by their digits.
func hashInteger(seed maphash.Seed, v int64) uint64 {
	if v > 1<<53 || v < -1<<53 {
		return mix(tagNumber, maphash.Bytes(seed, value.Canonical(v)))
	}
	return mix(tagNumber, uint64(v))
}

func hashStart(n int, tag uint64) uint64 { return mix(tag, uint64(n)) }

// mix combines two words: a folded multiplication of both.
func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a^0x9E3779B97F4A7C15, b^0xD6E8FEB86659FD93)
	return hi ^ lo
}
