package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"pave/api"
	"pave/cmd/pave/internal/app"
)

// API measures what clients of the API feel: what a request costs beside a bare echo handler, how long the review list and
// the reports take over a large installation, and the memory of the service over many requests.
type API struct {
	Engine    string // sqlite or clickhouse
	DSN       string // ClickHouse server; "" starts Env.CHServer
	Calls     int    // recorded, in sessions of sessionCalls
	Proposals int    // that wait
	Requests  int    // between the two looks at memory
}

// APIResult is `pave bench api`.
type APIResult struct {
	Head
	Engine    string `json:"engine"`
	Calls     int    `json:"calls"`
	Sessions  int    `json:"sessions"`
	Runs      int    `json:"runs"`
	Proposals int    `json:"proposals"`
	// RequestOverhead is CPU a request, without the network; bare_echo and pave answer the same bytes.
	RequestOverhead APIOverhead `json:"request_overhead_cpu_us"`
	// Times are from the request to the whole answer over HTTP, of a `pave serve` of its own.
	ReviewListP95MS float64            `json:"review_list_p95_ms"`
	ReviewListMS    float64            `json:"review_list_median_ms"`
	ReviewListCPUMS float64            `json:"review_list_cpu_ms"` // of the service, a request
	ReportP95MS     map[string]float64 `json:"report_p95_ms"`
	ReportMS        map[string]float64 `json:"report_median_ms"`
	ReportCPUMS     map[string]float64 `json:"report_cpu_ms"` // of the service, a request
	Memory          APIMemory          `json:"memory"`
}

// APIOverhead compares requests that need a key and pass the whole stack with handlers of echo alone.
type APIOverhead struct {
	BareEcho float64 `json:"bare_echo"`
	Pave     float64 `json:"pave"`       // a document of the program
	PaveList float64 `json:"pave_reads"` // an empty list from the state store
}

// APIMemory is the resident set of the service before and after requests.
type APIMemory struct {
	Requests   int     `json:"requests"`
	RSSMBStart float64 `json:"rss_mb_start"`
	RSSMBEnd   float64 `json:"rss_mb_end"`
}

const (
	overheadRequests = 20_000
	overheadRounds   = 5
	listRequests     = 200
	reportRequests   = 20
	warmUpRequests   = 2_000
	memoryClients    = 4
)

// Run implements Runner.
func (b API) Run(ctx context.Context, env Env) (_ any, err error) {
	dir, err := os.MkdirTemp("", "pave-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	res := APIResult{Head: env.head("api"), Engine: b.Engine, Proposals: b.Proposals}
	env.note("%d requests without a network", overheadRequests*overheadRounds)
	if res.RequestOverhead, err = overhead(ctx, env, filepath.Join(dir, "empty")); err != nil {
		return nil, err
	}
	dsn, stop, err := Ingest{Engine: b.Engine, DSN: b.DSN}.engine(ctx, env, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	seed := installation{dir: filepath.Join(dir, "data"), dsn: dsn, calls: b.Calls, proposals: b.Proposals, note: env.note}
	if err := seed.fill(ctx); err != nil {
		return nil, fmt.Errorf("fill the installation: %w", err)
	}
	res.Calls, res.Sessions, res.Runs = seed.sessions()*sessionCalls, seed.sessions(), seed.runs()
	s, err := serveChild(ctx, env, seed.dir, dsn)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	if err := b.latency(ctx, env, s, &res); err != nil {
		return nil, err
	}
	env.note("memory over %d requests", b.Requests)
	res.Memory, err = b.memory(ctx, s)
	return res, err
}

// overhead measures rounds of both handlers in turn and takes the medians.
func overhead(ctx context.Context, env Env, dir string) (res APIOverhead, err error) {
	a, err := app.Open(ctx, app.Options{DataDir: dir, Logger: slog.New(slog.DiscardHandler), Version: env.Version})
	if err != nil {
		return res, err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	key, err := app.AdminKey(dir)
	if err != nil {
		return res, err
	}
	const document, list = "/api/v1/schemas/flow", "/api/v1/capabilities"
	ask := func(h http.Handler, path string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1"+path, nil)
		r.Header.Set("Authorization", "Bearer "+key)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	first := ask(a.Handler(), document)
	bare := api.Bare(document, first.Header().Get("Content-Type"), first.Body.Bytes())
	took := make([][]float64, 3)
	for round := range overheadRounds + 1 {
		for i, of := range []struct {
			handler http.Handler
			path    string
		}{{bare, document}, {a.Handler(), document}, {a.Handler(), list}} {
			used, _, err := measure(func() error {
				for range overheadRequests {
					if w := ask(of.handler, of.path); w.Code != http.StatusOK {
						return fmt.Errorf("%s answers %d: %s", of.path, w.Code, w.Body)
					}
				}
				return ctx.Err()
			})
			if err != nil {
				return res, err
			}
			if round > 0 { // the first one warms up
				took[i] = append(took[i], used.Seconds()*1e6/overheadRequests)
			}
		}
	}
	res.BareEcho, res.Pave, res.PaveList = median(took[0]), median(took[1]), median(took[2])
	return res, nil
}

// latency asks for the review list page by page, and for each report.
func (b API) latency(ctx context.Context, env Env, s *served, res *APIResult) (err error) {
	env.note("the review list")
	var cursor string
	used, err := s.cpuOf(func() error {
		res.ReviewListP95MS, res.ReviewListMS, err = times(listRequests, func(i int) error {
			sort := []string{"rank", "savings", "created", "score"}[i/50%4]
			if i%50 == 0 {
				cursor = ""
			}
			var page struct {
				Items      []json.RawMessage `json:"items"`
				NextCursor string            `json:"next_cursor"`
			}
			if err := s.get(ctx, "/api/v1/proposals?state=open&sort="+sort+"&cursor="+cursor, &page); err != nil {
				return err
			}
			if len(page.Items) == 0 && b.Proposals > 0 {
				return errors.New("the review list is empty")
			}
			cursor = page.NextCursor
			return nil
		})
		return err
	})
	if err != nil {
		return err
	}
	res.ReviewListCPUMS = used.Seconds() * 1000 / listRequests
	res.ReportP95MS, res.ReportMS, res.ReportCPUMS = map[string]float64{}, map[string]float64{}, map[string]float64{}
	for _, report := range []string{"savings", "savings-by-day", "coverage", "drift", "reliability", "adoption", "activity"} {
		env.note("the report %s", report)
		name := strings.ReplaceAll(report, "-", "_")
		used, err := s.cpuOf(func() error {
			res.ReportP95MS[name], res.ReportMS[name], err = times(reportRequests, func(int) error {
				var answer map[string]any
				return s.get(ctx, "/api/v1/reports/"+report, &answer)
			})
			return err
		})
		if err != nil {
			return err
		}
		res.ReportCPUMS[name] = used.Seconds() * 1000 / reportRequests
	}
	return nil
}

// times calls f so often and returns the 95th percentile and the median of its wall time, in milliseconds.
func times(n int, f func(i int) error) (p95, middle float64, err error) {
	took := make([]float64, n)
	for i := range took {
		began := time.Now()
		if err := f(i); err != nil {
			return 0, 0, err
		}
		took[i] = float64(time.Since(began).Microseconds()) / 1000
	}
	slices.Sort(took)
	return took[(n*95+99)/100-1], took[n/2], nil
}

// memory lets a few clients read what the web UI reads.
func (b API) memory(ctx context.Context, s *served) (res APIMemory, err error) {
	paths := []string{"/api/v1/proposals?limit=20", "/api/v1/flows?limit=20", "/api/v1/sessions?limit=20", "/api/v1/runs?limit=20", "/api/v1/tools?limit=20", "/api/v1/policies"}
	ask := func(n int) error {
		var left atomic.Int64
		left.Store(int64(n))
		errs := make(chan error, memoryClients)
		var all sync.WaitGroup
		for range memoryClients {
			all.Go(func() {
				for i := left.Add(-1); i >= 0; i = left.Add(-1) {
					if err := s.get(ctx, paths[int(i)%len(paths)], nil); err != nil {
						errs <- err
						return
					}
				}
			})
		}
		all.Wait()
		close(errs)
		return <-errs
	}
	if err := ask(warmUpRequests); err != nil {
		return res, err
	}
	if res.RSSMBStart, err = residentMB(s.cmd.Process.Pid); err != nil {
		return res, err
	}
	if err := ask(b.Requests); err != nil {
		return res, err
	}
	res.Requests = b.Requests
	res.RSSMBEnd, err = residentMB(s.cmd.Process.Pid)
	return res, err
}

// served is a `pave serve` over a data directory, in a process of its own.
type served struct {
	cmd     *exec.Cmd
	in      io.Closer
	address string
	key     string
	client  *http.Client
}

func serveChild(ctx context.Context, env Env, dir, dsn string) (*served, error) {
	cmd := exec.CommandContext(ctx, env.Program, "serve", "--data-dir", dir, "--clickhouse", dsn, "--listen", "127.0.0.1:0", "--otlp-listen", "", "--otlp-grpc-listen", "",
		"--rate-requests", "0", "--log-level", "error", "--end-with-stdin")
	cmd.Env = append(os.Environ(), "PAVE_CONFIG=")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &served{cmd: cmd, in: in, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: memoryClients}}}
	lines := bufio.NewScanner(out)
	for s.address == "" && lines.Scan() {
		if _, rest, ok := strings.Cut(lines.Text(), "serving on "); ok {
			s.address, _, _ = strings.Cut(rest, " ")
		}
	}
	if s.address == "" {
		return nil, errors.Join(errors.New("serve ended without its ready line"), s.stop())
	}
	go func() { _, _ = io.Copy(io.Discard, out) }() // ends with the process
	if s.key, err = app.AdminKey(dir); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

// get reads a path; into nil drops the answer.
func (s *served) get(ctx context.Context, path string, into any) (err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.address+path, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+s.key)
	resp, err := s.client.Do(r)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s answers %d: %s", path, resp.StatusCode, body)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(body, into)
}

// cpuOf is the CPU that the service used during f, to 10 ms.
func (s *served) cpuOf(f func() error) (time.Duration, error) {
	before, err := processCPU(s.cmd.Process.Pid)
	if err != nil {
		return 0, err
	}
	if err := f(); err != nil {
		return 0, err
	}
	after, err := processCPU(s.cmd.Process.Pid)
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
	return errors.Join(s.in.Close(), s.cmd.Wait())
}
