package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"pave/cmd/pave/internal/app"
)

// Ingest measures recording with durable acknowledgement: this process serves, a child process sends.
type Ingest struct {
	Engine string // sqlite or clickhouse
	DSN    string // ClickHouse server; "" starts Env.CHServer
	Calls  int    // per path
	Data   string // folder of recorded sessions to store for the bytes on disk; "" takes the generated calls
}

// IngestResult is `pave bench ingest`.
type IngestResult struct {
	Head
	Engine           string       `json:"engine"`
	Paths            []IngestPath `json:"paths"`
	DiskBytesPerCall float64      `json:"disk_bytes_per_call"` // event store / tool calls, sessions assembled; with ClickHouse the spool only
	PeakRSSMB        float64      `json:"peak_rss_mb"`         // of this process, which serves
}

// IngestPath is one way in.
type IngestPath struct {
	Name           string   `json:"name"`
	Calls          int      `json:"calls"`
	CallsPerCPUS   float64  `json:"calls_per_cpu_s"`
	CallsPerWallS  float64  `json:"calls_per_wall_s"`
	AckP99MS       float64  `json:"ack_p99_ms"`
	CPUUsPerCall   float64  `json:"cpu_us_per_call"`
	CPUUs          StageCPU `json:"cpu_us"`
	CallsPerAppend int      `json:"calls_per_request"`
}

const (
	callsPerRequest = 500
	ingestSenders   = 8
)

// Run implements Runner.
func (b Ingest) Run(ctx context.Context, env Env) (_ any, err error) {
	if err := atLeast("--calls", b.Calls, 1); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "pave-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	engine, err := startEngine(ctx, env, b.Engine, b.DSN, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, engine.stop()) }()
	dsn := engine.dsn
	res := IngestResult{Head: env.head("ingest"), Engine: b.Engine}
	for _, path := range []string{pathJSON, pathHTTP, pathGRPC, pathFile} {
		env.note("%s: %d calls into %s", path, b.Calls, b.Engine)
		data := filepath.Join(dir, path)
		one, err := b.path(ctx, env, data, dsn, path)
		if err != nil {
			return nil, err
		}
		if one.CPUUs, err = stages(ctx, path, dir, min(b.Calls, stageCalls)); err != nil {
			return nil, err
		}
		res.Paths = append(res.Paths, one)
		if path == pathHTTP {
			if res.DiskBytesPerCall, err = eventBytes(data, one.Calls); err != nil {
				return nil, err
			}
		}
	}
	res.PeakRSSMB = peakRSS()
	if b.Data != "" {
		env.note("recorded sessions of %s", b.Data)
		data := filepath.Join(dir, "recorded")
		calls, _, err := importChild(ctx, env, data, dsn, b.Data)
		if err != nil {
			return nil, err
		}
		if res.DiskBytesPerCall, err = eventBytes(data, calls); err != nil {
			return nil, err
		}
	}
	return res, nil
}

// stageCalls bounds the calls of which the stages are measured.
const stageCalls = 50_000

// eventFiles are the event store's in a data directory: the database, or what waits for ClickHouse.
var eventFiles = []string{"events.db*", "spool.db*"}

// eventBytes is the size of the event store for each of the calls.
func eventBytes(dir string, calls int) (float64, error) {
	size := int64(0)
	for _, pattern := range eventFiles {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return 0, err
		}
		for _, f := range files {
			info, err := os.Stat(f)
			if err != nil {
				return 0, err
			}
			size += info.Size()
		}
	}
	return float64(size) / float64(max(1, calls)), nil
}

// importChild imports a path with the command of that name in a process of its own, and returns the tool calls and the CPU
// that it took.
func importChild(ctx context.Context, env Env, data, dsn, path string) (calls int, used time.Duration, err error) {
	cmd := exec.CommandContext(ctx, env.Program, "--data-dir", data, "--clickhouse", dsn, "-o", "json", "import", path)
	cmd.Env = append(os.Environ(), "PAVE_CONFIG=")
	cmd.Stderr = env.Progress
	out, err := cmd.Output()
	if err != nil {
		return 0, 0, fmt.Errorf("import: %w", err)
	}
	var sum struct {
		ToolCalls int `json:"tool_calls"`
	}
	if err := json.Unmarshal(out, &sum); err != nil {
		return 0, 0, err
	}
	return sum.ToolCalls, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), nil
}

// file measures the import of a file: its CPU includes the start of the process, and sessions are assembled.
func (b Ingest) file(ctx context.Context, env Env, data, dsn string) (res IngestPath, err error) {
	requests := max(1, b.Calls/callsPerRequest)
	bodies, err := Load{Path: pathFile, Calls: callsPerRequest}.bodies(rand.New(rand.NewPCG(7, 7)), requests)
	if err != nil {
		return res, err
	}
	name := data + ".jsonl"
	if err := os.WriteFile(name, bytes.Join(bodies, nil), 0o600); err != nil {
		return res, err
	}
	began := time.Now()
	calls, used, err := importChild(ctx, env, data, dsn, name)
	if err != nil {
		return res, err
	}
	n := float64(calls)
	return IngestPath{Name: pathFile, Calls: calls, CallsPerCPUS: n / used.Seconds(), CallsPerWallS: n / time.Since(began).Seconds(),
		CPUUsPerCall: used.Seconds() * 1e6 / n, CallsPerAppend: callsPerRequest}, nil
}

// listen serves one way in on a port of this machine.
func listen(a *app.App, path string) (target string, stop func() error, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	if path == pathGRPC {
		rpc := a.GRPC()
		go rpc.Serve(l)
		return l.Addr().String(), func() error { rpc.Stop(); return nil }, nil
	}
	srv := &http.Server{Handler: a.Handler(), ReadHeaderTimeout: 5 * time.Second}
	go srv.Serve(l)
	return "http://" + l.Addr().String(), srv.Close, nil
}

func (b Ingest) path(ctx context.Context, env Env, data, dsn, path string) (res IngestPath, err error) {
	if path == pathFile {
		return b.file(ctx, env, data, dsn)
	}
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
	target, stop, err := listen(a, path)
	if err != nil {
		return res, err
	}
	defer func() { _ = stop() }() // the second time, when all went well

	requests := max(1, b.Calls/callsPerRequest)
	cmd := exec.CommandContext(ctx, env.Program, "bench", "send", "--url", target, "--path", path,
		"--requests", fmt.Sprint(requests), "--calls", fmt.Sprint(callsPerRequest), "--senders", fmt.Sprint(ingestSenders))
	cmd.Stderr = os.Stderr
	sender, err := startChild(cmd)
	if err != nil {
		return res, err
	}
	lines := sender.lines
	lines.Scan() // ready
	var sent Sent
	used, _, err := measure(func() error {
		if _, err := sender.in.Write([]byte("\n")); err != nil {
			return err
		}
		if !lines.Scan() {
			return errors.Join(errors.New("the sender ended early"), sender.end())
		}
		if err := json.Unmarshal(lines.Bytes(), &sent); err != nil {
			return err
		}
		// What was acknowledged is not all the work: closing writes back the log, or ships what is in the spool.
		closed = true
		return errors.Join(stop(), a.Close())
	})
	if err != nil {
		return res, err
	}
	if err := sender.end(); err != nil {
		return res, err
	}
	calls := float64(sent.Calls)
	return IngestPath{Name: path, Calls: sent.Calls, CallsPerCPUS: calls / used.Seconds(), CallsPerWallS: calls / sent.WallS,
		AckP99MS: sent.AckP99MS, CPUUsPerCall: used.Seconds() * 1e6 / calls, CallsPerAppend: callsPerRequest}, nil
}
