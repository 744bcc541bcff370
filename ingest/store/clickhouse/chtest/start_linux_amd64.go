package chtest

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"

	"pave/ingest/store/clickhouse/chtest/engine"
)

// connections is the size of the engine's pool: one store uses up to four at a time, tests run in parallel.
const connections = 8

func startEngine() (Server, func() error, error) {
	dir, err := os.MkdirTemp("", "pave-chtest-")
	if err != nil {
		return Server{}, stop, err
	}
	e, err := engine.Open(filepath.Join(dir, "data"), connections)
	if err != nil {
		return Server{}, stop, errors.Join(err, os.RemoveAll(dir))
	}
	server := Server{
		DSN:       "http://embedded/default",
		Transport: func(http.RoundTripper) http.RoundTripper { return e },
	}
	return server, func() error { return errors.Join(e.Close(), os.RemoveAll(dir)) }, nil
}
