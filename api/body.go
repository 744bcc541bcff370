package api

import (
	"io"
	"net/http"

	"github.com/labstack/echo/v4"

	"pave/ingest"
)

// bodyLimits bounds and inflates request bodies. The OTLP receiver does this itself, in its own error form.
func (s *Server) bodyLimits(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		op := s.operation(c)
		if op == nil || op.otlp {
			return next(c)
		}
		r := c.Request()
		if r.Body == http.NoBody && r.Header.Get(echo.HeaderContentEncoding) == "" {
			return next(c)
		}
		body, err := ingest.Inflate(r.Body, r.Header.Get(echo.HeaderContentEncoding), s.opts.Limits)
		if err != nil {
			return err
		}
		if r.Header.Get(echo.HeaderContentEncoding) != "" {
			r.Header.Del(echo.HeaderContentEncoding)
			r.ContentLength = -1
		}
		r.Body = struct {
			io.Reader
			io.Closer
		}{body, r.Body}
		defer func() { _ = body.Close() }()
		return next(c)
	}
}
