package sqlite

import (
	"encoding/json"
	"time"
)

// recordReader reads one record of a block, following it into the string table and the payload.
type recordReader struct {
	decoder
	block    *block
	offset   uint64 // of the next content in the payload
	contents *arena // what contents are copied into
}

func (r *recordReader) interned() string {
	i := r.uint()
	if i >= uint64(len(r.block.strings)) {
		r.fail()
		return ""
	}
	return r.block.strings[i]
}

func (r *recordReader) duration() time.Duration { return time.Duration(r.int()) }

// next gives n bytes of the payload, not copied.
func (r *recordReader) next(n uint64) []byte {
	have := uint64(len(r.block.payload))
	if r.offset > have || n > have-r.offset {
		r.fail()
		return nil
	}
	b := r.block.payload[r.offset : r.offset+n]
	r.offset += n
	return b
}

func (r *recordReader) content() json.RawMessage {
	n := r.uint()
	if n == 0 {
		return nil
	}
	return r.contents.copy(r.next(n - 1))
}

func (r *recordReader) text() string { return string(r.next(r.uint())) }

// arena is memory for the contents of the events of one session, which are used and forgotten together. The zero value is
// ready, and nil copies each by itself.
type arena struct {
	room []byte
	next int // size of the next piece of room
}

// The least and the largest size of a piece of room; what is larger than a quarter of it has memory of its own.
const (
	minRoom = 4 << 10
	maxRoom = 64 << 10
)

// copy is a copy of b that can be appended to without harm.
func (a *arena) copy(b []byte) []byte {
	if a == nil || len(b) == 0 || len(b) > maxRoom/4 { // empty ones are not nil
		return append(make([]byte, 0, len(b)), b...)
	}
	if len(a.room) < len(b) {
		a.next = min(maxRoom, max(minRoom, 2*a.next, len(b)))
		a.room = make([]byte, a.next)
	}
	n := copy(a.room, b)
	out := a.room[:n:n]
	a.room = a.room[n:]
	return out
}
