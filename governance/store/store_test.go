package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var epoch = time.Date(2026, 11, 2, 9, 0, 0, 123456000, time.UTC)

func open(t *testing.T, path string) *DB {
	t.Helper()
	db, err := Open(context.Background(), path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

func temp(t *testing.T) string { return filepath.Join(t.TempDir(), "state.db") }

func update(t *testing.T, db *DB, fn func(*Tx) error) {
	t.Helper()
	require.NoError(t, db.Update(context.Background(), fn))
}

func view(t *testing.T, db *DB, fn func(*Reader) error) {
	t.Helper()
	require.NoError(t, db.View(context.Background(), fn))
}

func TestOpenOddPathAndDurability(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a b%20c?d#e.db")
	db, err := Open(context.Background(), path)
	require.NoError(t, err)
	update(t, db, func(tx *Tx) error { return tx.PutSetting("t", "x", []byte(`1`), 0) })
	var mode string
	var sync int
	require.NoError(t, db.write.QueryRow("PRAGMA journal_mode").Scan(&mode))
	require.NoError(t, db.write.QueryRow("PRAGMA synchronous").Scan(&sync))
	require.Equal(t, "wal", mode)
	require.Equal(t, 2, sync, "synchronous=FULL")
	require.NoError(t, db.Close())
	require.FileExists(t, path)

	db = open(t, path)
	view(t, db, func(r *Reader) error {
		value, revision, err := r.Setting("t", "x")
		require.Equal(t, `1`, string(value))
		require.EqualValues(t, 1, revision)
		return err
	})
}

func TestNewerSchemaIsRefused(t *testing.T) {
	path := temp(t)
	db, err := Open(context.Background(), path)
	require.NoError(t, err)
	_, err = db.write.Exec(`INSERT INTO goose_db_version (version_id, is_applied) VALUES (99, 1)`)
	require.NoError(t, err)
	require.NoError(t, db.Close())

	_, err = Open(context.Background(), path)
	require.ErrorIs(t, err, ErrNewer)
	require.ErrorContains(t, err, "schema 99")

	raw, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	defer raw.Close()
	var tables int
	require.NoError(t, raw.QueryRow(`SELECT count(*) FROM sqlite_master WHERE name = 'proposals'`).Scan(&tables))
	require.Equal(t, 1, tables, "the file is left as it is")
}

func TestUpdateIsAllOrNothingAndViewCannotWrite(t *testing.T) {
	db := open(t, temp(t))
	boom := errors.New("boom")
	err := db.Update(context.Background(), func(tx *Tx) error {
		require.NoError(t, tx.PutSetting("t", "x", []byte(`1`), 0))
		return boom
	})
	require.ErrorIs(t, err, boom)
	view(t, db, func(r *Reader) error {
		_, _, err := r.Setting("t", "x")
		require.ErrorIs(t, err, ErrNotFound)
		require.Error(t, (&Tx{Reader: *r, caller: t.Context()}).PutSetting("t", "x", []byte(`1`), 0), "readers are read-only by the engine too")
		return nil
	})
}

func TestCompareAndSwap(t *testing.T) {
	db := open(t, temp(t))
	p := ProposalRow{ID: "a", State: "proposed", Source: "miner", Revision: 1, CreatedAt: epoch, UpdatedAt: epoch, Body: []byte(`{}`)}
	update(t, db, func(tx *Tx) error { return tx.InsertProposal("t", p) })
	require.ErrorIs(t, db.Update(context.Background(), func(tx *Tx) error { return tx.InsertProposal("t", p) }), ErrExists)

	p.Revision, p.State = 2, "approved"
	update(t, db, func(tx *Tx) error { return tx.UpdateProposal("t", p, 1) })
	require.ErrorIs(t, db.Update(context.Background(), func(tx *Tx) error { return tx.UpdateProposal("t", p, 1) }), ErrStale)
	view(t, db, func(r *Reader) error {
		got, err := r.Proposal("t", "a")
		require.Equal(t, p, got)
		_, other := r.Proposal("other", "a")
		require.ErrorIs(t, other, ErrNotFound, "tenants are apart")
		return err
	})

	tool := ToolRow{Name: "x", Revision: 1, UpdatedAt: epoch, Body: []byte(`{}`)}
	update(t, db, func(tx *Tx) error { return tx.PutTool("t", tool) })
	require.ErrorIs(t, db.Update(context.Background(), func(tx *Tx) error { return tx.PutTool("t", tool) }), ErrStale)
	tool.Revision = 3
	require.ErrorIs(t, db.Update(context.Background(), func(tx *Tx) error { return tx.PutTool("t", tool) }), ErrStale)
	tool.Revision = 2
	update(t, db, func(tx *Tx) error { return tx.PutTool("t", tool) })
	view(t, db, func(r *Reader) error {
		versions, err := r.ToolVersions("t", "x")
		require.Len(t, versions, 2)
		require.EqualValues(t, 2, versions[0].Revision)
		return err
	})

	update(t, db, func(tx *Tx) error { return tx.PutSetting("t", "s", []byte(`1`), 0) })
	require.ErrorIs(t, db.Update(context.Background(), func(tx *Tx) error { return tx.PutSetting("t", "s", []byte(`2`), 0) }), ErrStale)
	update(t, db, func(tx *Tx) error { return tx.PutSetting("t", "s", []byte(`2`), 1) })
}

func TestFlowVersionsPinsAndPointer(t *testing.T) {
	db := open(t, temp(t))
	v1 := FlowVersionRow{Name: "f", Version: "1.0.0", Status: "active", Revision: 1, CreatedAt: epoch, Flow: []byte(`{}`), Savings: []byte(`{}`)}
	v2 := v1
	v2.Version, v2.CreatedAt = "1.1.0", epoch.Add(time.Hour)
	update(t, db, func(tx *Tx) error {
		require.NoError(t, tx.InsertFlowVersion("t", v1, map[string]string{"a": "h1", "b": "h2"}))
		require.NoError(t, tx.InsertFlowVersion("t", v2, map[string]string{"a": "h3"}))
		return tx.SetActive("t", "f", Pointer{Version: "1.0.0", Share: 1})
	})
	update(t, db, func(tx *Tx) error { return tx.SetActive("t", "f", Pointer{Version: "1.1.0", Share: 1}) })
	require.ErrorIs(t, db.Update(context.Background(), func(tx *Tx) error { return tx.InsertFlowVersion("t", v1, nil) }), ErrExists)
	v1.Status = "disabled"
	view(t, db, func(r *Reader) (err error) {
		v1.Revision, err = r.NextFlowRevision("t", "f")
		require.EqualValues(t, 2, v1.Revision)
		return err
	})
	update(t, db, func(tx *Tx) error { return tx.UpdateFlowVersion("t", v1, nil, 1) })
	require.ErrorIs(t, db.Update(context.Background(), func(tx *Tx) error { return tx.UpdateFlowVersion("t", v1, nil, 1) }), ErrStale)
	view(t, db, func(r *Reader) error {
		got, err := r.FlowVersion("t", "f", "")
		require.NoError(t, err)
		require.Equal(t, "1.1.0", got.Version)
		require.True(t, got.Active)
		all, err := r.FlowVersions("t", "")
		require.NoError(t, err)
		require.Len(t, all, 2)
		require.Equal(t, "disabled", all[0].Status)
		require.EqualValues(t, 2, all[0].Revision)
		require.False(t, all[0].Active)
		on, err := r.PinsOn("t", "a")
		require.NoError(t, err)
		require.Equal(t, []PinRow{{"f", "1.0.0", "a", "h1"}, {"f", "1.1.0", "a", "h3"}}, on)
		of, err := r.PinsOf("t", "f", "1.0.0")
		require.Equal(t, []PinRow{{"f", "1.0.0", "a", "h1"}, {"f", "1.0.0", "b", "h2"}}, of)
		return err
	})
}

func TestProposalPagesAreStableWhileRowsArrive(t *testing.T) {
	db := open(t, temp(t))
	insert := func(id, source string, rank int, score float64, at time.Time) {
		update(t, db, func(tx *Tx) error {
			return tx.InsertProposal("t", ProposalRow{ID: id, State: "proposed", Source: source, Revision: 1, Rank: rank,
				Score: score, CreatedAt: at, UpdatedAt: at, Body: []byte(`{}`)})
		})
	}
	for i := range 7 {
		insert(fmt.Sprintf("m%d", i), "miner", 6-i, float64(i/2), epoch.Add(time.Duration(i)*time.Microsecond))
		insert(fmt.Sprintf("a%d", i), "analyzer", i, -1, epoch.Add(time.Duration(i)*time.Microsecond))
	}
	for _, tc := range []struct {
		sort string
		want []string
	}{
		{"", []string{"m6", "m5", "m4", "m3", "m2", "m1", "m0", "a0", "a1", "a2", "a3", "a4", "a5", "a6"}},
		{"score", []string{"m6", "m5", "m4", "m3", "m2", "m1", "m0", "a6", "a5", "a4", "a3", "a2", "a1", "a0"}},
		{"created", []string{"m6", "a6", "m5", "a5", "m4", "a4", "m3", "a3", "m2", "a2", "m1", "a1", "m0", "a0"}},
	} {
		sort, want := tc.sort, tc.want
		var got []string
		cursor := ""
		for n := 0; ; n++ {
			view(t, db, func(r *Reader) error {
				page, err := r.Proposals("t", ProposalQuery{States: []string{"proposed", "in_review"}, Sort: sort, Limit: 3, Cursor: cursor})
				for _, p := range page.Items {
					got = append(got, p.ID)
				}
				cursor = page.Next
				return err
			})
			if cursor == "" {
				break
			}
			// Before the cursor in every order: the pages that follow do not show it, nor lose another.
			if sort == "created" && n == 0 {
				insert("new", "miner", 50, 99, epoch.Add(time.Hour))
			}
		}
		require.Equal(t, want, got, "sort %q", sort)
	}
	view(t, db, func(r *Reader) error {
		page, err := r.Proposals("t", ProposalQuery{Source: "analyzer", Limit: 2})
		require.NoError(t, err)
		require.Len(t, page.Items, 2)
		for _, bad := range []string{"x", "!!", "e30", page.Next + "A"} {
			_, err := r.Proposals("t", ProposalQuery{Cursor: bad})
			require.ErrorIs(t, err, ErrCursor, bad)
		}
		_, err = r.Proposals("t", ProposalQuery{Cursor: page.Next, Sort: "score"})
		require.ErrorIs(t, err, ErrCursor, "a cursor is for its own sort")
		return nil
	})
}

func TestReviewsKeepOrderAndDismiss(t *testing.T) {
	db := open(t, temp(t))
	update(t, db, func(tx *Tx) error {
		for i, who := range []string{"alice", "bob", "alice"} {
			if err := tx.InsertReview("t", "p", ReviewRow{ID: fmt.Sprint(i), Principal: who, Verdict: "approve", At: epoch}); err != nil {
				return err
			}
		}
		return tx.DismissReviews("t", "p", "alice")
	})
	view(t, db, func(r *Reader) error {
		got, err := r.Reviews("t", "p")
		require.Equal(t, []ReviewRow{
			{N: 1, ID: "0", Principal: "alice", Verdict: "approve", Dismissed: true, At: epoch},
			{N: 2, ID: "1", Principal: "bob", Verdict: "approve", At: epoch},
			{N: 3, ID: "2", Principal: "alice", Verdict: "approve", Dismissed: true, At: epoch},
		}, got)
		return err
	})
}

func TestAuditChainShowsEveryKindOfTampering(t *testing.T) {
	tamper := map[string]struct{ sql, says string }{
		"changed detail":  {`UPDATE audit_events SET detail = CAST('{"n":9}' AS BLOB) WHERE seq = 3`, "event 3"},
		"changed actor":   {`UPDATE audit_events SET actor = 'x' WHERE seq = 1`, "event 1"},
		"removed middle":  {`DELETE FROM audit_events WHERE seq = 2`, "event 2"},
		"removed tail":    {`DELETE FROM audit_events WHERE seq = 5`, "after event 4"},
		"removed all":     {`DELETE FROM audit_events`, "after event 0"},
		"moved in time":   {`UPDATE audit_events SET at = at + 1 WHERE seq = 4`, "event 4"},
		"other tenant's":  {`UPDATE audit_events SET tenant = 'u' WHERE seq = 1`, "event 1"},
		"resealed middle": {`UPDATE audit_events SET sum = prev_sum WHERE seq = 2`, "event 2"},
	}
	for name, tc := range tamper {
		t.Run(name, func(t *testing.T) {
			db := open(t, temp(t))
			for i := range 5 {
				update(t, db, func(tx *Tx) error {
					row := AuditRow{At: epoch, Actor: "person:a", Action: "x", Object: "y"}
					if i > 0 {
						row.Detail = []byte(fmt.Sprintf(`{"n":%d}`, i))
					}
					return tx.Audit("t", row)
				})
			}
			view(t, db, func(r *Reader) error {
				n, err := r.VerifyAudit("t")
				require.EqualValues(t, 5, n)
				require.NoError(t, err)
				rows, err := r.AuditEvents("t", 3, 10)
				require.Len(t, rows, 2)
				require.Equal(t, rows[0].Sum, rows[1].PrevSum)
				return err
			})
			_, err := db.write.Exec(tc.sql)
			require.NoError(t, err)
			view(t, db, func(r *Reader) error {
				_, err := r.VerifyAudit("t")
				require.ErrorContains(t, err, tc.says)
				return nil
			})
		})
	}
}

func TestRunsExportQueueAndEstimates(t *testing.T) {
	db := open(t, temp(t))
	update(t, db, func(tx *Tx) error {
		for i := range 4 {
			if err := tx.InsertRun("t", RunRow{ID: fmt.Sprint(i), Flow: "f", Version: "1.0.0", State: "running", Caller: "c", DryRun: i == 3,
				Started: epoch.Add(time.Duration(i) * time.Minute), Body: []byte(`{}`)}); err != nil {
				return err
			}
		}
		return nil
	})
	update(t, db, func(tx *Tx) error {
		for i := range 4 {
			if err := tx.UpdateRun("t", RunRow{ID: fmt.Sprint(i), State: "succeeded", StepsSaved: 2, Ended: epoch.Add(time.Hour), Body: []byte(`{}`)}, 1); err != nil {
				return err
			}
		}
		return tx.MarkExported("t", "0")
	})
	for id, revision := range map[string]int64{"none": 1, "0": 1} { // run 0 has revision 2 by now
		require.ErrorIs(t, db.Update(context.Background(), func(tx *Tx) error {
			return tx.UpdateRun("t", RunRow{ID: id, Body: []byte(`{}`)}, revision)
		}), ErrStale)
	}
	view(t, db, func(r *Reader) error {
		pending, err := r.UnexportedRuns("t", 10)
		require.NoError(t, err)
		require.Len(t, pending, 3)
		require.Equal(t, "1", pending[0].ID)
		sums, err := r.RunEstimates("t", epoch.Add(time.Minute), time.Time{})
		require.NoError(t, err)
		require.Equal(t, []RunEstimate{{"f", "1.0.0", 4}}, sums)
		page, err := r.Runs("t", RunQuery{Flow: "f", State: "succeeded", Limit: 3})
		require.NoError(t, err)
		require.Equal(t, "3", page.Items[0].ID)
		page, err = r.Runs("t", RunQuery{Flow: "f", Cursor: page.Next})
		require.Len(t, page.Items, 1)
		return err
	})
}

func TestClaimIsExclusiveUntilItAges(t *testing.T) {
	db := open(t, temp(t))
	row := IdempotencyRow{Principal: "p", Operation: "run", Key: "k", BodyHash: "h", Object: "1", CreatedAt: epoch}
	claim := func(row IdempotencyRow, after time.Time) (got IdempotencyRow, ok bool) {
		update(t, db, func(tx *Tx) (err error) {
			got, ok, err = tx.Claim("t", row, after)
			return err
		})
		return got, ok
	}
	_, ok := claim(row, epoch.Add(-time.Hour))
	require.True(t, ok)
	again := row
	again.BodyHash, again.Object, again.CreatedAt = "h2", "2", epoch.Add(time.Minute)
	got, ok := claim(again, epoch.Add(-time.Hour))
	require.False(t, ok)
	require.Equal(t, row, got)
	_, ok = claim(again, epoch.Add(time.Second))
	require.True(t, ok, "an aged key is free")
}

func TestConcurrentUpdatesAreSerial(t *testing.T) {
	db := open(t, temp(t))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 10 {
				if err := db.Update(context.Background(), func(tx *Tx) error {
					return tx.Audit("t", AuditRow{At: epoch, Actor: "a", Action: "b", Object: "c"})
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	view(t, db, func(r *Reader) error {
		n, err := r.VerifyAudit("t")
		require.EqualValues(t, 80, n)
		return err
	})
}

func TestKeysAndMiningRuns(t *testing.T) {
	db := open(t, temp(t))
	k := KeyRow{Tenant: "t", ID: "1", Prefix: "abc", Hash: []byte{1}, Principal: "person:a", Scopes: "read run", CreatedAt: epoch, ExpiresAt: epoch.Add(time.Hour)}
	update(t, db, func(tx *Tx) error {
		require.NoError(t, tx.InsertKey(k))
		require.NoError(t, tx.TouchKey("t", "1", epoch))
		require.ErrorIs(t, tx.RevokeKey("u", "1"), ErrNotFound)
		require.NoError(t, tx.RevokeKey("t", "1"))
		require.NoError(t, tx.PutMiningRun("t", MiningRow{ID: "m", State: "running", Started: epoch, Body: []byte(`{}`)}))
		n, err := tx.AbandonMiningRuns("t", "running", "interrupted")
		require.EqualValues(t, 1, n)
		return err
	})
	view(t, db, func(r *Reader) error {
		got, err := r.KeyByPrefix("abc")
		require.NoError(t, err)
		k.LastUsed, k.Revoked = epoch, true
		require.Equal(t, k, got)
		_, err = r.KeyByPrefix("zzz")
		require.ErrorIs(t, err, ErrNotFound)
		m, err := r.LastMiningRun("t", "interrupted")
		require.NoError(t, err)
		require.Equal(t, "m", m.ID)
		page, err := r.MiningRuns("t", 10, "")
		require.Len(t, page.Items, 1)
		return err
	})
}
