package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"pave/api/gen"
	"pave/flows"
	"pave/governance/loop"
	"pave/governance/runs"
)

const (
	// heartbeat is how often a stream without events says that it is there.
	heartbeat = 15 * time.Second
	// opening is how long a stream may wait for its first event before it answers at all, so that readers know that they
	// are connected.
	opening = 100 * time.Millisecond
	// readerPatience is how long a reader may take for what is sent to it.
	readerPatience = 10 * time.Second
)

// lastEvent reads the header of a reader that comes back; 0 is none.
func lastEvent(header string) (int64, error) {
	if header == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(strings.TrimSpace(header), 10, 64)
	if err != nil || n < 0 {
		return 0, flows.NewError(flows.CodeInvalid, "Last-Event-ID is not the id of an event of this stream",
			flows.ErrorDetail{Pointer: "Last-Event-ID", Code: "invalid", Detail: "a number that the stream gave"})
	}
	return n, nil
}

// StreamRunEvents streams the events of a run.
func (h *handlers) StreamRunEvents(ctx context.Context, r gen.StreamRunEventsRequestObject) (gen.StreamRunEventsResponseObject, error) {
	after, err := lastEvent(r.Params.LastEventID)
	if err != nil {
		return nil, err
	}
	events, err := h.s.deps.Runs.Events(ctx, actorFrom(ctx), r.ID, after)
	if err != nil {
		return nil, err
	}
	return &eventStream{ctx: ctx, beat: heartbeat, stop: h.s.drained, close: events.Close, ended: runs.ErrEnded, read: func(ctx context.Context) ([]byte, error) {
		batch, err := events.Next(ctx)
		if err != nil {
			return nil, err
		}
		return eventText(batch)
	}}, nil
}

// StreamMiningRunEvents streams the events of a mining pass.
func (h *handlers) StreamMiningRunEvents(ctx context.Context, r gen.StreamMiningRunEventsRequestObject) (gen.StreamMiningRunEventsResponseObject, error) {
	after, err := lastEvent(r.Params.LastEventID)
	if err != nil {
		return nil, err
	}
	events, err := h.s.deps.Mining.Follow(ctx, actorFrom(ctx), r.ID, after)
	if err != nil {
		return nil, err
	}
	return &eventStream{ctx: ctx, beat: heartbeat, stop: h.s.drained, close: func() {}, ended: loop.ErrEnded, read: func(ctx context.Context) ([]byte, error) {
		batch, err := events.Next(ctx)
		if err != nil {
			return nil, err
		}
		return miningEventText(batch)
	}}, nil
}

// eventStream answers with server-sent events until they have ended, the reader has gone or is too slow, or the service
// stops.
type eventStream struct {
	ctx   context.Context
	read  func(context.Context) ([]byte, error) // the next events as text
	ended error                                 // what read says at the end
	close func()
	beat  time.Duration
	stop  <-chan struct{}
}

// VisitStreamRunEventsResponse implements gen.StreamRunEventsResponseObject.
func (s *eventStream) VisitStreamRunEventsResponse(w http.ResponseWriter) error { return s.write(w) }

// VisitStreamMiningRunEventsResponse implements gen.StreamMiningRunEventsResponseObject.
func (s *eventStream) VisitStreamMiningRunEventsResponse(w http.ResponseWriter) error {
	return s.write(w)
}

func (s *eventStream) write(w http.ResponseWriter) error {
	defer s.close()
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	go func() {
		select {
		case <-s.stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	text, err := s.next(ctx, min(opening, s.beat))
	if errors.Is(err, s.ended) {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no") // proxies that would wait for the end
	w.WriteHeader(http.StatusOK)
	control := http.NewResponseController(w)
	for err == nil {
		_ = control.SetWriteDeadline(time.Now().Add(readerPatience)) // callers within the process have no connection
		if _, err := w.Write(text); err != nil {
			return nil // the reader has gone
		}
		_ = control.Flush()
		text, err = s.next(ctx, s.beat)
	}
	return nil
}

// next waits for events; after the time it is a comment.
func (s *eventStream) next(ctx context.Context, wait time.Duration) ([]byte, error) {
	short, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	text, err := s.read(short)
	if err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return []byte(": still here\n\n"), nil
	}
	return text, err
}

// miningEventText writes events of a pass in the form of the protocol.
func miningEventText(batch []loop.Event) ([]byte, error) {
	var out []byte
	for _, ev := range batch {
		data := gen.MiningEvent{Kind: gen.MiningEventKindPhase, Phase: ev.Phase}
		switch {
		case ev.Run != nil:
			run := miningRun(ev.Run)
			data = gen.MiningEvent{Kind: gen.MiningEventKindMiningRun, MiningRun: &run}
		case ev.Progress != nil:
			data = gen.MiningEvent{Kind: gen.MiningEventKindProgress, Stage: ev.Progress.Stage, Done: ev.Progress.Done, Total: ev.Progress.Total}
		}
		text, err := json.Marshal(data)
		if err != nil {
			return nil, err
		}
		out = fmt.Appendf(out, "id: %d\nevent: %s\ndata: %s\n\n", ev.Seq, data.Kind, text)
	}
	return out, nil
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
