package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"pave/flows"
	"pave/ingest/secrets"
)

// Appender is the part of the event store that the recorder needs.
type Appender interface {
	// Append makes the events durable, in order, all or nothing.
	Append(ctx context.Context, tenant string, events []Event) error
}

// Errors of an Appender that the recorder tells from others, tested with errors.Is. The event store's errors of the
// same names are these.
var (
	ErrStoreFull        = errors.New("event store full")
	ErrStoreUnavailable = errors.New("event store unavailable")
)

// RecorderOptions configure a Recorder; the zero value is ready to use.
type RecorderOptions struct {
	// Limits: Payload, Text, Queue, QueueSize, Group, GroupSize, Linger.
	Limits Limits
	// Redactor hides secrets before anything is stored; nil is NewRedactor with a key of this process. Give one
	// with a kept key, so that tokens stay equal over restarts.
	Redactor Redactor
	// Policy is applied before redaction; the zero value keeps everything.
	Policy Policy
	// Classify may change who made a call (OriginKind) before anything is stored, by what the process knows beside the
	// record. It must be quick. nil changes nothing.
	Classify func(tenant string, e *Event)
	// Admit is asked before a request is taken, such as for free disk space. Its error refuses the request and
	// should be a *flows.Error (CodeFull, CodeUnavailable). It must be quick. nil takes everything.
	Admit func() error
	// Committed is called after a group is durable, with the events that were new to the recorder, before the
	// requests are answered. It must be quick and keep no reference. nil is none.
	Committed func(tenant string, events []Event)
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// RetryAfter is the hint given with CodeFull, 1 s when zero.
	RetryAfter time.Duration
	// AppendTimeout bounds one Append, 30 s when zero.
	AppendTimeout time.Duration
}

// Receipt says what became of a request.
type Receipt struct {
	Accepted   int           // events that are durable now
	Duplicates int           // exact repeats of events that were durable already
	Rejected   []RecordError // records that could not be read; filled by whoever decoded them
	Warnings   []Warning
}

// Warning is a thing that the sender should know about events that were accepted.
type Warning struct {
	Code    string // no_identity, truncated
	Count   int    // events concerned
	Message string
}

// RetryError is in the chain of a CodeFull error and says when to try again.
type RetryError struct {
	After time.Duration
	Err   error
}

func (e *RetryError) Error() string { return fmt.Sprintf("retry after %s", e.After) }
func (e *RetryError) Unwrap() error { return e.Err }

// RetryAfter returns the retry hint of an error, if it has one.
func RetryAfter(err error) (time.Duration, bool) {
	var e *RetryError
	if errors.As(err, &e) {
		return e.After, true
	}
	return 0, false
}

// Recorder makes events durable. It commits the events of concurrent requests as one group per tenant and answers
// each request only after its group's commit. Its queue is bounded by events and bytes. Safe for concurrent use.
type Recorder struct {
	store Appender
	opts  RecorderOptions
	queue chan *submission
	done  chan struct{}

	mu           sync.Mutex // guards closed, events and bytes, and closing of queue
	closed       bool
	events       int
	bytes        int64
	recent       *recentSet // used by the committing goroutine only
	committed    atomic.Int64
	duplicates   atomic.Int64
	refused      atomic.Int64
	groups       atomic.Int64
	appendErrors atomic.Int64
}

// submission is one request that waits for its commit.
type submission struct {
	tenant  string
	events  []Event
	bytes   int64
	queued  time.Time
	receipt Receipt
	err     error
	done    chan struct{}
}

// NewRecorder starts a recorder over store. Close it.
func NewRecorder(store Appender, opts RecorderOptions) *Recorder {
	opts.Limits = opts.Limits.WithDefaults()
	if opts.Redactor == nil {
		opts.Redactor = NewRedactor(nil, secrets.Options{})
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	opts.RetryAfter = cmp.Or(opts.RetryAfter, time.Second)
	opts.AppendTimeout = cmp.Or(opts.AppendTimeout, 30*time.Second)
	r := &Recorder{
		store: store, opts: opts, recent: newRecentSet(),
		// Every submission has an event, so the bound of events bounds the channel and sending never waits.
		queue: make(chan *submission, opts.Limits.Queue),
		done:  make(chan struct{}),
	}
	go r.run()
	return r
}

// Record takes one request's events: it hides secrets, cuts what is too long, sets Origin, Identity and Received, and
// returns after they are durable. It owns the events from now on. When ctx ends first the events may still become
// durable. Errors are *flows.Error: CodeFull with a retry hint (RetryAfter), CodeUnavailable, CodeTooLarge for more
// events than the queue can ever hold; then none of the events is durable, and the same request may be sent again.
func (r *Recorder) Record(ctx context.Context, tenant string, events []Event) (Receipt, error) {
	if len(events) == 0 {
		return Receipt{}, nil
	}
	if len(events) > r.opts.Limits.Queue {
		return Receipt{}, flows.NewError(flows.CodeTooLarge,
			fmt.Sprintf("%d events at once are more than the %d that fit the queue; send smaller batches", len(events), r.opts.Limits.Queue))
	}
	if r.opts.Admit != nil {
		if err := r.opts.Admit(); err != nil {
			r.refused.Add(int64(len(events)))
			return Receipt{}, err
		}
	}
	s := r.prepare(tenant, events)
	if err := r.enqueue(s); err != nil {
		return Receipt{}, err
	}
	select {
	case <-s.done:
		return s.receipt, s.err
	case <-ctx.Done():
		return Receipt{}, ctx.Err()
	}
}

// Room refuses, with the error that Record would give, what cannot be taken now whatever it is: ask before a request is read, so
// that an overload costs little.
func (r *Recorder) Room() error {
	if r.opts.Admit != nil {
		if err := r.opts.Admit(); err != nil {
			return err
		}
	}
	r.mu.Lock()
	full := r.events >= r.opts.Limits.Queue || r.bytes >= r.opts.Limits.QueueSize/2
	r.mu.Unlock()
	if full {
		return r.tooMany()
	}
	return nil
}

func (r *Recorder) tooMany() error {
	return &flows.Error{Code: flows.CodeFull, Message: "too many calls wait to be stored; send the request again a little later",
		Err: &RetryError{After: r.opts.RetryAfter}}
}

func (r *Recorder) prepare(tenant string, events []Event) *submission {
	s := &submission{tenant: tenant, events: events, queued: r.opts.Now(), done: make(chan struct{})}
	cut := 0
	for i := range events {
		e := &events[i]
		if r.opts.Classify != nil {
			r.opts.Classify(tenant, e)
		}
		r.opts.Policy.inspect(e)
		if prepare(e, r.opts.Redactor, &r.opts.Limits) {
			cut++
		}
		e.Received = s.queued
	}
	unidentified := Identify(events)
	for i := range events {
		r.opts.Policy.drop(&events[i])
		s.bytes += eventSize(&events[i])
	}
	if unidentified > 0 {
		s.receipt.Warnings = append(s.receipt.Warnings, Warning{Code: "no_identity", Count: unidentified,
			Message: "calls without a trace and span id or a session and call id are told apart by this request only; give them a call_id"})
	}
	if cut > 0 {
		s.receipt.Warnings = append(s.receipt.Warnings, Warning{Code: "truncated", Count: cut,
			Message: fmt.Sprintf("arguments and results above %d bytes and texts above %d were cut", r.opts.Limits.Payload, r.opts.Limits.Text)})
	}
	return s
}

// eventSize estimates the memory of an event in bytes.
func eventSize(e *Event) int64 {
	const header = 512
	n := header + len(e.Metadata)
	if e.Call != nil {
		n += len(e.Call.Args) + len(e.Call.Result) + len(e.Call.Error)
	}
	if e.User != nil {
		n += len(e.User.Text)
	}
	return int64(n)
}

func (r *Recorder) enqueue(s *submission) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return flows.NewError(flows.CodeUnavailable, "the recorder is shutting down; send the request again later")
	}
	if r.events > 0 && (r.events+len(s.events) > r.opts.Limits.Queue || r.bytes+s.bytes > r.opts.Limits.QueueSize) {
		r.refused.Add(int64(len(s.events)))
		return r.tooMany()
	}
	r.events += len(s.events)
	r.bytes += s.bytes
	r.queue <- s
	return nil
}

// Close refuses new requests, commits what is queued and returns when all of it is answered.
func (r *Recorder) Close() error {
	r.mu.Lock()
	if !r.closed {
		r.closed = true
		close(r.queue)
	}
	r.mu.Unlock()
	<-r.done
	return nil
}

// RecorderStats are counters since start, and what waits now.
type RecorderStats struct {
	Queued, Committed, Duplicates, Refused, Groups, AppendErrors int64
	QueuedBytes                                                  int64
}

// Stats returns the counters.
func (r *Recorder) Stats() RecorderStats {
	r.mu.Lock()
	events, bytes := r.events, r.bytes
	r.mu.Unlock()
	return RecorderStats{Queued: int64(events), QueuedBytes: bytes, Committed: r.committed.Load(),
		Duplicates: r.duplicates.Load(), Refused: r.refused.Load(), Groups: r.groups.Load(), AppendErrors: r.appendErrors.Load()}
}
