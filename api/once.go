package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/labstack/echo/v4"

	"pave/governance"
)

// headerIdempotencyKey names a request that is to be done once.
const headerIdempotencyKey = "Idempotency-Key"

// Once keeps first answers.
type Once interface {
	BeginOnce(ctx context.Context, actor governance.Actor, operation, key, bodyHash string) (*governance.KeptAnswer, error)
	EndOnce(ctx context.Context, actor governance.Actor, operation, key, bodyHash string, answer *governance.KeptAnswer) error
}

// keptHeaders are the headers of a first answer that come again with it.
var keptHeaders = []string{echo.HeaderContentType, echo.HeaderLocation, "ETag"}

// once answers a repeated request with its first answer, for the operations whose contract takes the header. Runs keep
// their own keys with the run.
func (s *Server) once(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		op, key := s.operation(c), c.Request().Header.Get(headerIdempotencyKey)
		if op == nil || key == "" || op.id == "runFlow" || !op.takesHeader(headerIdempotencyKey) {
			return next(c)
		}
		ctx := c.Request().Context()
		actor := actorFrom(ctx)
		hash, err := requestHash(c.Request())
		if err != nil {
			return err
		}
		kept, err := s.deps.Once.BeginOnce(ctx, actor, op.id, key, hash)
		if err != nil {
			return err
		}
		if kept != nil {
			return replayAnswer(c, kept)
		}
		copied := &copyWriter{ResponseWriter: c.Response().Writer}
		c.Response().Writer = copied
		err = next(c)
		var answer *governance.KeptAnswer
		if status := c.Response().Status; err == nil && status >= 200 && status < 300 {
			answer = &governance.KeptAnswer{Status: status, Body: copied.body.Bytes()}
			if answer.Headers, err = json.Marshal(chosen(c.Response().Header())); err != nil {
				return err
			}
		}
		// The outcome is kept even when the client has gone meanwhile: it is what the client will ask for.
		return errors.Join(err, s.deps.Once.EndOnce(context.WithoutCancel(ctx), actor, op.id, key, hash, answer))
	}
}

// takesHeader says that the operation's contract has the header.
func (o *operation) takesHeader(name string) bool {
	for i := range o.params {
		if o.params[i].in == "header" && o.params[i].name == name {
			return true
		}
	}
	return false
}

// requestHash is what makes two requests the same: target and body, which is put back.
func requestHash(r *http.Request) (string, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return "", err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	h := sha256.New()
	h.Write([]byte(r.Method + " " + r.URL.RequestURI() + "\n"))
	h.Write(body)
	return hex.EncodeToString(h.Sum(nil)), nil
}

func chosen(h http.Header) map[string]string {
	out := map[string]string{}
	for _, name := range keptHeaders {
		if v := h.Get(name); v != "" {
			out[name] = v
		}
	}
	return out
}

func replayAnswer(c echo.Context, kept *governance.KeptAnswer) error {
	headers := map[string]string{}
	if err := json.Unmarshal(kept.Headers, &headers); err != nil {
		return err
	}
	for name, v := range headers {
		c.Response().Header().Set(name, v)
	}
	c.Response().Header().Set("Idempotent-Replayed", "true")
	c.Response().WriteHeader(kept.Status)
	_, err := c.Response().Write(kept.Body)
	return err
}

// copyWriter keeps what is written.
type copyWriter struct {
	http.ResponseWriter
	body bytes.Buffer
}

// Write implements http.ResponseWriter.
func (w *copyWriter) Write(p []byte) (int, error) {
	w.body.Write(p)
	return w.ResponseWriter.Write(p)
}

// Unwrap lets an http.ResponseController reach the connection.
func (w *copyWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
