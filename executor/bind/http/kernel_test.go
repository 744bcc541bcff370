package httpbind

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pave/executor"
)

func TestKernel(t *testing.T) {
	general, seenGeneral := server(t, answers(http.StatusOK, "application/json", `{"outputs":{"quote":12.5}}`))
	refusing, _ := server(t, answers(http.StatusOK, "application/json", `{"error":{"class":"rate_limit","message":"later"}}`))
	odd, _ := server(t, answers(http.StatusOK, "application/json", `{"result":1}`))
	broken, _ := server(t, answers(http.StatusBadGateway, "text/plain", "no"))
	k := NewKernel(invoker(t, Options{}, general, refusing, odd, broken), map[string]string{
		"shop.": general.URL + "/", "shop.refund": refusing.URL, "odd": odd.URL, "broken": broken.URL})
	call := executor.CapabilityCall{CapabilityID: "shop.quote", Inputs: map[string]any{"n": int64(1)}, RunID: "R", StepID: "A", IdempotencyKey: "R-0/1",
		Deadline: time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)}
	out, err := k.InvokeCapability(context.Background(), call)
	require.NoError(t, err)
	assert.Equal(t, map[string]any{"quote": 12.5}, out)
	assert.Equal(t, "POST", seenGeneral.method)
	assert.Equal(t, "/invoke", seenGeneral.path)
	assert.Equal(t, "R-0/1", seenGeneral.header.Get("Idempotency-Key"))
	assert.JSONEq(t, `{"capability_id":"shop.quote","inputs":{"n":1},"run_id":"R","step_id":"A","idempotency_key":"R-0/1","deadline":"2026-11-30T09:00:00Z"}`, seenGeneral.body)

	for id, want := range map[string]executor.ToolError{
		"shop.refund.all": {Class: executor.ClassRateLimit, Message: "later"},
		"odd":             {Class: executor.ClassOther, Code: "invalid_answer", Message: "the kernel of capability 'odd' answered with neither outputs nor an error"},
		"else":            {Class: executor.ClassOther, Code: "unknown_capability", NotSent: true, Message: "no kernel is configured for capability 'else'"},
	} {
		call.CapabilityID = id
		_, err := k.InvokeCapability(context.Background(), call)
		var te *executor.ToolError
		require.ErrorAs(t, err, &te)
		assert.Equal(t, want, *te)
	}
	call.CapabilityID = "broken"
	_, err = k.InvokeCapability(context.Background(), call)
	var te *executor.ToolError
	require.ErrorAs(t, err, &te)
	assert.Equal(t, executor.ClassIO, te.Class)
}
