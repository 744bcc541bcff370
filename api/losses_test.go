package api

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/api/gen"
)

// twoLetters are dead letters of which only the count is asked.
type twoLetters struct{ DeadLetters }

func (twoLetters) Count() int { return 2 }

// What senders could not get in is counted by way, kind and reason; what may be sent again is not lost.
func TestTheServiceTellsWhatItCouldNotTake(t *testing.T) {
	losses := new(Losses)
	s := bare(t, func(d *Deps, _ *Options) {
		d.DeadLetters, d.Losses = twoLetters{}, losses
		d.OTLP.Logs = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) })
		d.OTLP.Traces = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) })
		d.OTLP.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusRequestEntityTooLarge) })
	})
	before := time.Now().Add(-time.Second)
	ask := func() (out gen.Service) {
		w := call(s, http.MethodGet, "/api/v1/service", "")
		require.Equal(t, http.StatusOK, w.Code, w.Body.String())
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &out))
		return out
	}
	first := ask()
	require.Equal(t, 90, first.RetentionDays)
	require.Equal(t, 2, first.DeadLetters)
	require.Equal(t, int64(7), first.Stored.Events)
	require.Empty(t, first.Lost)
	require.NotNil(t, first.Lost)
	require.True(t, first.StartedAt.After(before.Add(-time.Minute)))

	require.Equal(t, http.StatusOK, call(s, http.MethodPost, "/api/v1/tool-calls", `[{"tool":"a","session_id":"s"},{"session_id":"s"},{"session_id":"s"}]`).Code)
	require.Equal(t, http.StatusBadRequest, call(s, http.MethodPost, "/api/v1/tool-calls", `[{"session_id":"s"}]`).Code)
	for path, status := range map[string]int{"/v1/logs": http.StatusBadRequest, "/v1/traces": http.StatusTooManyRequests, "/v1/metrics": http.StatusRequestEntityTooLarge} {
		require.Equal(t, status, call(s, http.MethodPost, path, "{}").Code, path)
	}
	losses.Add(Loss{Via: "traces", Reason: "no_id"}, 5, time.Now())
	losses.Add(Loss{Via: "traces", Reason: "no_id"}, 0, time.Now())

	type lost struct {
		via    gen.LostVia
		what   gen.LostWhat
		reason string
		n      int64
	}
	var got []lost
	for _, l := range ask().Lost {
		require.True(t, l.LastAt.After(before))
		got = append(got, lost{l.Via, l.What, l.Reason, l.Count})
	}
	require.Equal(t, []lost{
		{gen.LostViaTraces, gen.LostWhatRecords, "no_id", 5}, {gen.LostViaJSON, gen.LostWhatRecords, "invalid", 2},
		{gen.LostViaJSON, gen.LostWhatRequests, "invalid", 1}, {gen.LostViaMetrics, gen.LostWhatRequests, "too_large", 1},
	}, got)
}
