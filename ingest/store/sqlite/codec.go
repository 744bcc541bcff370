package sqlite

import (
	"encoding/binary"
	"errors"
	"math"
	"time"
)

// errDamaged is what decoding answers to bytes that this package did not write.
var errDamaged = errors.New("stored data is damaged")

// encoder appends values in the compact form that decoder reads: varints, counted bytes.
type encoder struct{ b []byte }

func (e *encoder) uint(v uint64)   { e.b = binary.AppendUvarint(e.b, v) }
func (e *encoder) int(v int64)     { e.b = binary.AppendVarint(e.b, v) }
func (e *encoder) byte(v byte)     { e.b = append(e.b, v) }
func (e *encoder) float(v float64) { e.b = binary.LittleEndian.AppendUint64(e.b, math.Float64bits(v)) }

// time keeps any time exactly, the zero time too, as the distance from base (in seconds) and nanoseconds.
func (e *encoder) time(t time.Time, base int64) {
	e.int(t.Unix() - base)
	e.uint(uint64(t.Nanosecond()))
}

// decoder reads what encoder wrote. After the first damage it answers zeros, and err tells.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) fail() {
	d.err, d.b = errDamaged, nil
}

func (d *decoder) uint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) int() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) byte() byte {
	b := d.bytes(1)
	if b == nil {
		return 0
	}
	return b[0]
}

func (d *decoder) float() float64 {
	b := d.bytes(8)
	if b == nil {
		return 0
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(b))
}

// bytes gives the next n bytes, not copied; nil at damage.
func (d *decoder) bytes(n uint64) []byte {
	if n > uint64(len(d.b)) {
		d.fail()
		return nil
	}
	b := d.b[:n:n]
	d.b = d.b[n:]
	return b
}

// count reads the number of things that follow, each of which takes at least one byte.
func (d *decoder) count() int {
	n := d.uint()
	if n > uint64(len(d.b)) {
		d.fail()
		return 0
	}
	return int(n)
}

func (d *decoder) time(base int64) time.Time {
	seconds, ns := d.int()+base, d.uint()
	if ns >= uint64(time.Second) {
		d.fail()
		return time.Time{}
	}
	return time.Unix(seconds, int64(ns)).UTC()
}

// noTime is how columns hold the zero time: before all others.
const noTime = math.MinInt64

// The first and the last instant that int64 nanoseconds can hold, but for noTime.
var (
	firstInstant = time.Unix(0, noTime+1)
	lastInstant  = time.Unix(0, math.MaxInt64)
)

// nanos is a time as a column holds it; times beyond the range of int64 are moved to its ends.
func nanos(t time.Time) int64 {
	switch {
	case t.IsZero():
		return noTime
	case t.Before(firstInstant):
		return noTime + 1
	case t.After(lastInstant):
		return math.MaxInt64
	}
	return t.UnixNano()
}

// inColumn tells whether a column keeps a time exactly.
func inColumn(t time.Time) bool { return instant(nanos(t)).Equal(t) }

// instant is the time of a column.
func instant(ns int64) time.Time {
	if ns == noTime {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}
