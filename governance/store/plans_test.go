package store

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// everyRow is a step of a plan that reads all rows of one of the tables that grow, with their bodies.
var everyRow = regexp.MustCompile(`^(SCAN (proposals|runs|audit_events|deliveries)\b|SEARCH (proposals|runs|audit_events|deliveries) USING (PRIMARY KEY|INDEX \w+) \(tenant=\?\)$)`)

// Lists and look-ups of tables that grow read what they answer, not all rows of a tenant. runs_time may be walked along, as
// far as a page goes.
func TestListsAreLedByIndexes(t *testing.T) {
	db := open(t, temp(t))
	view(t, db, func(r *Reader) error {
		ask := func(_ any, err error) { require.NoError(t, err) }
		for _, sort := range ProposalSorts {
			ask(r.Proposals("t", ProposalQuery{States: []string{"proposed", "approved"}, Sort: sort, Source: "miner", Assignee: "person:a"}))
			ask(r.Proposals("t", ProposalQuery{Sort: sort}))
		}
		ask(r.ProposalsLike("t", "a"))
		ask(r.ProposalsNamed("t", "a"))
		ask(r.ProposalsOfPattern("t", "a"))
		ask(r.ProposalsInStates("t", "approved", "proposed"))
		ask(r.CountProposals("t", "approved", "proposed"))
		ask(r.Runs("t", RunQuery{}))
		ask(r.Runs("t", RunQuery{Flow: "f"}))
		ask(r.Runs("t", RunQuery{State: "running"}))
		ask(r.RunsInState("t", "interrupted"))
		ask(r.UnexportedRuns("t", 10))
		ask(r.RunsOf("t", []string{"a"}, []string{"b", "c"}))
		ask(r.RunsOf("t", nil, []string{"b", "c"}))
		ask(r.RunsOf("t", []string{"a"}, nil))
		ask(r.RanInTrace("t", "a", "f"))
		ask(r.RunEstimates("t", time.Time{}, time.Time{}))
		ask(r.AuditOf("t", []string{"a"}, time.Time{}, time.Time{}))
		ask(r.Deliveries("t", "w", 10, ""))
		_, _, _, err := r.RunTail("t", "f", "1", "failed", "denied", epoch, 20)
		require.NoError(t, err)
		require.Greater(t, len(r.in.missed), 25)
		for _, query := range r.in.missed {
			for _, step := range planOf(t, r, query) {
				paged := strings.HasSuffix(step, "INDEX runs_time (tenant=?)") && strings.Contains(query, "LIMIT")
				if paged || strings.HasSuffix(step, "INDEX runs_pending (tenant=?)") { // which has few rows
					continue
				}
				require.NotRegexp(t, everyRow, step, query)
			}
		}
		return nil
	})
}

func planOf(t *testing.T, r *Reader, query string) (steps []string) {
	t.Helper()
	rows, err := r.in.tx.QueryContext(r.ctx, "EXPLAIN QUERY PLAN "+query, make([]any, strings.Count(query, "?"))...)
	require.NoError(t, err, query)
	defer rows.Close()
	for rows.Next() {
		var id, parent, unused int
		var step string
		require.NoError(t, rows.Scan(&id, &parent, &unused, &step))
		steps = append(steps, step)
	}
	require.NoError(t, rows.Err())
	return steps
}

// A page is the same whether its rows are chosen first or not, and a count is that of the list.
func TestQueueOfManyProposals(t *testing.T) {
	db := open(t, temp(t))
	states := []string{"proposed", "in_review", "approved", "rejected"}
	update(t, db, func(tx *Tx) error {
		for i := range 300 {
			p := ProposalRow{ID: fmt.Sprintf("p%03d", i*7%300), State: states[i%4], Source: []string{"miner", "analyzer"}[i%2], PatternKey: fmt.Sprint("k", i),
				FlowName: fmt.Sprint("f", i%10), Rank: i % 13, Score: float64(i % 17), CreatedAt: epoch.Add(time.Duration(i%29) * time.Second), UpdatedAt: epoch,
				Savings: float64(i % 5), Body: []byte(`{}`)}
			if err := tx.InsertProposal("t", p); err != nil {
				return err
			}
		}
		return nil
	})
	view(t, db, func(r *Reader) error {
		for _, sort := range ProposalSorts {
			var seen []ProposalRow
			q := ProposalQuery{States: states[:3], Sort: sort, Limit: 40}
			for {
				page, err := r.Proposals("t", q)
				require.NoError(t, err)
				seen = append(seen, page.Items...)
				if q.Cursor = page.Next; q.Cursor == "" {
					break
				}
			}
			require.Len(t, seen, 225, sort)
			for i := 1; i < len(seen); i++ {
				a, b := seen[i-1], seen[i]
				before := map[string]float64{"rank": a.key("rank") - b.key("rank"), "score": b.key("score") - a.key("score"), "created": b.key("created") - a.key("created"),
					"updated": 0, "savings": b.key("savings") - a.key("savings")}[sort]
				require.LessOrEqual(t, before, 0.0, "%s of %s and %s", sort, a.ID, b.ID)
				if before == 0 {
					require.Equal(t, sort == "rank", a.ID < b.ID, "ties of %s by id", sort)
				}
			}
		}
		counts, err := r.CountProposals("t", states[:3]...)
		require.NoError(t, err)
		require.Equal(t, map[string]int{"miner": 150, "analyzer": 75}, counts)
		like, err := r.ProposalsLike("t", "p00")
		require.NoError(t, err)
		require.Len(t, like, 10)
		named, err := r.ProposalsLike("t", "f3")
		require.NoError(t, err)
		require.Len(t, named, 30)
		return nil
	})
}

// key is what a sort compares.
func (p ProposalRow) key(sort string) float64 {
	switch sort {
	case "rank":
		if p.Source != "miner" {
			return float64(p.Rank) + 1e9
		}
		return float64(p.Rank)
	case "score":
		return p.Score
	case "created":
		return float64(p.CreatedAt.UnixMicro())
	}
	return p.Savings
}
