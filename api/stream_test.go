package api

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"pave/api/gen"
	"pave/executor"
	"pave/governance/runs"
)

// slowWriter takes no byte until it is let go, and then fails when it was told to.
type slowWriter struct {
	*httptest.ResponseRecorder
	wait chan struct{}
	err  error
}

func (w *slowWriter) Write(p []byte) (int, error) {
	<-w.wait
	if w.err != nil {
		return 0, w.err
	}
	return w.ResponseRecorder.Write(p)
}

func kindsOf(t *testing.T, body []byte) (kinds map[gen.RunEventKind]int, dropped int) {
	t.Helper()
	kinds = map[gen.RunEventKind]int{}
	for lines := bufio.NewScanner(bytes.NewReader(body)); lines.Scan(); {
		var ev gen.RunEvent
		require.NoError(t, json.Unmarshal(lines.Bytes(), &ev))
		kinds[ev.Kind]++
		dropped += ev.Count
	}
	return kinds, dropped
}

// The run ends although nobody reads; what the reader lost is counted.
func TestSlowReaderLosesEventsAndHoldsNothingUp(t *testing.T) {
	const total = 4 * streamBuffer
	w := &slowWriter{ResponseRecorder: httptest.NewRecorder(), wait: make(chan struct{})}
	s := &runStream{start: func(onEvent func(executor.Event)) (*runs.Run, error) {
		for range total {
			onEvent(executor.Event{Kind: executor.EventStepStart})
		}
		close(w.wait) // only now does the reader go on
		return &runs.Run{ID: "r", State: executor.StatusSucceeded}, nil
	}}
	require.NoError(t, s.VisitRunFlowResponse(w))
	kinds, dropped := kindsOf(t, w.Body.Bytes())
	require.Equal(t, 1, kinds[gen.RunEventKindRun])
	require.Positive(t, dropped)
	require.Equal(t, total, kinds[gen.RunEventKindStepStart]+dropped)
}

func TestReaderThatHasGoneDoesNotStopTheRun(t *testing.T) {
	w := &slowWriter{ResponseRecorder: httptest.NewRecorder(), wait: make(chan struct{}), err: errors.New("broken pipe")}
	close(w.wait)
	var ran sync.WaitGroup
	ran.Add(1)
	s := &runStream{start: func(onEvent func(executor.Event)) (*runs.Run, error) {
		defer ran.Done()
		for range 3 {
			onEvent(executor.Event{Kind: executor.EventStepStart})
		}
		return &runs.Run{}, nil
	}}
	require.ErrorContains(t, s.VisitRunFlowResponse(w), "broken pipe")
	ran.Wait()
}

// What fails before the first event has not begun an answer, so that it can be a problem.
func TestRunThatDoesNotStartAnswersNothingItself(t *testing.T) {
	for _, start := range []func(func(executor.Event)) (*runs.Run, error){
		func(func(executor.Event)) (*runs.Run, error) { return nil, errors.New("refused") },
		func(func(executor.Event)) (*runs.Run, error) { panic("refused") },
	} {
		w := httptest.NewRecorder()
		require.ErrorContains(t, (&runStream{start: start}).VisitRunFlowResponse(w), "refused")
		require.Zero(t, w.Body.Len())
		require.Equal(t, http.StatusOK, w.Code) // the recorder's default: nothing was written
	}
}
