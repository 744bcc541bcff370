package clickhouse

import (
	"fmt"
	"time"

	"pave/ingest"
	"pave/ingest/store"
)

// Bits of the column events.present.
const (
	presentSeq uint8 = 1 << iota
	presentTurn
	presentStart
	presentTruncated
	presentCost
)

// Forms of a spool entry's body.
const (
	eventsForm = 1
	runForm    = 2
)

// present collects the bits of an event.
func present(e *ingest.Event) uint8 {
	var bits uint8
	set := func(on bool, bit uint8) {
		if on {
			bits |= bit
		}
	}
	set(e.HasSeq, presentSeq)
	set(e.HasTurn, presentTurn)
	set(!e.Start.IsZero(), presentStart)
	set(e.Call != nil && e.Call.Truncated, presentTruncated)
	set(e.LLM != nil && e.LLM.HasCost, presentCost)
	return bits
}

// encodeEvent appends one event to a body.
func encodeEvent(b *encoder, e *ingest.Event) {
	bits := present(e)
	b.byte(byte(e.Kind))
	b.byte(bits)
	for _, s := range [...]string{e.Origin, e.SessionID, e.TraceID, e.SpanID, e.ParentSpanID, e.RunID, e.Agent, e.Source, string(e.OriginKind), e.Identity} {
		b.string(s)
	}
	b.bytes(e.Metadata)
	b.int(e.Seq)
	b.int(int64(e.Turn))
	if bits&presentStart != 0 {
		b.int(nanos(e.Start))
	}
	b.int(int64(e.Duration))
	b.int(nanos(e.Received))
	switch e.Kind {
	case ingest.KindToolCall:
		b.string(e.Call.Tool)
		b.string(e.Call.CallID)
		b.bytes(e.Call.Args)
		b.bytes(e.Call.Result)
		b.string(string(e.Call.Status))
		b.string(e.Call.Error)
	case ingest.KindLLMCall:
		b.string(e.LLM.Model)
		b.int(int64(e.LLM.Count))
		b.int(e.LLM.InputTokens)
		b.int(e.LLM.OutputTokens)
		b.int(e.LLM.CachedTokens)
		b.float(e.LLM.CostUSD)
	case ingest.KindUserMessage:
		b.string(e.User.Text)
	}
}

// decode adds the events of a body to the batch. Texts share the body's memory.
func (b *eventBatch) decode(body, tenant string, spool uint64, arrival int64) error {
	d := decoder{in: body}
	if form := d.byte(); form != eventsForm {
		return fmt.Errorf("%w: events entry of form %d", errCorrupt, form)
	}
	for n := d.count(2); n > 0 && d.err == nil; n-- {
		b.decodeEvent(&d, tenant, spool, arrival)
		arrival++
	}
	return d.end()
}

func (b *eventBatch) decodeEvent(d *decoder, tenant string, spool uint64, arrival int64) {
	kind, bits := d.byte(), d.byte()
	b.tenant = append(b.tenant, tenant)
	b.spool = append(b.spool, spool)
	b.arrival = append(b.arrival, arrival)
	b.kind = append(b.kind, kind)
	b.present = append(b.present, bits)
	for _, column := range [...]*[]string{&b.origin, &b.session, &b.trace, &b.span, &b.parent, &b.run, &b.agent, &b.source, &b.originKind, &b.identity, &b.metadata} {
		*column = append(*column, d.string())
	}
	b.seq = append(b.seq, d.int())
	b.turn = append(b.turn, int32(d.int()))
	start := int64(0)
	if bits&presentStart != 0 {
		start = d.int()
	}
	b.start = append(b.start, time.Unix(0, start))
	b.duration = append(b.duration, d.int())
	b.received = append(b.received, time.Unix(0, d.int()))
	var p part
	switch ingest.Kind(kind) {
	case ingest.KindToolCall:
		p.tool, p.callID, p.args, p.result, p.status, p.error = d.string(), d.string(), d.string(), d.string(), d.string(), d.string()
	case ingest.KindLLMCall:
		p.model, p.calls = d.string(), int32(d.int())
		p.input, p.output, p.cached, p.cost = d.int(), d.int(), d.int(), d.float()
	case ingest.KindUserMessage:
		p.text = d.string()
	}
	b.appendPart(&p)
}

// part is what an event holds by its kind; the fields of other kinds stay zero.
type part struct {
	tool, callID, args, result, status, error string
	model                                     string
	calls                                     int32
	input, output, cached                     int64
	cost                                      float64
	text                                      string
}

// encodeRun is the body of an entry that holds a finished flow run.
func encodeRun(run *store.Run) []byte {
	var b encoder
	b.byte(runForm)
	for _, s := range [...]string{run.ID, run.Flow, run.Version, run.Status, run.Caller, run.ErrorCode, string(run.Result)} {
		b.string(s)
	}
	known := byte(0)
	if !run.Start.IsZero() {
		known = 1
	}
	b.byte(known)
	if known == 1 {
		b.int(nanos(run.Start))
	}
	for _, n := range [...]int64{int64(run.Duration), int64(run.Steps), int64(run.StepsDone), int64(run.LatencyAvoided)} {
		b.int(n)
	}
	for _, f := range [...]float64{run.LLMCallsAvoided, run.TokensAvoided, run.CostAvoidedUSD} {
		b.float(f)
	}
	return b.buf
}

// decode adds the run of a body to the batch.
func (b *runBatch) decode(body, tenant string, version int64) error {
	d := decoder{in: body}
	if form := d.byte(); form != runForm {
		return fmt.Errorf("%w: run entry of form %d", errCorrupt, form)
	}
	b.tenant = append(b.tenant, tenant)
	b.version = append(b.version, version)
	for _, column := range [...]*[]string{&b.id, &b.flow, &b.flowVersion, &b.status, &b.caller, &b.errorCode, &b.result} {
		*column = append(*column, d.string())
	}
	known, start := d.byte(), int64(0)
	if known == 1 {
		start = d.int()
	}
	b.hasStart = append(b.hasStart, known)
	b.start = append(b.start, time.Unix(0, start))
	for _, column := range [...]*[]int64{&b.duration, &b.steps, &b.stepsDone, &b.latency} {
		*column = append(*column, d.int())
	}
	for _, column := range [...]*[]float64{&b.llmCalls, &b.tokens, &b.cost} {
		*column = append(*column, d.float())
	}
	return d.end()
}
