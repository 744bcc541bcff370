package api

import (
	"context"
	"log/slog"
)

// LogHandler adds to what is logged on behalf of a request the id that its answer carries as X-Request-Id, as request_id,
// so that all that became of it is found by what its caller was told.
func LogHandler(next slog.Handler) slog.Handler { return requestLog{next} }

type requestLog struct{ slog.Handler }

// Handle implements slog.Handler.
func (h requestLog) Handle(ctx context.Context, record slog.Record) error {
	id := requesterOf(ctx).requestID
	record.Attrs(func(a slog.Attr) bool {
		if a.Key == "request_id" { // said already
			id = ""
		}
		return id != ""
	})
	if id != "" {
		record = record.Clone()
		record.AddAttrs(slog.String("request_id", id))
	}
	return h.Handler.Handle(ctx, record)
}

// WithAttrs implements slog.Handler.
func (h requestLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return requestLog{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h requestLog) WithGroup(name string) slog.Handler { return requestLog{h.Handler.WithGroup(name)} }
