package api

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/labstack/echo/v4"
)

// BenchmarkRequest compares a request through the whole stack with the same answer of a bare echo handler.
func BenchmarkRequest(b *testing.B) {
	s, err := New(Deps{Recorder: &kept{}, Status: calm{}, Proposals: &queueOf{}, OTLP: OTLP{Traces: http.NotFoundHandler(), Logs: http.NotFoundHandler(),
		Metrics: http.NotFoundHandler()}}, Options{NoAuth: true, LocalPrincipal: "local:tester", Rates: RateLimits{Requests: 1e9}})
	if err != nil {
		b.Fatal(err)
	}
	bare := echo.New()
	bare.GET("/api/v1/proposals", func(c echo.Context) error { return c.JSON(http.StatusOK, map[string]any{"items": []any{}}) })
	for name, h := range map[string]http.Handler{"pave": s, "bare": bare} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				r := httptest.NewRequest("GET", "http://127.0.0.1/api/v1/proposals?limit=50", nil)
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				if w.Code != http.StatusOK {
					b.Fatal(w.Body)
				}
			}
		})
	}
}
