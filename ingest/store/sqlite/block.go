package sqlite

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/klauspost/compress/zstd"

	"pave/ingest"
)

// A block is cut before its payload would pass blockBytes, so that reading one event never decodes much more; one
// event larger than that has a block of its own.
const (
	blockBytes  = 1 << 20
	blockEvents = 4096
)

// denseBytes is the payload from which on a block is compressed harder. Such come of imports and of large requests, where
// that costs little beside the rest, and saves most.
const denseBytes = 256 << 10

// headVersion is the first byte of a head, so that a later form is told from this one.
const headVersion = 1

// maxBlockRaw bounds what a block may decode to: one event of the largest size that SQLite holds.
const maxBlockRaw = 1 << 30

var (
	// The checksums that zstd adds find damage on disk.
	compressor, _   = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithWindowSize(2*blockBytes), zstd.WithEncoderConcurrency(2))
	denser, _       = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBetterCompression), zstd.WithWindowSize(2*blockBytes), zstd.WithEncoderConcurrency(2))
	decompressor, _ = zstd.NewReader(nil, zstd.WithDecoderConcurrency(2), zstd.WithDecoderMaxMemory(maxBlockRaw))
)

// bits of an event's record.
const (
	bitSeq = 1 << iota
	bitTurn
	bitTruncated
	bitCost
	bitTraceOrigin   // the origin is that of the trace id
	bitSessionOrigin // the origin is that of the session id
	bitShown         // the identity is the one that the event shows
	bitPlace         // the identity is that of the event's place
)

// The origins that follow from an id of the event, as most do.
const (
	traceOrigin   = "trace:"
	sessionOrigin = "session:"
)

// blockWriter collects events and encodes them as a block.
//
// The head is two zstd frames. The first is: version, seconds that times count from, string table (count, sizes and
// forms, bytes of the plain strings), number of records, their lengths, the records. The second is the strings that are
// ids, packed: random bytes beside text would spoil the compression of both. What follows from other fields, as most origins
// and identities do, is left out. A record refers to strings by their place
// in the table and to its contents by offset and lengths in the payload. The payload is nothing but contents.
type blockWriter struct {
	base    int64
	strings map[string]uint64
	table   encoder // sizes and forms of strings
	text    []byte  // plain strings
	ids     []byte  // packed strings
	sizes   encoder // of records
	records encoder
	payload []byte
	events  int
}

func newBlockWriter() *blockWriter {
	return &blockWriter{strings: map[string]uint64{}}
}

// fits tells whether an event with so many content bytes may still be added.
func (w *blockWriter) fits(contents int) bool {
	return w.events == 0 || (w.events < blockEvents && len(w.payload)+contents <= blockBytes && len(w.text) <= blockBytes)
}

// contentBytes is the size of what add puts into the payload.
func contentBytes(e *ingest.Event) int {
	n := len(e.Metadata)
	switch e.Kind {
	case ingest.KindToolCall:
		n += len(e.Call.Args) + len(e.Call.Result) + len(e.Call.Error)
	case ingest.KindUserMessage:
		n += len(e.User.Text)
	}
	return n
}

// add appends one checked event and returns its place in the block.
func (w *blockWriter) add(e *ingest.Event) uint64 {
	if w.events == 0 {
		w.base = e.Received.Unix()
	}
	r := &w.records
	before := len(r.b)
	r.byte(byte(e.Kind))
	bits := bitsOf(e)
	r.byte(bits)
	if bits&(bitTraceOrigin|bitSessionOrigin) == 0 {
		r.uint(w.intern(e.Origin))
	}
	for _, s := range [...]string{
		e.SessionID, e.TraceID, e.SpanID, e.ParentSpanID, e.RunID, e.Agent, e.Source, string(e.OriginKind),
	} {
		r.uint(w.intern(s))
	}
	if bits&(bitShown|bitPlace) == 0 {
		r.uint(w.intern(e.Identity))
	}
	r.int(e.Seq)
	r.int(int64(e.Turn))
	r.time(e.Start, w.base)
	r.int(int64(e.Duration))
	r.time(e.Received, w.base)
	r.uint(uint64(len(w.payload)))
	w.content(e.Metadata)
	switch e.Kind {
	case ingest.KindToolCall:
		c := e.Call
		r.uint(w.intern(c.Tool))
		r.uint(w.intern(c.CallID))
		r.uint(w.intern(string(c.Status)))
		w.content(c.Args)
		w.content(c.Result)
		r.uint(uint64(len(c.Error)))
		w.payload = append(w.payload, c.Error...)
	case ingest.KindLLMCall:
		l := e.LLM
		r.uint(w.intern(l.Model))
		r.int(int64(l.Count))
		r.int(l.InputTokens)
		r.int(l.OutputTokens)
		r.int(l.CachedTokens)
		r.float(l.CostUSD)
	case ingest.KindUserMessage:
		r.uint(uint64(len(e.User.Text)))
		w.payload = append(w.payload, e.User.Text...)
	}
	w.sizes.uint(uint64(len(r.b) - before))
	w.events++
	return uint64(w.events - 1)
}

func bitsOf(e *ingest.Event) byte {
	var bits byte
	if e.HasSeq {
		bits |= bitSeq
	}
	if e.HasTurn {
		bits |= bitTurn
	}
	if e.Kind == ingest.KindToolCall && e.Call.Truncated {
		bits |= bitTruncated
	}
	if e.Kind == ingest.KindLLMCall && e.LLM.HasCost {
		bits |= bitCost
	}
	if id, ok := strings.CutPrefix(e.Origin, traceOrigin); ok && id == e.TraceID {
		bits |= bitTraceOrigin
	} else if id, ok := strings.CutPrefix(e.Origin, sessionOrigin); ok && id == e.SessionID {
		bits |= bitSessionOrigin
	}
	switch {
	case e.Identity == "":
	case e.Identity == ingest.ShownIdentity(e):
		bits |= bitShown
	case e.Identity == ingest.PlaceIdentity(e):
		bits |= bitPlace
	}
	return bits
}

// intern gives the place of a string in the table.
func (w *blockWriter) intern(s string) uint64 {
	id, ok := w.strings[s]
	if !ok {
		id = uint64(len(w.strings))
		w.strings[s] = id
		before := len(w.ids)
		var form uint64
		w.ids, form = pack(w.ids, s)
		size := len(w.ids) - before
		if form == formPlain {
			w.text = append(w.text, s...)
			size = len(s)
		}
		w.table.uint(uint64(size)*forms + form)
	}
	return id
}

// content appends raw JSON to the payload; its length is one more than it is, so that 0 is nil.
func (w *blockWriter) content(raw json.RawMessage) {
	if raw == nil {
		w.records.uint(0)
		return
	}
	w.records.uint(uint64(len(raw)) + 1)
	w.payload = append(w.payload, raw...)
}

// finish encodes the block, and leaves the writer empty for the next one.
func (w *blockWriter) finish() (head, payload []byte) {
	var h encoder
	h.b = make([]byte, 0, 64+len(w.table.b)+len(w.text)+len(w.sizes.b)+len(w.records.b))
	h.byte(headVersion)
	h.int(w.base)
	h.uint(uint64(len(w.strings)))
	h.b = append(h.b, w.table.b...)
	h.b = append(h.b, w.text...)
	h.uint(uint64(w.events))
	h.b = append(h.b, w.sizes.b...)
	h.b = append(h.b, w.records.b...)
	head = compressor.EncodeAll(w.ids, compressor.EncodeAll(h.b, nil))
	payload = payloadCompressor(len(w.payload)).EncodeAll(w.payload, nil)
	clear(w.strings)
	w.table.b, w.text, w.ids, w.sizes.b, w.records.b = w.table.b[:0], w.text[:0], w.ids[:0], w.sizes.b[:0], w.records.b[:0]
	w.payload, w.events = w.payload[:0], 0
	return head, payload
}

// payloadCompressor is the one for a payload of a size.
func payloadCompressor(size int) *zstd.Encoder {
	if size >= denseBytes {
		return denser
	}
	return compressor
}

// block is a decoded block. Several readers may share it.
type block struct {
	base    int64
	strings []string
	records [][]byte
	payload []byte
	size    int // bytes it keeps in memory, about

	raw, text    []byte // the head, and room for its strings
	table, sizes []uint64
}

// openBlock decodes the two columns of a block.
func openBlock(head, payload []byte) (*block, error) {
	b := &block{}
	if err := b.open(head, payload); err != nil {
		return nil, err
	}
	return b, nil
}

// open makes b the block of two columns, in the memory that it has: of the block it was before nothing may be used any
// more but decoded events.
func (b *block) open(head, payload []byte) (err error) {
	if b.raw, err = decompressor.DecodeAll(head, b.raw[:0]); err != nil {
		return fmt.Errorf("%w: %w", errDamaged, err)
	}
	d := decoder{b: b.raw}
	if v := d.byte(); v != headVersion {
		return fmt.Errorf("%w: block of version %d", errDamaged, v)
	}
	b.base = d.int()
	b.table = b.table[:0]
	var plain uint64
	for range d.count() {
		entry := d.uint()
		if entry%forms == formPlain {
			plain += min(entry/forms, uint64(len(b.raw)))
		}
		b.table = append(b.table, entry)
	}
	text := d.bytes(plain)
	b.sizes, b.records = b.sizes[:0], b.records[:0]
	for range d.count() {
		b.sizes = append(b.sizes, d.uint())
	}
	for _, size := range b.sizes {
		b.records = append(b.records, d.bytes(size))
	}
	b.readStrings(text, &d)
	if d.err != nil {
		return d.err
	}
	if b.payload, err = decompressor.DecodeAll(payload, b.payload[:0]); err != nil {
		return fmt.Errorf("%w: %w", errDamaged, err)
	}
	b.size = cap(b.raw) + cap(b.payload) + 2*cap(b.text) + 16*cap(b.strings) + 24*cap(b.records) + 8*cap(b.table) + 8*cap(b.sizes)
	return nil
}

// readStrings fills the string table: plain strings from text, the others from what is left in ids.
func (b *block) readStrings(text []byte, ids *decoder) {
	// One copy for all: strings are many and short, and the events of a block are mostly read together.
	b.text = b.text[:0]
	ends := b.table // read before it is written
	from := decoder{b: text}
	for i, entry := range b.table {
		if form := entry % forms; form == formPlain {
			b.text = append(b.text, from.bytes(entry/forms)...)
		} else {
			b.text = unpack(b.text, ids.bytes(entry/forms), form)
		}
		ends[i] = uint64(len(b.text))
	}
	if from.err != nil {
		ids.fail()
	}
	b.strings = b.strings[:0]
	rest, start := string(b.text), uint64(0)
	for _, end := range ends {
		b.strings = append(b.strings, rest[start:end])
		start = end
	}
}

// event decodes the event at place i; it shares nothing with the block that can be written to.
func (b *block) event(i uint64, e *ingest.Event, contents *arena) error {
	if i >= uint64(len(b.records)) {
		return errDamaged
	}
	r := recordReader{decoder: decoder{b: b.records[i]}, block: b, contents: contents}
	e.Kind = ingest.Kind(r.byte())
	bits := r.byte()
	e.HasSeq, e.HasTurn = bits&bitSeq != 0, bits&bitTurn != 0
	if bits&(bitTraceOrigin|bitSessionOrigin) == 0 {
		e.Origin = r.interned()
	}
	e.SessionID, e.TraceID, e.SpanID, e.ParentSpanID = r.interned(), r.interned(), r.interned(), r.interned()
	switch {
	case bits&bitTraceOrigin != 0:
		e.Origin = traceOrigin + e.TraceID
	case bits&bitSessionOrigin != 0:
		e.Origin = sessionOrigin + e.SessionID
	}
	e.RunID, e.Agent, e.Source = r.interned(), r.interned(), r.interned()
	e.OriginKind = ingest.OriginKind(r.interned())
	if bits&(bitShown|bitPlace) == 0 {
		e.Identity = r.interned()
	}
	e.Seq, e.Turn = r.int(), int32(r.int())
	e.Start, e.Duration, e.Received = r.time(b.base), r.duration(), r.time(b.base)
	r.offset = r.uint()
	e.Metadata = r.content()
	switch e.Kind {
	case ingest.KindToolCall:
		e.Call = &ingest.ToolCall{
			Tool: r.interned(), CallID: r.interned(), Status: ingest.Status(r.interned()),
			Args: r.content(), Result: r.content(), Error: r.text(), Truncated: bits&bitTruncated != 0,
		}
	case ingest.KindLLMCall:
		e.LLM = &ingest.LLMCall{
			Model: r.interned(), Count: int32(r.int()), InputTokens: r.int(), OutputTokens: r.int(), CachedTokens: r.int(),
			CostUSD: r.float(), HasCost: bits&bitCost != 0,
		}
	case ingest.KindUserMessage:
		e.User = &ingest.UserMessage{Text: r.text()}
	}
	switch {
	case r.err != nil:
	case bits&bitShown != 0 && (e.Kind != ingest.KindToolCall || e.Call != nil):
		e.Identity = ingest.ShownIdentity(e)
	case bits&bitPlace != 0:
		e.Identity = ingest.PlaceIdentity(e)
	}
	return r.err
}

// appendPlace adds a place to the ascending places of a segment.
func appendPlace(list []byte, last, place uint64) []byte {
	return binary.AppendUvarint(list, place-last)
}
