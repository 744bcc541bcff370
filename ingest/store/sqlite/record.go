package sqlite

import (
	"encoding/json"
	"time"
)

// recordReader reads one record of a block, following it into the string table and the payload.
type recordReader struct {
	decoder
	block  *block
	offset uint64 // of the next content in the payload
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
	b := r.next(n - 1)
	return append(make(json.RawMessage, 0, len(b)), b...)
}

func (r *recordReader) text() string { return string(r.next(r.uint())) }
