package app

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/api"
	"pave/api/gen"
	"pave/governance"
	"pave/ingest"
)

// recordAs records a session of two calls whose records name a user, at a time.
func recordAs(t *testing.T, a *App, session, user string, at time.Time) {
	t.Helper()
	var events []ingest.Event
	for i := range 2 {
		events = append(events, ingest.Event{Kind: ingest.KindToolCall, SessionID: session, Source: "json", OriginKind: ingest.OriginAgent,
			Start: at.Add(time.Duration(i) * time.Second), Metadata: json.RawMessage(`{"user_id":"` + user + `"}`),
			Call: &ingest.ToolCall{Tool: "find", CallID: session + string(rune('a'+i)), Args: json.RawMessage(`{}`), Result: json.RawMessage(`{}`), Status: ingest.StatusOK}})
	}
	_, err := a.record.Record(t.Context(), ingest.DefaultTenant, events)
	require.NoError(t, err)
}

func sessionIDs(t *testing.T, a *App) []string {
	t.Helper()
	_, err := a.assembler.Run(t.Context(), ingest.DefaultTenant, time.Time{})
	require.NoError(t, err)
	resp, err := clientOf(t, a, "").ListSessionsWithResponse(t.Context(), nil)
	require.NoError(t, err)
	ids := []string{}
	for _, s := range resp.JSON200.Items {
		ids = append(ids, s.ID)
	}
	return ids
}

func TestDeletionsBySessionUserAndTime(t *testing.T) {
	a := open(t, nil)
	c := clientOf(t, a, "")
	day := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	for i, s := range []struct{ id, user string }{{"s1", "ann"}, {"s2", "bob"}, {"s3", "ann"}, {"s4", "bob"}, {"s5", "cyd"}} {
		recordAs(t, a, s.id, s.user, day.AddDate(0, 0, i))
	}
	one, err := c.DeleteSessionWithResponse(t.Context(), "s1")
	require.NoError(t, err)
	require.Equal(t, []int64{1, 2, 2}, []int64{one.JSON200.Sessions, one.JSON200.Events, one.JSON200.ToolCalls})
	require.Equal(t, "local:tester", one.JSON200.By)
	require.ElementsMatch(t, []string{"s2", "s3", "s4", "s5"}, sessionIDs(t, a))
	again, err := c.DeleteSessionWithResponse(t.Context(), "s1")
	require.NoError(t, err)
	require.Equal(t, http.StatusNotFound, again.StatusCode())

	remove := func(req gen.DeletionCreate) *gen.CreateDeletionResponse {
		t.Helper()
		resp, err := c.CreateDeletionWithResponse(t.Context(), &gen.CreateDeletionParams{}, req)
		require.NoError(t, err)
		return resp
	}
	require.EqualValues(t, 1, remove(gen.DeletionCreate{User: "bob", From: day.AddDate(0, 0, 2)}).JSON200.Sessions, "those of bob in that time")
	require.ElementsMatch(t, []string{"s2", "s3", "s5"}, sessionIDs(t, a))
	require.EqualValues(t, 1, remove(gen.DeletionCreate{User: "ann"}).JSON200.Sessions)
	require.EqualValues(t, 1, remove(gen.DeletionCreate{To: day.AddDate(0, 0, 4)}).JSON200.Sessions)
	require.Equal(t, []string{"s5"}, sessionIDs(t, a))
	require.EqualValues(t, 0, remove(gen.DeletionCreate{User: "nobody"}).JSON200.Sessions)
	for name, bad := range map[string]gen.DeletionCreate{
		"nothing": {}, "no end": {From: day}, "both": {Sessions: []string{"s5"}, User: "cyd"},
	} {
		require.Equal(t, http.StatusBadRequest, remove(bad).StatusCode(), name)
	}
	require.Equal(t, []string{"s5"}, sessionIDs(t, a), "a refused deletion removes nothing")

	events, err := a.gate.Audit(t.Context(), a.localActor(), 0, 500)
	require.NoError(t, err)
	var told []string
	for _, e := range events {
		if strings.HasPrefix(e.Action, "deletion.") {
			told = append(told, e.Action)
			require.NotContains(t, string(e.Detail), "bob", "the log outlives what is deleted")
		}
	}
	require.Equal(t, []string{"deletion.begin", "deletion.end", "deletion.begin", "deletion.end", "deletion.begin", "deletion.end",
		"deletion.begin", "deletion.end", "deletion.begin", "deletion.end"}, told)
	_, err = a.gate.VerifyAudit(t.Context(), a.localActor())
	require.NoError(t, err)
}

func TestRetentionDeletesWhatIsOlder(t *testing.T) {
	a := open(t, func(o *Options) { o.Service.Retention = 10 * 24 * time.Hour })
	now := time.Now()
	recordAs(t, a, "old", "ann", now.AddDate(0, 0, -11))
	recordAs(t, a, "young", "ann", now.AddDate(0, 0, -9))
	ctx, cancel := context.WithCancel(t.Context())
	tick, ended := make(chan time.Time), make(chan struct{})
	go func() { defer close(ended); a.expire(ctx, tick) }()
	tick <- now
	tick <- now // taken when the first is done
	cancel()
	<-ended
	require.Equal(t, []string{"young"}, sessionIDs(t, a))
	actor := a.localActor()
	resp, err := (&http.Client{Transport: api.Transport(a.Handler(), &actor)}).Get("http://localhost/metrics")
	require.NoError(t, err)
	metrics, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Contains(t, string(metrics), `pave_retention_deleted_total{kind="sessions"} 1`)
	require.Contains(t, string(metrics), `pave_retention_deleted_total{kind="events"} 2`)
	events, err := a.gate.Audit(t.Context(), actor, 0, 500)
	require.NoError(t, err)
	require.Equal(t, governance.RetentionPrincipal, events[len(events)-1].Actor)
}

func TestRedactionPreview(t *testing.T) {
	a := open(t, nil)
	resp, err := clientOf(t, a, "").PreviewRedactionWithResponse(t.Context(), gen.RedactionPreviewCreate{
		Payload: json.RawMessage(`{"user":"u","n":12345678901234567890,"list":[{"pass/word":1,"password":"hunter2-hunter2"}],"again":{"token":"hunter2-hunter2"}}`)})
	require.NoError(t, err)
	require.NotContains(t, string(resp.JSON200.Payload), "hunter2")
	require.Contains(t, string(resp.JSON200.Payload), "12345678901234567890", "numbers keep their digits")
	require.Len(t, resp.JSON200.Marks, 2)
	require.Equal(t, []string{"/again/token", "/list/0/password"}, []string{resp.JSON200.Marks[0].Pointer, resp.JSON200.Marks[1].Pointer})
	require.Equal(t, resp.JSON200.Marks[0].Token, resp.JSON200.Marks[1].Token, "equal secrets stay equal")
	require.Contains(t, string(resp.JSON200.Payload), resp.JSON200.Marks[0].Token)
	plain, err := clientOf(t, a, "").PreviewRedactionWithResponse(t.Context(), gen.RedactionPreviewCreate{Payload: json.RawMessage(`{"a":[1,null]}`)})
	require.NoError(t, err)
	require.JSONEq(t, `{"a":[1,null]}`, string(plain.JSON200.Payload))
	require.Empty(t, plain.JSON200.Marks)
}
