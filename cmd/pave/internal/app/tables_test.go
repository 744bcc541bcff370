package app

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/api/gen"
)

func TestMiningPassesAreFollowed(t *testing.T) {
	a, c, _ := traced(t, TelemetryOptions{})
	ctx := t.Context()
	for i := range 10 {
		walk(t, c, fmt.Sprint("s-", i), fmt.Sprint("o-", i))
	}
	server := httptest.NewServer(a.Handler())
	defer server.Close()
	defer http.DefaultClient.CloseIdleConnections()
	reader, _ := newKey(t, a, "service:reader", time.Time{}, "read")
	begun, err := c.StartMiningRunWithResponse(ctx, nil, gen.MiningRequest{MinSessions: 3})
	require.NoError(t, err)
	require.Equal(t, http.StatusAccepted, begun.StatusCode(), string(begun.Body))
	url := server.URL + begun.HTTPResponse.Header.Get("Location") + "/events"
	events, status := follow(t, url, reader, "")
	require.Equal(t, http.StatusOK, status)
	var kinds []string
	last := 0
	for _, ev := range events {
		n, err := strconv.Atoi(ev.id)
		require.NoError(t, err)
		require.Greater(t, n, last, "numbers rise")
		last = n
		var data gen.MiningEvent
		require.NoError(t, json.Unmarshal([]byte(ev.data), &data))
		require.Equal(t, ev.event, string(data.Kind))
		if data.Phase != "" {
			kinds = append(kinds, data.Phase)
		}
	}
	require.Equal(t, []string{"assemble", "observe", "infer", "analyse", "propose"}, kinds)
	var end gen.MiningEvent
	require.NoError(t, json.Unmarshal([]byte(events[len(events)-1].data), &end))
	require.Equal(t, gen.MiningEventKindMiningRun, end.Kind)
	require.Equal(t, []any{gen.MiningRunStatusDone, 10}, []any{end.MiningRun.Status, end.MiningRun.Sessions})

	rest, status := follow(t, url, reader, events[1].id)
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, events[2:], rest, "the stream goes on behind an event")
	nothing, status := follow(t, url, reader, events[len(events)-1].id)
	require.Equal(t, http.StatusNoContent, status)
	require.Empty(t, nothing)
	_, status = follow(t, url, reader, "first")
	require.Equal(t, http.StatusBadRequest, status)
	_, status = follow(t, strings.Replace(url, begun.JSON202.ID, "nobody", 1), reader, "")
	require.Equal(t, http.StatusNotFound, status)

	// A pass that is not the last one of this process has its end only.
	again, err := c.StartMiningRunWithResponse(ctx, &gen.StartMiningRunParams{Wait: true}, gen.MiningRequest{MinSessions: 3})
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, again.StatusCode())
	old, status := follow(t, url, reader, "")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, events[len(events)-1:], old)
	listed, err := c.ListMiningRunsWithResponse(ctx, &gen.ListMiningRunsParams{Limit: 1})
	require.NoError(t, err)
	require.Equal(t, again.JSON200.ID, listed.JSON200.Items[0].ID)
	more, err := c.ListMiningRunsWithResponse(ctx, &gen.ListMiningRunsParams{Limit: 1, Cursor: listed.JSON200.NextCursor})
	require.NoError(t, err)
	require.Equal(t, begun.JSON202.ID, more.JSON200.Items[0].ID)

	page, err := c.ListPatternsWithResponse(ctx, nil)
	require.NoError(t, err)
	found := page.JSON200.Items[0]
	require.Equal(t, []string{"find_order", "find_ship"}, found.Tools)
	one, err := c.GetPatternWithResponse(ctx, found.ID)
	require.NoError(t, err)
	require.Equal(t, found, *one.JSON200)
	where, err := c.ListPatternOccurrencesWithResponse(ctx, found.ID, &gen.ListPatternOccurrencesParams{Limit: 7})
	require.NoError(t, err)
	require.Equal(t, []int{10, 7}, []int{where.JSON200.Total, len(where.JSON200.Items)})
	others, err := c.ListPatternOccurrencesWithResponse(ctx, found.ID, &gen.ListPatternOccurrencesParams{Limit: 7, Cursor: where.JSON200.NextCursor})
	require.NoError(t, err)
	seen := map[string]bool{}
	for _, o := range append(where.JSON200.Items, others.JSON200.Items...) {
		seen[o.SessionID] = true
	}
	require.Len(t, seen, 10)
	absent, err := c.GetPatternWithResponse(ctx, "0123456789abcdef")
	require.NoError(t, err)
	require.Equal(t, http.StatusNotFound, absent.StatusCode())
}

func TestCompatibilityAndChains(t *testing.T) {
	_, c, _ := traced(t, TelemetryOptions{})
	ctx := t.Context()
	port := strings.NewReplacer("find_order", "port_of", "{order: {type: string}}, required: [order]", "{at: {type: string}}, required: [at]",
		"{ship: {type: string}}, required: [ship]", "{pilot: {type: string}}, required: [pilot]").Replace(tracedTools[:strings.Index(tracedTools, "---")])
	applied, err := c.ApplyToolsWithBodyWithResponse(ctx, "application/yaml", strings.NewReader(strings.ReplaceAll(port, "URL", "http://127.0.0.1:1")))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, applied.StatusCode(), string(applied.Body))
	all, err := c.GetCompatibilityWithResponse(ctx, nil)
	require.NoError(t, err)
	require.Equal(t, 3, all.JSON200.Tools)
	var pairs []string
	for _, x := range all.JSON200.Items {
		pairs = append(pairs, x.Producer+x.Pointer+">"+x.Consumer+"."+x.Input)
	}
	require.Equal(t, []string{"find_order/ship>find_ship.ship", "find_ship/at>port_of.at"}, pairs)
	of, err := c.GetCompatibilityWithResponse(ctx, &gen.GetCompatibilityParams{Tool: "port_of"})
	require.NoError(t, err)
	require.Len(t, of.JSON200.Items, 1)
	chains, err := c.ListChainsWithResponse(ctx, &gen.ListChainsParams{From: "find_order", To: "port_of"})
	require.NoError(t, err)
	require.Len(t, chains.JSON200.Items, 1)
	require.Equal(t, []string{"find_order", "find_ship", "port_of"}, chains.JSON200.Items[0].Tools)
	require.Len(t, chains.JSON200.Items[0].Edges, 2)
	short, err := c.ListChainsWithResponse(ctx, &gen.ListChainsParams{To: "port_of", MaxDepth: 2})
	require.NoError(t, err)
	require.Len(t, short.JSON200.Items, 1)
	require.Equal(t, []string{"find_ship", "port_of"}, short.JSON200.Items[0].Tools)
	for _, params := range []*gen.ListChainsParams{{From: "nobody"}, {To: "nobody"}} {
		resp, err := c.ListChainsWithResponse(ctx, params)
		require.NoError(t, err)
		require.Equal(t, http.StatusNotFound, resp.StatusCode())
	}
	first, err := c.ListChainsWithResponse(ctx, &gen.ListChainsParams{Limit: 1})
	require.NoError(t, err)
	applied, err = c.ApplyToolsWithBodyWithResponse(ctx, "application/yaml", strings.NewReader("kind: Tool\nname: another\ninput_schema: {type: object}\n"))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, applied.StatusCode())
	stale, err := c.ListChainsWithResponse(ctx, &gen.ListChainsParams{Limit: 1, Cursor: first.JSON200.NextCursor})
	require.NoError(t, err)
	require.Equal(t, http.StatusPreconditionFailed, stale.StatusCode(), "a tool changed between the pages")
}

func TestReviewersDeclareSafetyAndReserve(t *testing.T) {
	a := open(t, nil)
	c, ctx := clientOf(t, a, ""), t.Context()
	unknown := strings.ReplaceAll(strings.ReplaceAll(tracedTools, "URL", "http://127.0.0.1:1"), "safety: {side_effects: read, idempotent: true, source: declared}\n", "")
	applied, err := c.ApplyToolsWithBodyWithResponse(ctx, "application/yaml", strings.NewReader(unknown))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, applied.StatusCode(), string(applied.Body))
	made, err := c.SubmitProposalWithResponse(ctx, nil, gen.ProposalCreate{Flow: json.RawMessage(tracedFlow)})
	require.NoError(t, err)
	p := made.JSON201
	require.Equal(t, []any{gen.SideEffectsExternal, 2}, []any{p.Safety, p.Needs}, "what is not known counts as external")
	key := func(who string) *gen.ClientWithResponses {
		secret, _ := newKey(t, a, who, time.Time{}, "review", "read")
		return clientOf(t, a, secret)
	}
	bob, eve := key("person:bob"), key("person:eve")

	held, err := bob.ReserveProposalWithResponse(ctx, p.ID)
	require.NoError(t, err)
	require.Equal(t, "person:bob", held.JSON200.Reservation.By)
	require.WithinDuration(t, time.Now().Add(15*time.Minute), held.JSON200.Reservation.Until, time.Minute)
	refused, err := eve.ReserveProposalWithResponse(ctx, p.ID)
	require.NoError(t, err)
	require.Equal(t, http.StatusConflict, refused.StatusCode())
	require.Contains(t, string(refused.Body), "person:bob")
	unheld, err := eve.ReleaseProposalWithResponse(ctx, p.ID)
	require.NoError(t, err)
	require.NotNil(t, unheld.JSON200.Reservation, "only one's own")
	free, err := bob.ReleaseProposalWithResponse(ctx, p.ID)
	require.NoError(t, err)
	require.Nil(t, free.JSON200.Reservation)
	taken, err := eve.ReserveProposalWithResponse(ctx, p.ID)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, taken.StatusCode())

	tag := taken.HTTPResponse.Header.Get("ETag")
	approve := func(verdict gen.Verdict, safety ...gen.SafetyDeclaration) *gen.ReviewProposalResponse {
		t.Helper()
		resp, err := bob.ReviewProposalWithResponse(ctx, p.ID, &gen.ReviewProposalParams{IfMatch: tag},
			gen.ReviewCreate{Verdict: verdict, Digest: p.Digest, Comment: "c", Safety: safety})
		require.NoError(t, err)
		return resp
	}
	reads := func(tool string) gen.SafetyDeclaration {
		return gen.SafetyDeclaration{Tool: tool, SideEffects: gen.SideEffectsRead, Reason: "its page says so"}
	}
	require.Equal(t, http.StatusBadRequest, approve(gen.VerdictApprove, reads("nobody")).StatusCode())
	require.Equal(t, http.StatusBadRequest, approve(gen.VerdictRequestChanges, reads("find_ship")).StatusCode())
	require.Equal(t, http.StatusBadRequest, approve(gen.VerdictApprove, reads("find_ship"), reads("find_ship")).StatusCode())
	done := approve(gen.VerdictApprove, reads("find_order"), reads("find_ship"))
	require.Equal(t, http.StatusOK, done.StatusCode(), string(done.Body))
	require.Equal(t, []any{gen.SideEffectsRead, 1, gen.ProposalStateApproved}, []any{done.JSON200.Safety, done.JSON200.Needs, done.JSON200.State})
	tool, err := c.GetToolWithResponse(ctx, "find_ship")
	require.NoError(t, err)
	require.Contains(t, string(tool.JSON200.Tool), `"source":"reviewer"`)
	tag = done.HTTPResponse.Header.Get("ETag")
	overruled := approve(gen.VerdictApprove, gen.SafetyDeclaration{Tool: "find_ship", SideEffects: gen.SideEffectsNone, Reason: "surely"})
	require.Equal(t, http.StatusConflict, overruled.StatusCode(), "what is declared is not overruled in a review")
	events, err := a.gate.Audit(ctx, a.localActor(), 0, 500)
	require.NoError(t, err)
	told := 0
	for _, e := range events {
		if e.Action == "tool.safety" {
			told++
			require.Contains(t, string(e.Detail), "its page says so")
		}
	}
	require.Equal(t, 2, told)
}

func TestRegisteredSchemasAreTakenByDrafts(t *testing.T) {
	a, c, _ := traced(t, TelemetryOptions{})
	ctx := t.Context()
	put := func(name, tag, doc string) *gen.PutSchemaResponse {
		t.Helper()
		resp, err := c.PutSchemaWithBodyWithResponse(ctx, name, &gen.PutSchemaParams{IfMatch: tag}, "application/json", strings.NewReader(doc))
		require.NoError(t, err)
		return resp
	}
	const order = `{"type":"object","properties":{"order":{"type":"string"}},"required":["order"]}`
	require.Equal(t, http.StatusPreconditionRequired, put("shop:Order", "", order).StatusCode())
	require.Equal(t, http.StatusBadRequest, put("shop:Order", `"0"`, `{"type":"no such type"}`).StatusCode())
	require.Equal(t, http.StatusBadRequest, put("flow", `"0"`, order).StatusCode())
	made := put("shop:Order", `"0"`, order)
	require.Equal(t, http.StatusOK, made.StatusCode(), string(made.Body))
	require.Equal(t, `"1"`, made.HTTPResponse.Header.Get("ETag"))
	require.Equal(t, http.StatusPreconditionFailed, put("shop:Order", `"0"`, order).StatusCode())
	got, err := c.GetSchemaWithResponse(ctx, "shop:Order")
	require.NoError(t, err)
	require.JSONEq(t, order, string(got.Body))

	draft := strings.Replace(strings.Replace(tracedFlow, `"input_schema":`+order, `"input_schema_ref":"shop:Order"`, 1), "where_is", "where_too", 1)
	require.Contains(t, draft, "input_schema_ref")
	compiled, err := c.CompileFlowWithBodyWithResponse(ctx, "application/json", strings.NewReader(draft))
	require.NoError(t, err)
	require.NotContains(t, string(compiled.Body), "unknown_schema")
	proposed, err := c.SubmitProposalWithResponse(ctx, nil, gen.ProposalCreate{Flow: json.RawMessage(draft)})
	require.NoError(t, err)
	require.Equal(t, http.StatusCreated, proposed.StatusCode(), string(proposed.Body))
	require.NotContains(t, string(proposed.JSON201.Flow), "input_schema_ref")
	require.Contains(t, string(proposed.JSON201.Flow), `"required":["order"]`)
	require.Equal(t, http.StatusOK, put("shop:Order", `"1"`, `{"type":"object"}`).StatusCode())
	kept, err := c.GetProposalWithResponse(ctx, proposed.JSON201.ID)
	require.NoError(t, err)
	require.Equal(t, proposed.JSON201.Digest, kept.JSON200.Digest, "what is registered later changes no draft")
	all, err := c.ListSchemasWithResponse(ctx, nil)
	require.NoError(t, err)
	require.Len(t, all.JSON200.Items, 1)
	require.EqualValues(t, 2, all.JSON200.Items[0].Revision)
	_, err = a.gate.VerifyAudit(ctx, a.localActor())
	require.NoError(t, err)
}

func TestUsageByPrincipal(t *testing.T) {
	a, c, _ := traced(t, TelemetryOptions{})
	secret, _ := newKey(t, a, "service:ci", time.Time{}, "run")
	runTraced(t, clientOf(t, a, secret), "o-1", "")
	runTraced(t, clientOf(t, a, secret), "sunk", "")
	resp, err := c.GetUsageWithResponse(t.Context(), &gen.GetUsageParams{From: time.Now().Add(-time.Hour)})
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode(), string(resp.Body))
	by := map[string]gen.PrincipalUsage{}
	for _, u := range resp.JSON200.Principals {
		by[u.Principal] = u
	}
	require.Equal(t, []int64{2, 1}, []int64{by["service:ci"].Runs, by["service:ci"].Succeeded})
	require.Equal(t, 1, by["service:ci"].Keys)
	require.NotZero(t, by["local:tester"].Changes)
	require.Zero(t, by["local:tester"].Runs)
	later, err := c.GetUsageWithResponse(t.Context(), &gen.GetUsageParams{From: time.Now().Add(time.Hour)})
	require.NoError(t, err)
	for _, u := range later.JSON200.Principals {
		require.Zero(t, u.Runs+u.Changes, u.Principal)
	}
}
