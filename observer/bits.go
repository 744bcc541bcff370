package observer

import "math/bits"

// bitset is a set of record numbers below a fixed size.
type bitset []uint64

func newBitset(n int) bitset { return make(bitset, (n+63)/64) }

// fullBitset has all of 0..n-1.
func fullBitset(n int) bitset {
	s := newBitset(n)
	for i := range n {
		s.add(i)
	}
	return s
}

func (s bitset) add(i int)      { s[i/64] |= 1 << (i % 64) }
func (s bitset) has(i int) bool { return s[i/64]&(1<<(i%64)) != 0 }

func (s bitset) count() int {
	n := 0
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

// both counts what is in s and t.
func (s bitset) both(t bitset) int {
	n := 0
	for i, w := range s {
		n += bits.OnesCount64(w & t[i])
	}
	return n
}

// keep removes from s what is not in t.
func (s bitset) keep(t bitset) {
	for i := range s {
		s[i] &= t[i]
	}
}

// drop removes from s what is in t.
func (s bitset) drop(t bitset) {
	for i := range s {
		s[i] &^= t[i]
	}
}

// join adds what is in t.
func (s bitset) join(t bitset) {
	for i := range s {
		s[i] |= t[i]
	}
}

func (s bitset) clone() bitset { return append(bitset(nil), s...) }
