//go:build linux && amd64

package main

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"pave/ingest"
	"pave/ingest/store/clickhouse"
	"pave/ingest/store/clickhouse/chtest/engine"
	"pave/ingest/store/storetest"
)

// childEnv makes the test binary the server itself.
const childEnv = "PAVE_CHSERVER_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) == "1" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

type child struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	dsn   string
}

func start(t *testing.T, args ...string) child {
	t.Helper()
	if _, err := engine.Library(); err != nil {
		if os.Getenv("PAVE_REQUIRE_CLICKHOUSE") == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), childEnv+"=1")
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	return child{cmd: cmd, stdin: stdin, dsn: strings.TrimSpace(line)}
}

// TestServesAStoreOverRestarts stores through one server, ended by a signal, and reads through the next, ended by its
// parent's pipe.
func TestServesAStoreOverRestarts(t *testing.T) {
	dir := t.TempDir()
	want := []ingest.Event{storetest.ToolCall("trace:a", "", 1), storetest.LLMCall("trace:a", "", 2)}
	first := start(t, "-data", filepath.Join(dir, "ch"))
	cfg := clickhouse.Config{DSN: first.dsn, SpoolPath: filepath.Join(dir, "spool.db")}
	s, err := clickhouse.Open(t.Context(), cfg)
	require.NoError(t, err)
	require.NoError(t, s.Append(t.Context(), ingest.DefaultTenant, want))
	require.NoError(t, s.Ping(t.Context()))
	require.NoError(t, s.Close())
	require.NoError(t, first.cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, first.cmd.Wait(), "a clean exit")

	second := start(t, "-data", filepath.Join(dir, "ch"))
	cfg.DSN = second.dsn
	s, err = clickhouse.Open(t.Context(), cfg)
	require.NoError(t, err)
	var got []ingest.Event
	require.NoError(t, s.Events(t.Context(), ingest.DefaultTenant, []string{"trace:a"}, func(_ string, events []ingest.Event) error {
		got = events
		return nil
	}))
	require.Equal(t, want, got)
	require.NoError(t, s.Close())
	require.NoError(t, second.stdin.Close())
	ended := make(chan error, 1)
	go func() { ended <- second.cmd.Wait() }()
	select {
	case err := <-ended:
		require.NoError(t, err)
	case <-time.After(30 * time.Second):
		require.NoError(t, errors.Join(second.cmd.Process.Kill(), <-ended))
		t.Fatal("the server outlived the end of its standard input")
	}
}

func TestRefusesOtherAddresses(t *testing.T) {
	require.ErrorContains(t, run("0.0.0.0:0", "", 1), "not a loopback address")
}
