package clickhouse_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"pave/ingest/store"
	"pave/ingest/store/clickhouse"
	"pave/ingest/store/clickhouse/chtest"
	"pave/ingest/store/storetest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(chtest.Exit))
}

// config is a store of the test's own: an empty database and an empty spool.
func config(t testing.TB) clickhouse.Config {
	t.Helper()
	server := chtest.Open(t)
	return clickhouse.Config{DSN: server.DSN, Transport: server.Transport, SpoolPath: filepath.Join(t.TempDir(), "spool.db")}
}

func open(t testing.TB, cfg clickhouse.Config) *clickhouse.Store {
	t.Helper()
	s, err := clickhouse.Open(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func TestConformance(t *testing.T) {
	configs := map[store.Store]clickhouse.Config{}
	storetest.Exercise(t, func(t *testing.T) store.Store {
		cfg := config(t)
		s := open(t, cfg)
		configs[s] = cfg
		return s
	}, storetest.Capabilities{Reopen: func(t *testing.T, s store.Store) store.Store {
		require.NoError(t, s.Close())
		return open(t, configs[s])
	}})
}
