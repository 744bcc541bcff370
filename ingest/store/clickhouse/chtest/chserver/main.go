//go:build linux && amd64

// Command chserver serves the ClickHouse engine of package engine over HTTP on loopback, for benches, the demo and
// end-to-end tests. It prints the DSN and runs until SIGTERM, SIGINT, or the end of its standard input, so that it
// does not outlive the process that started it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"pave/ingest/store/clickhouse/chtest/engine"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "loopback address; port 0 takes a free one")
	data := flag.String("data", "", "data directory; empty: a temporary one, removed at exit")
	connections := flag.Int("connections", 8, "statements that run at a time")
	flag.Parse()
	if err := run(*listen, *data, *connections); err != nil {
		fmt.Fprintln(os.Stderr, "chserver:", err)
		os.Exit(1)
	}
}

func run(listen, data string, connections int) (err error) {
	if data == "" {
		dir, err := os.MkdirTemp("", "pave-chserver-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		data = filepath.Join(dir, "data")
	}
	if err := os.MkdirAll(filepath.Dir(data), 0o700); err != nil {
		return err
	}
	addr, err := net.ResolveTCPAddr("tcp", listen)
	if err != nil {
		return err
	}
	if !addr.IP.IsLoopback() {
		return fmt.Errorf("%s is not a loopback address: this server has no authentication", listen)
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // its end is all that matters
		cancel()
	}()
	e, err := engine.Open(data, connections)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	listener, err := net.ListenTCP("tcp", addr)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: e.Handler(), ReadHeaderTimeout: 5 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	fmt.Printf("http://%s/default\n", listener.Addr())
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	grace, end := context.WithTimeout(context.Background(), 5*time.Second)
	defer end()
	if err := server.Shutdown(grace); err != nil {
		return errors.Join(err, server.Close())
	}
	return nil
}
