package worker

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pave/executor"
	"pave/flows"
)

// Workers that fail under a call whose effect must not happen twice: what the run's record says, and how often the call
// was given out, where the flow asks for two retries all the same.
func TestFaultsOfWorkersInTheRecord(t *testing.T) {
	for name, c := range map[string]struct {
		worker  func(t *testing.T, p *Pools, call *Call)
		success bool
		says    string
	}{
		"dies holding a lease": {func(*testing.T, *Pools, *Call) {}, false, "[worker_lost]"},
		"answers twice": {func(t *testing.T, p *Pools, call *Call) {
			require.NoError(t, p.Complete(call.ID, "service:w", map[string]any{"n": int64(1)}))
			assert.Equal(t, flows.CodeConflict, flows.CodeOf(p.Complete(call.ID, "service:w", map[string]any{"n": int64(2)})))
			assert.Equal(t, flows.CodeConflict, flows.CodeOf(p.Fail(call.ID, "service:w", executor.ToolError{Message: "no"})))
		}, true, ""},
		"answers twice with its polls": {func(t *testing.T, p *Pools, call *Call) {
			none, err := answering(t, p, "w", Answer{ID: call.ID, Result: map[string]any{"n": int64(1)}})
			require.NoError(t, err)
			require.Nil(t, none)
			_, err = answering(t, p, "w", Answer{ID: call.ID, Result: map[string]any{"n": int64(2)}})
			assert.Equal(t, flows.CodeConflict, flows.CodeOf(err))
			_, err = answering(t, p, "w", Answer{ID: call.ID, Failure: &executor.ToolError{Message: "no"}})
			assert.Equal(t, flows.CodeConflict, flows.CodeOf(err))
		}, true, ""},
		"answers late with its poll": {func(t *testing.T, p *Pools, call *Call) {
			time.Sleep(6 * time.Second) // its lease has run out
			_, err := answering(t, p, "w", Answer{ID: call.ID, Result: map[string]any{"n": int64(1)}})
			assert.Equal(t, flows.CodeConflict, flows.CodeOf(err))
		}, false, "[worker_lost]"},
		"answers late": {func(t *testing.T, p *Pools, call *Call) {
			for range 8 { // it lives
				time.Sleep(4 * time.Second)
				_, _, err := p.Heartbeat(call.ID, "service:w")
				require.NoError(t, err)
			}
			assert.Equal(t, flows.CodeConflict, flows.CodeOf(p.Complete(call.ID, "service:w", map[string]any{"n": int64(1)})))
		}, false, "[worker_timeout]"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := New(Options{Lease: 5 * time.Second})
				pay := tool(flows.EffectWrite, 30)
				pay.Safety.Idempotent = false
				flow, _, err := flows.ParseFlow([]byte(`{"format_version":"1.1","type":"Flow","name":"pay","version":"1.0.0","description":"Pays.","input_schema":{"type":"object"},
					"steps":[{"tool_name":"score","input_mapping":{},"output_as":"paid","retry":{"max_retries":2,"backoff_seconds":1}}]}`))
				require.NoError(t, err)
				plan, _ := executor.Compile(flow, executor.Tools{"score": pay}, executor.CompileOptions{})
				require.NotNil(t, plan)
				engine := executor.New(executor.Options{Invoker: p, Now: time.Now, NewID: func() string { return "0af7651916cd43dd8448eb211c80319c" }})
				ended := make(chan *executor.RunResult, 1)
				go func() { ended <- engine.Run(t.Context(), plan, executor.RunInput{}) }()
				given := take(t, p, "w")
				require.NotNil(t, given)
				c.worker(t, p, given)
				again := 0
				for range 60 { // another worker stands by
					if take(t, p, "other") != nil {
						again++
					}
				}
				result := <-ended
				assert.Zero(t, again, "given out again")
				require.Len(t, result.ExecutionLog, 1)
				rec := &result.ExecutionLog[0]
				assert.Equal(t, c.success, rec.Success)
				assert.Zero(t, rec.RetryCount)
				if c.success {
					assert.Equal(t, map[string]any{"paid": map[string]any{"n": int64(1)}}, result.FinalOutput, "the first answer counts")
					return
				}
				require.NotNil(t, rec.ErrorMessage)
				assert.Contains(t, *rec.ErrorCode+" "+*rec.ErrorMessage, c.says)
			})
		})
	}
}
