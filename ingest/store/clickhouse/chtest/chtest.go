// Package chtest gives tests a real ClickHouse: the server of PAVE_TEST_CLICKHOUSE_DSN, else the engine of package
// engine inside the test process. Where neither can be had, tests skip with the reason; with
// PAVE_REQUIRE_CLICKHOUSE=1 they fail instead.
package chtest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// Server is where a test finds its own, empty database.
type Server struct {
	// DSN names the database.
	DSN string
	// Transport replaces the HTTP transport that the driver would use; nil when it is to use its own.
	Transport func(http.RoundTripper) http.RoundTripper
}

// connect opens the driver on a server.
func (s Server) connect() (clickhouse.Conn, error) {
	opt, err := clickhouse.ParseDSN(s.DSN)
	if err != nil {
		return nil, err
	}
	if s.Transport != nil {
		opt.TransportFunc = func(t *http.Transport) (http.RoundTripper, error) { return s.Transport(t), nil }
	}
	return clickhouse.Open(opt)
}

var (
	start     sync.Once
	base      Server // its default database
	baseErr   error
	stop      = func() error { return nil }
	databases atomic.Int64
)

// Open returns a database of the test's own and drops it when the test ends. All tests of a binary share one
// server; see Exit.
func Open(t testing.TB) Server {
	t.Helper()
	start.Do(func() { base, stop, baseErr = connectOrStart() })
	if baseErr != nil {
		if os.Getenv("PAVE_REQUIRE_CLICKHOUSE") == "1" {
			t.Fatalf("PAVE_REQUIRE_CLICKHOUSE=1 and no ClickHouse: %v", baseErr)
		}
		t.Skipf("no ClickHouse for this test: %v", baseErr)
	}
	conn, err := base.connect()
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("pave_test_%d_%d", os.Getpid(), databases.Add(1))
	if err := conn.Exec(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatalf("create the test's database: %v", err)
	}
	t.Cleanup(func() {
		err := conn.Exec(context.Background(), "DROP DATABASE "+name+" SYNC")
		if err = errors.Join(err, conn.Close()); err != nil {
			t.Errorf("drop the test's database: %v", err)
		}
	})
	dsn, err := url.Parse(base.DSN)
	if err != nil {
		t.Fatal(err)
	}
	dsn.Path = "/" + name
	return Server{DSN: dsn.String(), Transport: base.Transport}
}

// Exit stops the engine, when one was started, and ends the process. A test binary calls it last, as in
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.Cleanup(chtest.Exit)) }
func Exit(code int) {
	if err := stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop ClickHouse:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func connectOrStart() (Server, func() error, error) {
	if dsn := os.Getenv("PAVE_TEST_CLICKHOUSE_DSN"); dsn != "" {
		return Server{DSN: dsn}, stop, nil
	}
	return startEngine()
}
