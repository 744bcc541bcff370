package app

import (
	"testing"

	"go.uber.org/goleak"

	"pave/ingest/store/clickhouse/chtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.Cleanup(chtest.Exit)) }
