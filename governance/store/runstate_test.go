package store

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCheckpointsLiveAsLongAsTheyAreWanted(t *testing.T) {
	db := open(t, temp(t))
	update(t, db, func(tx *Tx) error {
		for _, id := range []string{"a", "b", "c"} {
			if err := tx.InsertCheckpoint("t", CheckpointRow{RunID: id, Begun: []byte("begun " + id)}); err != nil {
				return err
			}
		}
		require.ErrorIs(t, tx.InsertCheckpoint("t", CheckpointRow{RunID: "a", Begun: []byte("x")}), ErrExists)
		if err := tx.Reach("t", "a", []byte("reached")); err != nil {
			return err
		}
		if err := tx.ExpireCheckpoint("t", "b", epoch.Add(time.Hour)); err != nil {
			return err
		}
		return tx.DeleteCheckpoint("t", "c")
	})
	have := func() (ids []string) {
		view(t, db, func(r *Reader) error {
			for _, id := range []string{"a", "b", "c"} {
				if _, err := r.Checkpoint("t", id); err == nil {
					ids = append(ids, id)
				} else {
					require.ErrorIs(t, err, ErrNotFound)
				}
			}
			return nil
		})
		return ids
	}
	view(t, db, func(r *Reader) error {
		c, err := r.Checkpoint("t", "a")
		require.NoError(t, err)
		require.Equal(t, CheckpointRow{RunID: "a", Begun: []byte("begun a"), Reached: []byte("reached")}, c)
		_, err = r.Checkpoint("other", "a")
		require.ErrorIs(t, err, ErrNotFound)
		return nil
	})
	update(t, db, func(tx *Tx) error { return tx.Reach("t", "c", []byte("late")) })
	require.Equal(t, []string{"a", "b"}, have(), "a run that ended gets no checkpoint any more")
	update(t, db, func(tx *Tx) error { return tx.DropCheckpoints(epoch.Add(time.Hour - time.Second)) })
	require.Equal(t, []string{"a", "b"}, have())
	update(t, db, func(tx *Tx) error { return tx.DropCheckpoints(epoch.Add(time.Hour)) })
	require.Equal(t, []string{"a"}, have())
}

func TestApprovalsByRunAndExpiry(t *testing.T) {
	db := open(t, temp(t))
	row := ApprovalRow{RunID: "r", Step: "1", Decision: "pending", RequestedAt: epoch, ExpiresAt: epoch.Add(time.Hour), InputsMAC: []byte{1}, Body: []byte(`{}`)}
	second := row
	second.Step, second.ExpiresAt = "1.fallback", epoch.Add(2*time.Hour)
	update(t, db, func(tx *Tx) error {
		if err := tx.PutApproval("t", row); err != nil {
			return err
		}
		return tx.PutApproval("t", second)
	})
	view(t, db, func(r *Reader) error {
		got, err := r.Approval("t", "r", "1")
		require.NoError(t, err)
		require.Equal(t, row, got)
		_, err = r.Approval("t", "r", "2")
		require.ErrorIs(t, err, ErrNotFound)
		expired, err := r.ExpiredApprovals("t", epoch.Add(time.Hour), 10)
		require.NoError(t, err)
		require.Equal(t, []ApprovalRow{row}, expired)
		return nil
	})
	decided := row
	decided.Decision, decided.DecidedAt, decided.DecidedBy, decided.Reason = "approve", epoch.Add(time.Minute), "person:bob", "fine"
	update(t, db, func(tx *Tx) error {
		if err := tx.PutApproval("t", decided); err != nil {
			return err
		}
		return tx.DropPendingApprovals("t", "r")
	})
	view(t, db, func(r *Reader) error {
		all, err := r.Approvals("t", "r")
		require.NoError(t, err)
		require.Equal(t, []ApprovalRow{decided}, all)
		return nil
	})
}
