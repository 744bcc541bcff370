package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"pave/cmd/pave/internal/app"
)

// served is a `pave serve` over a data directory, in a process of its own.
type served struct {
	*child
	address string
	key     string
	client  *http.Client
}

func serveChild(ctx context.Context, env Env, dir, dsn string) (*served, error) {
	cmd := exec.CommandContext(ctx, env.Program, "serve", "--data-dir", dir, "--clickhouse", dsn, "--listen", "127.0.0.1:0", "--otlp-listen", "", "--otlp-grpc-listen", "",
		"--rate-requests", "0", "--log-level", "error", "--end-with-stdin")
	cmd.Env = append(os.Environ(), "PAVE_CONFIG=")
	cmd.Stderr = os.Stderr
	c, err := startChild(cmd)
	if err != nil {
		return nil, err
	}
	s := &served{child: c, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: memoryClients}}}
	if !c.ready(func(line string) bool {
		_, rest, ok := strings.Cut(line, "serving on ")
		s.address, _, _ = strings.Cut(rest, " ")
		return ok
	}) {
		return nil, errors.Join(errors.New("serve ended without its ready line"), s.stop())
	}
	if s.key, err = app.AdminKey(dir); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

// get reads a path; into nil drops the answer.
func (s *served) get(ctx context.Context, path string, into any) error {
	body, err := s.read(ctx, path)
	if err != nil || into == nil {
		return err
	}
	return json.Unmarshal(body, into)
}

func (s *served) read(ctx context.Context, path string) (_ []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.address+path, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+s.key)
	resp, err := s.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s answers %d: %s", path, resp.StatusCode, body)
	}
	return body, nil
}

// cpuOf is the CPU that the service used during f, to 10 ms.
func (s *served) cpuOf(f func() error) (time.Duration, error) { return cpuOf(s.cmd.Process.Pid, f) }

// memory is the resident set of the service, its heap as the last collection left it, and its goroutines.
func (s *served) memory(ctx context.Context) (rssMB, heapMB float64, goroutines int, err error) {
	if rssMB, err = residentMB(s.cmd.Process.Pid); err != nil {
		return 0, 0, 0, err
	}
	metrics, err := s.read(ctx, "/metrics")
	if err != nil {
		return 0, 0, 0, err
	}
	found := map[string]float64{}
	for line := range strings.Lines(string(metrics)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == "go_gc_heap_live_bytes" || name == "go_goroutines" {
			if found[name], err = strconv.ParseFloat(value, 64); err != nil {
				return 0, 0, 0, fmt.Errorf("metric %s: %w", name, err)
			}
		}
	}
	if len(found) != 2 {
		return 0, 0, 0, errors.New("the service does not tell its heap and goroutines")
	}
	return rssMB, found["go_gc_heap_live_bytes"] / (1 << 20), int(found["go_goroutines"]), nil
}

// cpuOf is the CPU that a process used during f, to 10 ms.
func cpuOf(pid int, f func() error) (time.Duration, error) {
	before, err := processCPU(pid)
	if err != nil {
		return 0, err
	}
	if err := f(); err != nil {
		return 0, err
	}
	after, err := processCPU(pid)
	return after - before, err
}

// processCPU reads the user and system time of a process where /proc has it.
func processCPU(pid int) (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("CPU of the process: %w", err)
	}
	_, rest, ok := strings.Cut(string(b), ") ") // the name may hold anything else
	fields := strings.Fields(rest)
	if !ok || len(fields) < 13 {
		return 0, errors.New("CPU of the process: no times")
	}
	ticks := int64(0)
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("CPU of the process: %w", err)
		}
		ticks += n
	}
	return time.Duration(ticks) * (time.Second / 100), nil // Linux counts in hundredths
}

func (s *served) stop() error {
	s.client.CloseIdleConnections()
	return s.end()
}
