package app

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/api"
	"pave/api/gen"
	"pave/governance/loop"
)

// A serving process mines what it records, by itself, and the queue has what repeats.
func TestServeMinesByItself(t *testing.T) {
	a := open(t, func(o *Options) {
		o.NoAuth = true
		o.Mining = loop.Settings{AfterSessions: 10}
	})
	ctx, stop := context.WithCancel(t.Context())
	ready, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- a.Serve(ctx, ServeOptions{Listen: "127.0.0.1:0", Ready: func(addr string) { ready <- addr }})
	}()
	<-ready
	var body strings.Builder
	for i := range 12 {
		fmt.Fprintf(&body, `{"event":"user_message","session_id":"s%[1]d","text":"where is order o-%[1]d?"}
{"event":"tool_call","session_id":"s%[1]d","call_id":"a","tool":"get_order","args":{"order_id":"o-%[1]d"},"result":{"shipment_id":"sh-%[1]d"},"status":"ok"}
{"event":"tool_call","session_id":"s%[1]d","call_id":"b","tool":"get_shipment","args":{"shipment_id":"sh-%[1]d"},"result":{"carrier":"c%[1]d"},"status":"ok"}
`, i)
	}
	r := httptest.NewRequest(http.MethodPost, "/api/v1/tool-calls?assemble=true", strings.NewReader(body.String()))
	r.Header.Set("Content-Type", "application/x-ndjson")
	w := httptest.NewRecorder()
	a.Handler().ServeHTTP(w, r.WithContext(api.WithActor(r.Context(), a.localActor())))
	require.Equal(t, http.StatusOK, w.Code, w.Body.String())

	c := clientOf(t, a, "")
	var status *gen.MiningStatus
	require.Eventually(t, func() bool {
		resp, err := c.GetMiningStatusWithResponse(t.Context())
		require.NoError(t, err)
		status = resp.JSON200
		return status.Last != nil
	}, time.Minute, 50*time.Millisecond)
	require.True(t, status.Automatic)
	require.Equal(t, gen.MiningTriggerSessions, status.Last.Trigger)
	require.Equal(t, gen.MiningPassStatusDone, status.Last.Status)
	require.Equal(t, 12, status.Last.Sessions)
	proposals, err := c.ListProposalsWithResponse(t.Context(), &gen.ListProposalsParams{})
	require.NoError(t, err)
	require.Len(t, proposals.JSON200.Items, 1)
	why, err := c.ExplainPatternWithResponse(t.Context(), &gen.ExplainPatternParams{Tool: []string{"get_order", "get_shipment"}})
	require.NoError(t, err)
	require.Equal(t, gen.PatternExplanationVerdictPattern, why.JSON200.Verdict)
	require.Equal(t, proposals.JSON200.Items[0].ID, why.JSON200.Proposals[0].ProposalID)
	stop()
	require.NoError(t, <-ended)
}
