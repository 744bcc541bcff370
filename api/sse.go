package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"pave/api/gen"
	"pave/flows"
	"pave/governance/runs"
)

const (
	// heartbeat is how often a stream without events says that it is there.
	heartbeat = 15 * time.Second
	// readerPatience is how long a reader may take for what is sent to it.
	readerPatience = 10 * time.Second
)

// StreamRunEvents streams the events of a run.
func (h *handlers) StreamRunEvents(ctx context.Context, r gen.StreamRunEventsRequestObject) (gen.StreamRunEventsResponseObject, error) {
	after := int64(0)
	if id := r.Params.LastEventID; id != "" {
		n, err := strconv.ParseInt(strings.TrimSpace(id), 10, 64)
		if err != nil {
			return nil, flows.NewError(flows.CodeInvalid, "Last-Event-ID is not the id of an event of this run",
				flows.ErrorDetail{Pointer: "Last-Event-ID", Code: "invalid", Detail: "a number that the stream gave"})
		}
		after = n
	}
	events, err := h.s.deps.Runs.Events(ctx, actorFrom(ctx), r.ID, after)
	if err != nil {
		return nil, err
	}
	return &eventStream{ctx: ctx, events: events, beat: heartbeat, stop: h.s.drained}, nil
}

// eventStream answers with server-sent events until the run has ended, the reader has gone or is too slow, or the
// service stops.
type eventStream struct {
	ctx    context.Context
	events *runs.Reader
	beat   time.Duration
	stop   <-chan struct{}
}

// VisitStreamRunEventsResponse implements gen.StreamRunEventsResponseObject.
func (s *eventStream) VisitStreamRunEventsResponse(w http.ResponseWriter) error {
	defer s.events.Close()
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	go func() {
		select {
		case <-s.stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	batch, err := s.next(ctx)
	if errors.Is(err, runs.ErrEnded) {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no") // proxies that would wait for the end
	w.WriteHeader(http.StatusOK)
	control := http.NewResponseController(w)
	for err == nil {
		text := []byte(": still here\n\n")
		if len(batch) > 0 {
			if text, err = eventText(batch); err != nil {
				return err
			}
		}
		_ = control.SetWriteDeadline(time.Now().Add(readerPatience)) // callers within the process have no connection
		if _, err := w.Write(text); err != nil {
			return nil // the reader has gone
		}
		_ = control.Flush()
		batch, err = s.next(ctx)
	}
	return nil
}

// next waits for events; none after the time of a heartbeat.
func (s *eventStream) next(ctx context.Context) ([]runs.Event, error) {
	short, cancel := context.WithTimeout(ctx, s.beat)
	defer cancel()
	batch, err := s.events.Next(short)
	if err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return nil, nil
	}
	return batch, err
}

// eventText writes events in the form of the protocol.
func eventText(batch []runs.Event) ([]byte, error) {
	var out []byte
	for _, ev := range batch {
		kind, data := gen.RunEventKindDropped, []byte(nil)
		switch {
		case ev.Run != nil:
			run, err := runOf(*ev.Run)
			if err != nil {
				return nil, err
			}
			kind, data = gen.RunEventKindRun, line(gen.RunEvent{Kind: gen.RunEventKindRun, Run: run})
		case ev.Event != nil:
			kind, data = gen.RunEventKind(ev.Event.Kind), eventLine(ev.Event)
		default:
			data = line(gen.RunEvent{Kind: kind, Count: int(ev.Lost)})
		}
		out = fmt.Appendf(out, "id: %d\nevent: %s\ndata: %s\n", ev.Seq, kind, data) // data ends with a newline
	}
	return out, nil
}
