package clickhouse

import (
	"encoding/binary"
	"errors"
	"math"
	"time"
)

// errCorrupt tells that bytes which this package wrote do not decode; the file or the column was damaged.
var errCorrupt = errors.New("corrupt record")

// encoder appends values in the compact form of the spool and of the sequences column: numbers as varints, strings
// with their length before them.
type encoder struct{ buf []byte }

func (e *encoder) byte(v byte)   { e.buf = append(e.buf, v) }
func (e *encoder) uint(v uint64) { e.buf = binary.AppendUvarint(e.buf, v) }
func (e *encoder) int(v int64)   { e.buf = binary.AppendVarint(e.buf, v) }
func (e *encoder) float(v float64) {
	e.buf = binary.LittleEndian.AppendUint64(e.buf, math.Float64bits(v))
}

func (e *encoder) string(v string) {
	e.uint(uint64(len(v)))
	e.buf = append(e.buf, v...)
}

func (e *encoder) bytes(v []byte) {
	e.uint(uint64(len(v)))
	e.buf = append(e.buf, v...)
}

// decoder reads what encoder wrote. The first failure sticks; values after it are zero. Strings share the input's
// memory.
type decoder struct {
	in  string
	at  int // what is before was read; a string that is cut again and again costs a write barrier each time
	err error
}

func (d *decoder) fail() {
	d.at, d.err = len(d.in), errCorrupt
}

func (d *decoder) byte() byte {
	if d.at == len(d.in) {
		d.fail()
		return 0
	}
	v := d.in[d.at]
	d.at++
	return v
}

func (d *decoder) uint() uint64 {
	var v uint64
	for i := 0; d.at+i < len(d.in) && i < binary.MaxVarintLen64; i++ {
		b := d.in[d.at+i]
		if b < 0x80 {
			if i == binary.MaxVarintLen64-1 && b > 1 {
				break
			}
			d.at += i + 1
			return v | uint64(b)<<(7*i)
		}
		v |= uint64(b&0x7f) << (7 * i)
	}
	d.fail()
	return 0
}

func (d *decoder) int() int64 {
	v := d.uint()
	return int64(v>>1) ^ -int64(v&1)
}

func (d *decoder) float() float64 {
	if len(d.in)-d.at < 8 {
		d.fail()
		return 0
	}
	var v uint64
	for i := range 8 {
		v |= uint64(d.in[d.at+i]) << (8 * i)
	}
	d.at += 8
	return math.Float64frombits(v)
}

func (d *decoder) string() string {
	n := d.uint()
	if n > uint64(len(d.in)-d.at) {
		d.fail()
		return ""
	}
	v := d.in[d.at : d.at+int(n)]
	d.at += int(n)
	return v
}

// count reads a length and refuses one that the rest of the input cannot hold, at size bytes an element.
func (d *decoder) count(size int) int {
	n := d.uint()
	if n > uint64((len(d.in)-d.at)/size) {
		d.fail()
		return 0
	}
	return int(n)
}

// end reports the sticky error, or that input is left over.
func (d *decoder) end() error {
	if d.err == nil && d.at < len(d.in) {
		d.fail()
	}
	return d.err
}

// The instants that fit into 64 bits of nanoseconds.
var (
	firstInstant = time.Unix(0, math.MinInt64)
	lastInstant  = time.Unix(0, math.MaxInt64)
)

// nanos is the time in unix nanoseconds; instants outside 1677-09-21 to 2262-04-11 become the nearest one inside.
func nanos(t time.Time) int64 {
	switch {
	case t.Before(firstInstant):
		return math.MinInt64
	case t.After(lastInstant):
		return math.MaxInt64
	}
	return t.UnixNano()
}

// instant is the inverse of nanos, in UTC; zero where the time is not known.
func instant(known bool, unixNano int64) time.Time {
	if !known {
		return time.Time{}
	}
	return time.Unix(0, unixNano).UTC()
}

// raw is a JSON text as the contract has it: nil when there is none. It does not share memory with s.
func raw(s string) []byte {
	if s == "" {
		return nil
	}
	return []byte(s)
}
