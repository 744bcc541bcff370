package ingest

import "time"

// Limits bound what one tenant's input can cost. Every boundary of ingest (JSON, OTLP, files, recorder) reads the
// ones it needs; zero fields are filled by WithDefaults.
type Limits struct {
	Body      int64 // bytes of a request body as sent, 16 MiB
	Inflated  int64 // bytes of a request body after decompression, 64 MiB
	Ratio     int64 // inflated bytes per compressed byte after the first MiB, 100
	Batch     int   // records of one request, 10,000
	Record    int   // bytes of one record's JSON, 4 MiB
	Payload   int   // bytes of arguments or a result; longer ones are cut visibly, 256 KiB
	Text      int   // bytes of a user message or an error text; longer ones are cut, 64 KiB
	Depth     int   // nesting of one record, 64
	Tokens    int   // values and keys of one record, 100,000
	ToolName  int   // bytes, 128
	ID        int   // bytes of a session, call, run, trace or span id and of an agent's name, 512
	InFlight  int64 // bytes of requests that are in memory at once, 256 MiB
	Queue     int   // events admitted and not yet committed, 20,000
	QueueSize int64 // bytes of them, 64 MiB
	// Group is the number of events, GroupSize of bytes, and Linger the age at which a group is committed.
	Group     int           // 5,000
	GroupSize int64         // 4 MiB
	Linger    time.Duration // 20 ms
}

// DefaultLimits are the limits unless configured.
func DefaultLimits() Limits {
	return Limits{
		Body: 16 << 20, Inflated: 64 << 20, Ratio: 100,
		Batch: 10_000, Record: 4 << 20, Payload: 256 << 10, Text: 64 << 10, Depth: 64, Tokens: 100_000,
		ToolName: 128, ID: 512, InFlight: 256 << 20,
		Queue: 20_000, QueueSize: 64 << 20,
		Group: 5_000, GroupSize: 4 << 20, Linger: 20 * time.Millisecond,
	}
}

// WithDefaults returns l with zero fields set to the defaults.
func (l Limits) WithDefaults() Limits {
	d := DefaultLimits()
	fill(&l.Body, d.Body)
	fill(&l.Inflated, d.Inflated)
	fill(&l.Ratio, d.Ratio)
	fill(&l.Batch, d.Batch)
	fill(&l.Record, d.Record)
	fill(&l.Payload, d.Payload)
	fill(&l.Text, d.Text)
	fill(&l.Depth, d.Depth)
	fill(&l.Tokens, d.Tokens)
	fill(&l.ToolName, d.ToolName)
	fill(&l.ID, d.ID)
	fill(&l.InFlight, d.InFlight)
	fill(&l.Queue, d.Queue)
	fill(&l.QueueSize, d.QueueSize)
	fill(&l.Group, min(d.Group, l.Queue))
	fill(&l.GroupSize, d.GroupSize)
	fill(&l.Linger, d.Linger)
	return l
}

func fill[T comparable](v *T, fallback T) {
	var zero T
	if *v == zero {
		*v = fallback
	}
}
