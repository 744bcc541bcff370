package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"pave/ingest/store"
	"pave/ingest/store/sqlite"
	"pave/ingest/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	paths := map[store.Store]string{}
	open := func(t *testing.T, path string) store.Store {
		s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
		require.NoError(t, err)
		paths[s] = path
		return s
	}
	storetest.Exercise(t,
		func(t *testing.T) store.Store { return open(t, filepath.Join(t.TempDir(), "events.db")) },
		storetest.Capabilities{Reopen: func(t *testing.T, s store.Store) store.Store {
			require.NoError(t, s.Close())
			return open(t, paths[s])
		}})
}
