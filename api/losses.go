package api

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"pave/flows"
)

// Loss is what senders sent and the service could not use, of one kind.
type Loss struct {
	Via      string // json, traces, logs or metrics
	Requests bool   // whole requests; else records
	Reason   string // a stable code
}

// Losses counts what could not be used since the process started, so that somebody can be told. The zero value is ready;
// safe for concurrent use.
type Losses struct {
	mu     sync.Mutex
	counts map[Loss]lossCount
}

type lossCount struct {
	n    int64
	last time.Time
}

// Add counts n more of a kind, at a time.
func (l *Losses) Add(kind Loss, n int, at time.Time) {
	if n <= 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.counts == nil {
		l.counts = make(map[Loss]lossCount)
	}
	l.counts[kind] = lossCount{n: l.counts[kind].n + int64(n), last: at}
}

// each calls fn for every kind, most first.
func (l *Losses) each(fn func(kind Loss, n int64, last time.Time)) {
	l.mu.Lock()
	counts := maps.Clone(l.counts)
	l.mu.Unlock()
	kinds := slices.SortedFunc(maps.Keys(counts), func(a, b Loss) int {
		return cmp.Or(cmp.Compare(counts[b].n, counts[a].n), cmp.Compare(a.Via, b.Via), cmp.Compare(a.Reason, b.Reason))
	})
	for _, kind := range kinds {
		fn(kind, counts[kind].n, counts[kind].last)
	}
}

// intakes are the operations that take what agents did, with the names of their ways in.
var intakes = map[string]string{"recordToolCalls": "json", "exportTraces": "traces", "exportLogs": "logs", "exportMetrics": "metrics"}

// lostRequest counts a request of an intake that was refused for what it is: sent again, it would be refused again.
// Telemetry that could not be read is not lost but kept, as a dead letter.
func (s *Server) lostRequest(operation string, status int, at time.Time) {
	via, ok := intakes[operation]
	code := refusals[status]
	if !ok || code == "" || code == flows.CodeInvalid && via != "json" {
		return
	}
	s.deps.Losses.Add(Loss{Via: via, Requests: true, Reason: string(code)}, 1, at)
}

var refusals = map[int]flows.Code{http.StatusBadRequest: flows.CodeInvalid, http.StatusUnprocessableEntity: flows.CodeInvalid,
	http.StatusRequestEntityTooLarge: flows.CodeTooLarge, http.StatusUnsupportedMediaType: flows.CodeUnsupportedMedia}
