package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"pave/cmd/pave/internal/app"
)

// Ingest measures recording with durable acknowledgement: this process serves, a child process sends.
type Ingest struct {
	Engine string // sqlite or clickhouse
	DSN    string // ClickHouse server; "" starts Env.CHServer
	Calls  int    // per path
}

// IngestResult is `pave bench ingest`.
type IngestResult struct {
	Head
	Engine           string       `json:"engine"`
	Paths            []IngestPath `json:"paths"`
	DiskBytesPerCall float64      `json:"disk_bytes_per_call"` // data directory / calls; with ClickHouse the spool only
}

// IngestPath is one way in.
type IngestPath struct {
	Name           string  `json:"name"`
	Calls          int     `json:"calls"`
	CallsPerCPUS   float64 `json:"calls_per_cpu_s"`
	CallsPerWallS  float64 `json:"calls_per_wall_s"`
	AckP99MS       float64 `json:"ack_p99_ms"`
	CPUUsPerCall   float64 `json:"cpu_us_per_call"`
	CallsPerAppend int     `json:"calls_per_request"`
}

const (
	callsPerRequest = 500
	ingestSenders   = 8
)

// Run implements Runner.
func (b Ingest) Run(ctx context.Context, env Env) (_ any, err error) {
	dir, err := os.MkdirTemp("", "pave-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	dsn, stop, err := b.engine(ctx, env, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	res := IngestResult{Head: env.head("ingest"), Engine: b.Engine}
	for _, path := range []string{"json", "otlp_http"} {
		env.note("%s: %d calls into %s", path, b.Calls, b.Engine)
		data := filepath.Join(dir, path)
		one, err := b.path(ctx, env, data, dsn, path)
		if err != nil {
			return nil, err
		}
		res.Paths = append(res.Paths, one)
		size, err := diskBytes(data)
		if err != nil {
			return nil, err
		}
		res.DiskBytesPerCall = float64(size) / float64(one.Calls)
	}
	return res, nil
}

// engine returns the DSN to use, "" for SQLite, and what stops a server that was started.
func (b Ingest) engine(ctx context.Context, env Env, dir string) (string, func() error, error) {
	nothing := func() error { return nil }
	switch {
	case b.Engine == "sqlite":
		return "", nothing, nil
	case b.Engine != "clickhouse":
		return "", nil, fmt.Errorf("unknown engine %q: sqlite or clickhouse", b.Engine)
	case b.DSN != "":
		return b.DSN, nothing, nil
	case env.CHServer == "":
		return "", nil, errors.New("ClickHouse needs --dsn, or --chserver with the library fetched: make chdb bin/chserver")
	}
	cmd := exec.CommandContext(ctx, env.CHServer, "--data", filepath.Join(dir, "clickhouse"))
	in, err := cmd.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop := func() error { return errors.Join(in.Close(), cmd.Wait()) } // it ends when its input closes
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if i := strings.Index(lines.Text(), "http"); i >= 0 {
			go func() { // keep the pipe empty
				for lines.Scan() {
				}
			}()
			return strings.TrimSpace(lines.Text()[i:]), stop, nil
		}
	}
	return "", nil, errors.Join(errors.New("the ClickHouse server did not start"), stop())
}

func (b Ingest) path(ctx context.Context, env Env, data, dsn, path string) (res IngestPath, err error) {
	a, err := app.Open(ctx, app.Options{DataDir: data, ClickHouse: dsn, NoAuth: true, Logger: slog.New(slog.DiscardHandler), Version: env.Version})
	if err != nil {
		return res, err
	}
	closed := false
	defer func() {
		if !closed {
			err = errors.Join(err, a.Close())
		}
	}()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return res, err
	}
	srv := &http.Server{Handler: a.Handler(), ReadHeaderTimeout: 5 * time.Second}
	go srv.Serve(l)
	defer srv.Close()

	requests := max(1, b.Calls/callsPerRequest)
	cmd := exec.CommandContext(ctx, env.Program, "bench", "send", "--url", "http://"+l.Addr().String(), "--path", path,
		"--requests", fmt.Sprint(requests), "--calls", fmt.Sprint(callsPerRequest), "--senders", fmt.Sprint(ingestSenders))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return res, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return res, err
	}
	if err := cmd.Start(); err != nil {
		return res, err
	}
	lines := bufio.NewScanner(out)
	lines.Scan() // ready
	var sent Sent
	used, _, err := measure(func() error {
		if _, err := in.Write([]byte("\n")); err != nil {
			return err
		}
		if !lines.Scan() {
			return errors.Join(errors.New("the sender ended early"), cmd.Wait())
		}
		if err := json.Unmarshal(lines.Bytes(), &sent); err != nil {
			return err
		}
		// What was acknowledged is not all the work: closing writes back the log, or ships what is in the spool.
		closed = true
		return errors.Join(srv.Close(), a.Close())
	})
	if err != nil {
		return res, err
	}
	if err := cmd.Wait(); err != nil {
		return res, err
	}
	calls := float64(sent.Calls)
	return IngestPath{Name: path, Calls: sent.Calls, CallsPerCPUS: calls / used.Seconds(), CallsPerWallS: calls / sent.WallS,
		AckP99MS: sent.AckP99MS, CPUUsPerCall: used.Seconds() * 1e6 / calls, CallsPerAppend: callsPerRequest}, nil
}

func diskBytes(dir string) (n int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			n += info.Size()
		}
		return err
	})
	return n, err
}
