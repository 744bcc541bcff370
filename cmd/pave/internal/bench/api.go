package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
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
	Dir       string // keeps the installation for the next time; "" makes one and removes it
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
	// Of the ClickHouse server that this bench started, a request.
	ReportEngineCPUMS map[string]float64 `json:"report_engine_cpu_ms,omitempty"`
	// The first request of each report, before those that the figures above are of: the caches are empty.
	ReportFirstMS    map[string]float64 `json:"report_first_ms"`
	ReportFirstCPUMS map[string]float64 `json:"report_first_cpu_ms"` // of the service and of a server that was started
	Memory           APIMemory          `json:"memory"`
}

// APIOverhead compares requests that need a key and pass the whole stack with handlers of echo alone.
type APIOverhead struct {
	BareEcho float64 `json:"bare_echo"`
	Pave     float64 `json:"pave"`       // a document of the program
	PaveList float64 `json:"pave_reads"` // an empty list from the state store
}

// APIMemory is the memory of the service before and after requests; the heap is what lived at the last collection.
type APIMemory struct {
	Requests int `json:"requests"`
	MemoryMB
	GoroutinesStart int `json:"goroutines_start"`
	GoroutinesEnd   int `json:"goroutines_end"`
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
	if err := cmp.Or(atLeast("--calls", b.Calls, 1), atLeast("--proposals", b.Proposals, 0), atLeast("--requests", b.Requests, 1)); err != nil {
		return nil, err
	}
	temporary, err := os.MkdirTemp("", "pave-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temporary)) }()
	res := APIResult{Head: env.head("api"), Engine: b.Engine, Proposals: b.Proposals}
	env.note("%d requests without a network", overheadRequests*overheadRounds)
	if res.RequestOverhead, err = overhead(ctx, env, filepath.Join(temporary, "empty")); err != nil {
		return nil, err
	}
	dir := cmp.Or(b.Dir, temporary)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	engine, err := startEngine(ctx, env, b.Engine, b.DSN, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, engine.stop()) }()
	seed := installation{dir: filepath.Join(dir, "data"), dsn: engine.dsn, calls: b.Calls, proposals: b.Proposals, note: env.note}
	if err := seed.ensure(ctx); err != nil {
		return nil, err
	}
	res.Calls, res.Sessions, res.Runs = seed.sessions()*sessionCalls, seed.sessions(), seed.runs()
	s, err := serveChild(ctx, env, seed.dir, seed.dsn)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	if err := b.latency(ctx, env, s, engine, &res); err != nil {
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
func (b API) latency(ctx context.Context, env Env, s *served, engine *engineServer, res *APIResult) (err error) {
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
	return b.reports(ctx, env, s, engine, res)
}

// reports asks for each report once, and then again and again.
func (b API) reports(ctx context.Context, env Env, s *served, engine *engineServer, res *APIResult) error {
	for _, figures := range []*map[string]float64{&res.ReportP95MS, &res.ReportMS, &res.ReportCPUMS, &res.ReportFirstMS, &res.ReportFirstCPUMS} {
		*figures = map[string]float64{}
	}
	if engine.pid != 0 {
		res.ReportEngineCPUMS = map[string]float64{}
	}
	for _, report := range []string{"savings", "savings-by-day", "coverage", "drift", "reliability", "adoption", "activity"} {
		env.note("the report %s", report)
		name := strings.ReplaceAll(report, "-", "_")
		ask := func(n int) (p95, middle, cpuMS, engineMS float64, err error) {
			var used, ofEngine time.Duration
			ofEngine, err = engine.cpuOf(func() (err error) {
				used, err = s.cpuOf(func() (err error) {
					p95, middle, err = times(n, func(int) error {
						var answer map[string]any
						return s.get(ctx, "/api/v1/reports/"+report, &answer)
					})
					return err
				})
				return err
			})
			return p95, middle, used.Seconds() * 1000 / float64(n), ofEngine.Seconds() * 1000 / float64(n), err
		}
		first, _, used, ofEngine, err := ask(1)
		if err != nil {
			return err
		}
		res.ReportFirstMS[name], res.ReportFirstCPUMS[name] = first, used+ofEngine
		if res.ReportP95MS[name], res.ReportMS[name], res.ReportCPUMS[name], ofEngine, err = ask(reportRequests); err != nil {
			return err
		}
		if engine.pid != 0 {
			res.ReportEngineCPUMS[name] = ofEngine
		}
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
	if res.RSSMBStart, res.HeapMBStart, res.GoroutinesStart, err = s.memory(ctx); err != nil {
		return res, err
	}
	if err := ask(b.Requests); err != nil {
		return res, err
	}
	res.Requests = b.Requests
	res.RSSMBEnd, res.HeapMBEnd, res.GoroutinesEnd, err = s.memory(ctx)
	return res, err
}
