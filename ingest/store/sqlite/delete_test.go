package sqlite

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"pave/ingest"
	"pave/ingest/store/storetest"
)

// What was deleted is in no byte of the files: blocks are written anew and old pages are overwritten.
func TestDeletedBytesAreGone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	s := openAt(t, path, Options{})
	// Random text does not compress: its bytes stand in the block as they are.
	random := make([]byte, 3000)
	_, _ = rand.Read(random)
	secret := hex.EncodeToString(random)
	call := storetest.ToolCall("trace:1", "somebody@example.com", 1)
	call.Call.Result = json.RawMessage(`"` + secret + `"`)
	kept := storetest.ToolCall("trace:2", "kept", 2)
	require.NoError(t, s.Append(t.Context(), tenant, []ingest.Event{call, kept}))
	block := func() []byte {
		var payload []byte
		require.NoError(t, s.read.QueryRow("SELECT payload FROM blocks").Scan(&payload))
		return payload
	}
	part := block()[200:264]
	holds := func(what []byte) (found bool) {
		for _, name := range []string{path, path + "-wal"} {
			raw, err := os.ReadFile(name)
			require.NoError(t, err)
			found = found || bytes.Contains(raw, what)
		}
		return found
	}
	require.True(t, holds(part))
	require.True(t, holds([]byte("somebody@example.com")))
	deleted, err := s.Delete(t.Context(), tenant, []string{"somebody@example.com"})
	require.NoError(t, err)
	require.EqualValues(t, 1, deleted.Events)
	require.False(t, holds(part))
	require.False(t, holds([]byte("somebody@example.com")))
	require.NoError(t, s.Events(t.Context(), tenant, []string{"kept"}, func(_ string, events []ingest.Event) error {
		require.Equal(t, []ingest.Event{kept}, events)
		return nil
	}))
}
