package worker

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pave/executor"
	"pave/flows"
)

// answering polls with answers, and waits for a call a second.
func answering(t *testing.T, p *Pools, worker string, answers ...Answer) (*Call, error) {
	t.Helper()
	return p.Poll(t.Context(), Poll{Pool: "crm", Worker: worker, Owner: "service:" + worker, Wait: time.Second, Answers: answers})
}

func TestAnswersThatComeWithAPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{})
		one, two := start(p, tool(flows.EffectWrite, 30), executor.CallInfo{RunID: "1"}), start(p, tool(flows.EffectWrite, 30), executor.CallInfo{RunID: "2"})
		first, err := answering(t, p, "a")
		require.NoError(t, err)
		second, err := answering(t, p, "a", Answer{ID: first.ID, Result: int64(7)})
		require.NoError(t, err)
		require.NotNil(t, second)
		none, err := answering(t, p, "a", Answer{ID: second.ID, Failure: &executor.ToolError{Class: executor.ClassIO, Message: "no", Type: "E"}})
		require.NoError(t, err)
		require.Nil(t, none)
		byRun := map[string]result{"1": <-one, "2": <-two}
		assert.NoError(t, byRun[first.RunID].err)
		assert.Equal(t, int64(7), byRun[first.RunID].value)
		te := toolError(t, byRun[second.RunID].err, "tool_error")
		assert.Equal(t, executor.ToolError{Class: executor.ClassIO, Code: "tool_error", Message: "no", Type: "E"}, *te)
	})
}

// An answer that is refused keeps the others of its poll from nothing, and the worker is told which it was before it is
// given more.
func TestRefusedAnswersOfAPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{})
		out := start(p, tool(flows.EffectWrite, 30), executor.CallInfo{})
		call := take(t, p, "a")
		other := take(t, p, "a")
		require.Nil(t, other)
		next := start(p, tool(flows.EffectWrite, 30), executor.CallInfo{RunID: "next"})
		synctest.Wait()
		given, err := answering(t, p, "a", Answer{ID: "unknown", Result: true}, Answer{ID: call.ID, Result: "right"}, Answer{ID: call.ID, Result: "again"})
		require.Nil(t, given)
		refused := new(flows.Error)
		require.True(t, errors.As(err, &refused))
		assert.Equal(t, flows.CodeConflict, refused.Code)
		require.Len(t, refused.Details, 2)
		assert.Equal(t, "/answers/0", refused.Details[0].Pointer)
		assert.Equal(t, "/answers/2", refused.Details[1].Pointer)
		assert.Equal(t, "right", (<-out).value)

		thief, err := answering(t, p, "b")
		require.NoError(t, err)
		require.Equal(t, "next", thief.RunID, "it was not given out before")
		_, err = answering(t, p, "a", Answer{ID: thief.ID, Result: "stolen"})
		assert.Equal(t, flows.CodeForbidden, flows.CodeOf(err))
		none, err := answering(t, p, "b", Answer{ID: thief.ID, Result: "mine"})
		require.NoError(t, err)
		require.Nil(t, none)
		assert.Equal(t, "mine", (<-next).value)
	})
}

// A worker that stops gives its last answer and is given nothing.
func TestTheLastAnswerOfAWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{})
		out, next := start(p, tool(flows.EffectWrite, 30), executor.CallInfo{}), start(p, tool(flows.EffectWrite, 30), executor.CallInfo{})
		call := take(t, p, "a")
		began := time.Now()
		none, err := p.Poll(t.Context(), Poll{Pool: "crm", Owner: "service:a", Wait: time.Minute, OnlyAnswer: true, Answers: []Answer{{ID: call.ID, Result: "done"}}})
		require.NoError(t, err)
		require.Nil(t, none)
		assert.Zero(t, time.Since(began))
		other := take(t, p, "b")
		require.NotNil(t, other)
		require.NoError(t, p.Complete(other.ID, "service:b", "done"))
		assert.Equal(t, "done", (<-out).value)
		assert.Equal(t, "done", (<-next).value)
	})
}

// A poll that waits ends when it is told to, with its answers taken.
func TestUntilEndsAPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{})
		out := start(p, tool(flows.EffectWrite, 30), executor.CallInfo{})
		call := take(t, p, "a")
		stopped := make(chan struct{})
		close(stopped)
		began := time.Now()
		none, err := p.Poll(t.Context(), Poll{Pool: "crm", Owner: "service:a", Wait: time.Minute, Until: stopped, Answers: []Answer{{ID: call.ID, Result: "done"}}})
		require.NoError(t, err)
		require.Nil(t, none)
		assert.Zero(t, time.Since(began))
		assert.Equal(t, "done", (<-out).value)
		assert.Zero(t, p.Stats()[0].Waiting)
	})
}
