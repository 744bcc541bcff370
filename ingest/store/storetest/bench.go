package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"pave/ingest"
	"pave/ingest/store"
)

// BenchSeries measures the sums by day over ten million calls in 300,000 sessions of 90 days.
func BenchSeries(b *testing.B, st store.Store) {
	ctx := context.Background()
	const sessions, batch = 300_000, 5_000
	first := time.Date(2026, 8, 1, 0, 0, 0, 0, time.UTC)
	for from := 0; from < sessions; from += batch {
		rows := make([]store.SessionRow, batch)
		for i := range rows {
			id := fmt.Sprintf("session-%07d", from+i)
			rows[i] = store.SessionRow{ID: id, Summary: ingest.SessionSummary{ID: id, Start: first.Add(time.Duration(from+i) * 26 * time.Second),
				ToolCalls: 33, UserTurns: 2, Agents: []string{"support"}, LLM: ingest.LLMUsage{Calls: 30}}}
		}
		if err := st.PutSessions(ctx, tenant, rows); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		days, err := st.SessionDays(ctx, tenant, time.Time{}, time.Time{})
		if err != nil || len(days) != 91 {
			b.Fatal(len(days), err)
		}
	}
}
