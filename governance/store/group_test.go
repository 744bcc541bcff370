package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// together lets updates share one transaction: they wait while another is at work, in their order.
func together(t *testing.T, db *DB, fns ...func(*Tx) error) []error {
	t.Helper()
	errs, gate := make([]error, len(fns)), make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() { assert.NoError(t, db.Update(t.Context(), func(*Tx) error { <-gate; return nil })) })
	waiting := func() int { db.group.mu.Lock(); defer db.group.mu.Unlock(); return len(db.group.waiting) }
	require.Eventually(t, func() bool { return len(db.group.turn) == 1 && waiting() == 0 }, 5e9, 1e5)
	for i, fn := range fns {
		all.Go(func() { errs[i] = db.Update(t.Context(), fn) })
		require.Eventually(t, func() bool { return waiting() == i+1 }, 5e9, 1e5)
	}
	close(gate)
	all.Wait()
	return errs
}

func put(key string) func(*Tx) error {
	return func(tx *Tx) error { return tx.PutSetting("t", key, []byte(`1`), 0) }
}

func settings(t *testing.T, db *DB, keys ...string) (there []bool) {
	t.Helper()
	view(t, db, func(r *Reader) error {
		for _, key := range keys {
			_, _, err := r.Setting("t", key)
			if !errors.Is(err, ErrNotFound) {
				require.NoError(t, err)
			}
			there = append(there, err == nil)
		}
		return nil
	})
	return there
}

// Of updates that share a transaction, each that fails is undone, whole and alone.
func TestUpdatesThatMeetFailAlone(t *testing.T) {
	db := open(t, temp(t))
	boom := errors.New("boom")
	errs := together(t, db,
		put("a"),
		func(tx *Tx) error { return errors.Join(put("b")(tx), put("c")(tx), boom) },
		func(*Tx) error { return boom },
		func(tx *Tx) error { // sees what came before, and changes that
			_, revision, err := tx.Setting("t", "a")
			return errors.Join(err, tx.PutSetting("t", "a", []byte(`2`), revision))
		},
		func(tx *Tx) error { return put("a")(tx) }, // stale
		put("d"))
	require.NoError(t, errors.Join(errs[0], errs[3], errs[5]))
	require.ErrorIs(t, errs[1], boom)
	require.ErrorIs(t, errs[2], boom)
	require.ErrorIs(t, errs[4], ErrStale)
	require.Equal(t, []bool{true, false, false, true}, settings(t, db, "a", "b", "c", "d"))
	view(t, db, func(r *Reader) error {
		value, revision, err := r.Setting("t", "a")
		require.Equal(t, `2`, string(value))
		require.EqualValues(t, 2, revision)
		return err
	})
}

// Those whose transaction the engine ended have nothing kept, and are told so.
func TestUpdatesThatMeetAllFailWithTheirTransaction(t *testing.T) {
	db := open(t, temp(t))
	errs := together(t, db, put("a"),
		func(tx *Tx) error {
			if err := put("b")(tx); err != nil {
				return err
			}
			_, err := tx.in.tx.ExecContext(tx.ctx, "ROLLBACK") // as the engine does when the disk is full
			return err
		}, put("c"))
	for _, err := range errs {
		require.Error(t, err)
	}
	require.Equal(t, []bool{false, false, false}, settings(t, db, "a", "b", "c"))
	update(t, db, put("c"))
	require.Equal(t, []bool{false, false, true}, settings(t, db, "a", "b", "c"))
}

// A panic of one is its caller's; the others do not notice.
func TestAPanicInASharedTransaction(t *testing.T) {
	db := open(t, temp(t))
	caught := ""
	var all sync.WaitGroup
	gate := make(chan struct{})
	all.Go(func() { assert.NoError(t, db.Update(t.Context(), func(tx *Tx) error { <-gate; return put("a")(tx) })) })
	all.Go(func() {
		defer func() { caught = fmt.Sprint(recover()) }()
		_ = db.Update(t.Context(), func(tx *Tx) error { _ = put("b")(tx); panic("ouch") })
	})
	all.Go(func() { assert.NoError(t, db.Update(t.Context(), put("c"))) })
	close(gate)
	all.Wait()
	require.Contains(t, caught, "ouch")
	require.Contains(t, caught, "TestAPanicInASharedTransaction", "where it was")
	require.Equal(t, []bool{true, false, true}, settings(t, db, "a", "b", "c"))
}

// An update whose caller goes while it waits does not happen; one that has begun ends at its next change.
func TestUpdatesOfCallersThatGo(t *testing.T) {
	db := open(t, temp(t))
	ctx, cancel := context.WithCancel(t.Context())
	err := db.Update(t.Context(), func(tx *Tx) error {
		gone, leave := context.WithCancel(t.Context())
		leave()
		return db.Update(gone, put("a"))
	})
	require.ErrorIs(t, err, context.Canceled)
	err = db.Update(ctx, func(tx *Tx) error { _ = put("b")(tx); cancel(); return put("c")(tx) })
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, db.Update(ctx, put("d")), context.Canceled)
	require.Equal(t, []bool{false, false, false, false}, settings(t, db, "a", "b", "c", "d"))
}

// More updates than share a transaction at most all come to their end.
func TestManyUpdatesAtOnce(t *testing.T) {
	db := open(t, temp(t))
	fns := make([]func(*Tx) error, 3*maxGroup)
	keys := make([]string, len(fns))
	for i := range fns {
		keys[i] = fmt.Sprint(i)
		fns[i] = put(keys[i])
	}
	for _, err := range together(t, db, fns...) {
		require.NoError(t, err)
	}
	require.NotContains(t, settings(t, db, keys...), false)
}

func BenchmarkUpdatesAtOnce(b *testing.B) {
	db, err := Open(b.Context(), b.TempDir()+"/state.db")
	require.NoError(b, err)
	defer func() { require.NoError(b, db.Close()) }()
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := db.Update(b.Context(), func(tx *Tx) error {
				return tx.Audit("t", AuditRow{At: epoch, Actor: "a", Action: "b", Object: "c"})
			}); err != nil {
				b.Error(err)
			}
		}
	})
}
