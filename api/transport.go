package api

import (
	"bytes"
	"context"
	"io"
	"net/http"

	"pave/governance"
)

// Transport answers a client's requests with h in this process, without a listener: as actor, or, when that is nil,
// as whoever the request's key belongs to. The handler runs on the caller's goroutine; the answer is buffered.
func Transport(h http.Handler, actor *governance.Actor) http.RoundTripper {
	return &transport{handler: h, actor: actor}
}

type insideKey struct{}

// inProcess says that a request comes from inside this process.
func inProcess(r *http.Request) bool { return r.Context().Value(insideKey{}) != nil }

type transport struct {
	handler http.Handler
	actor   *governance.Actor
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	ctx := context.WithValue(r.Context(), insideKey{}, true)
	if t.actor != nil {
		ctx = WithActor(ctx, *t.actor)
	}
	in := r.Clone(ctx)
	in.RequestURI = r.URL.RequestURI()
	in.RemoteAddr = "127.0.0.1:0"
	if in.Host == "" {
		in.Host = r.URL.Host
	}
	if in.Body == nil {
		in.Body = http.NoBody
	}
	w := &buffered{header: make(http.Header)}
	t.handler.ServeHTTP(w, in)
	_ = in.Body.Close()
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return &http.Response{
		Status: http.StatusText(w.status), StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.header, Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: r,
	}, nil
}

// buffered is the ResponseWriter of an answer that stays in memory.
type buffered struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (b *buffered) Header() http.Header { return b.header }

// Flush implements http.Flusher: what was written has arrived.
func (b *buffered) Flush() {}

func (b *buffered) WriteHeader(status int) {
	if b.status == 0 {
		b.status = status
	}
}

func (b *buffered) Write(p []byte) (int, error) {
	b.WriteHeader(http.StatusOK)
	return b.body.Write(p)
}
