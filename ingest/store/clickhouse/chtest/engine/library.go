//go:build linux && amd64

// Package engine runs the real ClickHouse engine inside a test process: libchdb.so, loaded at run time, behind an
// http.RoundTripper that clickhouse-go takes as its transport. The code under test uses the driver and the SQL that
// it uses against a server.
//
// It is for tests, benches and the demo; the product never imports it. Not covered by it: the native TCP protocol,
// TLS, authentication, quotas, asynchronous inserts and replicated or distributed tables.
package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Version is the release of the library that chtest/fetch installs.
const Version = "26.7.3-stable.1"

// ErrNoLibrary tells that the library is not on this machine.
var ErrNoLibrary = errors.New("ClickHouse engine library not found")

// Library returns the path of libchdb.so: PAVE_CHDB_LIB, else where chtest/fetch puts it in the user's cache.
// The error wraps ErrNoLibrary and says what would help.
func Library() (string, error) {
	if path := os.Getenv("PAVE_CHDB_LIB"); path != "" {
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("%w: PAVE_CHDB_LIB: %w", ErrNoLibrary, err)
		}
		return path, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("%w: no user cache directory: %w", ErrNoLibrary, err)
	}
	path := filepath.Join(cache, "pave", "chdb", Version, "libchdb.so")
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%w: run ingest/store/clickhouse/chtest/fetch (needs npm)", ErrNoLibrary)
	}
	return path, nil
}
