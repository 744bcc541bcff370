//go:build linux && amd64

package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"
)

// Engine is one running ClickHouse with a pool of connections. It is an http.RoundTripper for clickhouse-go and, by
// Handler, an HTTP server. Safe for concurrent use; keep one per process for its whole life.
type Engine struct {
	lock    *flock.Flock
	keep    *conn // keeps the engine alive between pooled statements
	pool    chan *session
	opened  int            // sessions in the pool or in use
	queries sync.WaitGroup // results being streamed
}

// session is a pooled connection with what was changed on it.
type session struct {
	conn     *conn
	database string
	changed  []string // settings to put back
}

// Open starts the engine on a data directory (created when missing) with a pool of the given size. Only one process
// may hold a directory.
func Open(dir string, connections int) (*Engine, error) {
	path, err := Library()
	if err != nil {
		return nil, err
	}
	lib, err := load(path)
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	lock := flock.New(dir + ".lock")
	if ok, err := lock.TryLock(); err != nil || !ok {
		return nil, errors.Join(fmt.Errorf("the ClickHouse data directory %s is in use by another process", dir), err)
	}
	e := &Engine{lock: lock, pool: make(chan *session, connections)}
	// All connections are opened before serving: each connect touches the process's signal handlers.
	if e.keep, err = dial(lib, "--path="+dir); err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	for range connections {
		c, err := dial(lib, "--path="+dir)
		if err != nil {
			return nil, errors.Join(err, e.Close())
		}
		e.opened++
		e.pool <- &session{conn: c, database: "default"}
	}
	return e, nil
}

// closeWait bounds how long Close waits for results that nobody reads.
const closeWait = 10 * time.Second

// Close waits for running statements and stops the engine. When one does not end within ten seconds the engine is
// left running, for freeing a connection under it would kill the process.
func (e *Engine) Close() error {
	deadline := time.NewTimer(closeWait)
	defer deadline.Stop()
	for range e.opened {
		select {
		case s := <-e.pool:
			s.conn.close()
		case <-deadline.C:
			return errors.New("a ClickHouse statement is still running; the engine stays open")
		}
	}
	e.queries.Wait()
	e.keep.close()
	return e.lock.Unlock()
}

func (e *Engine) acquire(ctx context.Context) (*session, error) {
	select {
	case s := <-e.pool:
		return s, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// release puts settings back to their defaults and the session into the pool.
func (e *Engine) release(s *session) {
	if len(s.changed) > 0 {
		// A setting that the engine refused has nothing to put back; its error was answered already.
		_ = s.conn.exec("SET " + strings.Join(s.changed, "=DEFAULT, ") + "=DEFAULT")
		s.changed = s.changed[:0]
	}
	e.pool <- s
}

// Handler serves the engine over HTTP as a ClickHouse server does. A result that fails after its first bytes aborts
// the connection, so that no client takes a truncated result for a complete one.
func (e *Engine) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/ping" || (r.Method == http.MethodGet && r.URL.RawQuery == "") {
			_, _ = io.WriteString(w, "Ok.\n") // a client that left needs no answer
			return
		}
		res, err := e.RoundTrip(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		defer res.Body.Close()
		for name, values := range res.Header {
			w.Header()[name] = values
		}
		w.WriteHeader(res.StatusCode)
		if _, err := io.Copy(w, res.Body); err != nil {
			panic(http.ErrAbortHandler)
		}
	})
}
