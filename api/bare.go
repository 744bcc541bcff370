package api

import (
	"net/http"

	"github.com/labstack/echo/v4"
)

// Bare answers GET path with a body of a content type and does nothing else: what the library alone costs a request, to
// compare the service with.
func Bare(path, contentType string, body []byte) http.Handler {
	e := echo.New()
	e.GET(path, func(c echo.Context) error { return c.Blob(http.StatusOK, contentType, body) })
	return e
}
