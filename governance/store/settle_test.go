package store

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What was replaced or deleted is in no page of the file and in no log after Settle.
func TestNothingOfWhatIsGoneStaysInTheFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	db, err := Open(t.Context(), path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	found := func(what string) (n int) {
		for _, file := range []string{path, path + "-wal"} {
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			n += bytes.Count(data, []byte(what))
		}
		return n
	}
	exec := func(query string, args ...any) {
		require.NoError(t, db.Update(t.Context(), func(tx *Tx) error { _, err := tx.exec(query, args...); return err }))
	}
	exec(`CREATE TABLE kept (id INTEGER PRIMARY KEY, body BLOB)`)
	long := strings.Repeat("a value of a session. ", 1000) // pages of its own
	exec(`INSERT INTO kept VALUES (1, ?)`, "first "+long)
	require.NoError(t, db.Settle(t.Context()))
	require.Positive(t, found("a value of a session"))
	exec(`UPDATE kept SET body = ? WHERE id = 1`, "second, short")
	exec(`INSERT INTO kept VALUES (2, ?)`, "a value of a session, short")
	exec(`DELETE FROM kept WHERE id = 2`)
	require.NoError(t, db.Settle(t.Context()))
	require.Zero(t, found("a value of a session"))
	require.Positive(t, found("second, short"))
}
