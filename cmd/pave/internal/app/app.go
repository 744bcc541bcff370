// Package app builds pave from its rooms: one struct that opens the stores and services in order and closes them in
// exactly the reverse. `pave serve`, every other command without a server, and tests use the same struct.
package app

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"pave/api"
	"pave/api/flowmcp"
	"pave/executor/bind"
	"pave/governance"
	"pave/governance/loop"
	"pave/governance/replays"
	"pave/governance/runs"
	"pave/governance/runs/telemetry"
	statestore "pave/governance/store"
	"pave/governance/watch"
	"pave/ingest"
	"pave/ingest/assembly"
	"pave/ingest/otlp"
	"pave/ingest/store"
)

// Options say how to open a data directory.
type Options struct {
	DataDir        string
	ClickHouse     string // DSN; "" keeps events in SQLite
	Solo           bool
	Alone          bool // no other process reaches this one, so that no worker can serve a tool
	Mining         loop.Settings
	EgressAllow    []string
	MCP            MCPOptions
	Runs           RunOptions
	Telemetry      TelemetryOptions
	Service        ServiceOptions
	NoAuth         bool         // requests without a key are LocalPrincipal's; for loopback listeners only
	LocalPrincipal string       // who this machine's user is, such as local:alice; "" is local:admin
	Logger         *slog.Logger // nil discards
	Version        string
	Revision       string
}

// App is an open data directory with everything over it. Serve may be called once; Close always.
type App struct {
	opts      Options
	log       *slog.Logger
	lock      *lock
	disk      *disk
	known     bool // the directory had a state before
	state     *statestore.DB
	events    store.Store
	gate      *governance.Service
	redact    *ingest.KeyRedactor
	cursorKey []byte
	// installation names the data directory in telemetry; it follows from its redaction key and does not give it away.
	installation string
	telemetry    *telemetry.Exporter // nil: runs are not exported
	record       *ingest.Recorder
	receiver     *otlp.Handler
	received     *prometheus.CounterVec
	refused      *prometheus.CounterVec
	letters      prometheus.Collector
	expired      *prometheus.CounterVec
	losses       api.Losses
	dead         *deadLetters
	rates        *ingest.RateLimiter
	limits       ingest.Limits // that ingest.yaml sets; zero fields are the defaults
	inFlight     *ingest.InFlight
	egress       *bind.Egress // of webhooks; tools have one of the same list
	tools        *reach
	flowTools    *flowmcp.Server
	flowNames    *flowNames
	runs         *runs.Service
	loop         *loop.Loop
	watcher      *watch.Watcher
	assembler    *assembly.Assembler
	api          *api.Server
	undo         []func() error // closes what is open, last first
}

// Open opens the data directory, made when it is not there. A directory that another process has is a *HeldError.
func Open(ctx context.Context, opts Options) (*App, error) {
	if opts.LocalPrincipal == "" {
		opts.LocalPrincipal = "local:admin"
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	a := &App{opts: opts, log: opts.Logger}
	for _, step := range []func(context.Context) error{
		a.openDirectory, a.openState, a.openEvents, a.openRecorder, a.openGovernance, a.openRuns, a.openLoop, a.openMCP, a.openAPI,
	} {
		if err := step(ctx); err != nil {
			return nil, errors.Join(err, a.Close())
		}
	}
	return a, nil
}

// Handler is the whole API.
func (a *App) Handler() http.Handler { return a.api }

// Engine names the event store's engine.
func (a *App) Engine() string {
	if a.opts.ClickHouse != "" {
		return "clickhouse"
	}
	return "sqlite"
}

// Close closes everything that Open opened, in reverse order.
func (a *App) Close() error {
	var errs []error
	for i := len(a.undo) - 1; i >= 0; i-- {
		errs = append(errs, a.undo[i]())
	}
	a.undo = nil
	return errors.Join(errs...)
}

func (a *App) defers(fn func() error) { a.undo = append(a.undo, fn) }

func (a *App) openDirectory(ctx context.Context) error {
	if err := os.MkdirAll(a.opts.DataDir, 0o700); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	held, err := acquire(ctx, a.opts.DataDir, func(h Holder) {
		a.log.WarnContext(ctx, "another process has the data directory; waiting for it", "data_dir", a.opts.DataDir, "process", h.PID)
	})
	if err != nil {
		return err
	}
	a.lock, a.disk = held, watchDisk(a.opts.DataDir)
	a.defers(held.release)
	return nil
}

func (a *App) openState(ctx context.Context) (err error) {
	a.known = exists(filepath.Join(a.opts.DataDir, stateFile))
	if a.state, err = statestore.Open(ctx, filepath.Join(a.opts.DataDir, stateFile)); err != nil {
		return err
	}
	a.defers(a.state.Close)
	return nil
}

func (a *App) openRecorder(context.Context) error {
	key, err := redactionKey(a.opts.DataDir)
	if err != nil {
		return err
	}
	own, err := IngestConfig(a.opts.DataDir)
	if err != nil {
		return err
	}
	a.cursorKey = derivedKey(key, "cursors")
	a.installation = hex.EncodeToString(derivedKey(key, "installation")[:8])
	a.expired = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "pave_retention_deleted_total",
		Help: "What was deleted because it was older than the retention, by kind."}, []string{"kind"})
	a.redact = ingest.NewRedactor(key, own.Secrets)
	a.assembler = assembly.New(a.events, assembly.Options{Assembled: func(tenant string, sessions int) {
		if a.loop != nil { // nothing is assembled before it is open but by a test
			a.loop.Assembled(tenant, sessions)
		}
	}, Wrote: func(tenant string, sessions []string) {
		if a.watcher != nil { // as the loop
			a.watcher.Seen(tenant, sessions)
		}
	}})
	a.flowNames = newFlowNames(a.opts.MCP.Prefix)
	a.record = ingest.NewRecorder(a.events, ingest.RecorderOptions{Limits: own.Limits, Classify: a.flowNames.classify, Redactor: a.redact, Policy: own.Policy, Admit: a.disk.admit, Committed: a.assembler.Committed})
	a.defers(a.record.Close)
	return a.openReceiver(own, key)
}

func (a *App) openGovernance(ctx context.Context) error {
	var err error
	if a.egress, err = bind.NewEgress(a.opts.EgressAllow); err != nil {
		return err
	}
	a.gate = governance.New(governance.Options{Store: a.state, Check: runs.Check, Stats: a.events, Replayer: replays.Checker{Events: a.events},
		Reachable: a.egress.CheckURL, Solo: a.opts.Solo, Logger: a.log})
	a.watcher = watch.New(a.gate, a.events, a.log)
	if err := a.gate.Start(ctx, ingest.DefaultTenant); err != nil {
		return err
	}
	path, created, err := a.gate.EnsureAdminKey(ctx, a.opts.DataDir, a.opts.LocalPrincipal)
	if created {
		a.log.InfoContext(ctx, "wrote an admin key", "file", path)
	}
	return err
}

func (a *App) openLoop(context.Context) error {
	a.loop = loop.New(loop.Options{Queue: a.gate, Assembler: a.assembler, Events: a.events, Settings: a.opts.Mining, Logger: a.log})
	a.defers(a.loop.Close)
	return nil
}

func (a *App) openAPI(context.Context) (err error) {
	proxies, err := parseProxies(a.opts.Service.TrustedProxies)
	if err != nil {
		return err
	}
	a.api, err = api.New(api.Deps{
		Recorder: a.record, Proposals: a.gate, Flows: a.gate, Tools: a.gate, Runs: a.runs, Workers: a.tools.workers, Discovery: &discovery{a.tools.mcp, a.gate}, MCP: a.flowTools, Mining: &miner{a.loop, a.watcher}, Passes: a.gate,
		Discuss: a.gate, Keys: a.gate, Admin: a.gate, Reports: a.gate, Walks: &walks{events: a.events},
		Sessions:  a.sessions(),
		Deletions: &deletions{gate: a.gate, from: a.sessions()}, Redaction: a.redact,
		Status:      &status{gate: a.gate, events: a.events, disk: a.disk, keep: a.opts.Service.Retention},
		DeadLetters: a.dead, Losses: &a.losses, Rates: a.rates,
		Webhooks: a.gate, Once: a.gate,
		OTLP: api.OTLP{Traces: a.receiver.Traces(), Logs: a.receiver.Logs(), Metrics: a.receiver.Metrics()},
	}, api.Options{NoAuth: a.opts.NoAuth, LocalPrincipal: a.opts.LocalPrincipal, Logger: a.log, Version: a.opts.Version, Revision: a.opts.Revision,
		Limits: a.limits, InFlight: a.inFlight, Rates: a.opts.Service.Rates, TrustedProxies: proxies, CursorKey: a.cursorKey})
	if err != nil {
		return err
	}
	if a.telemetry != nil {
		if err := a.api.Registry().Register(a.telemetry); err != nil {
			return err
		}
	}
	return errors.Join(a.api.Registry().Register(a.received), a.api.Registry().Register(a.refused), a.api.Registry().Register(a.letters),
		a.api.Registry().Register(a.expired),
		a.api.Registry().Register(&workerMetrics{a.tools.workers}))
}

func (a *App) sessions() *sessions {
	return &sessions{events: a.events, assembler: a.assembler, loader: assembly.Loader{Store: a.events}, runs: a.runs, loop: a.loop}
}

// AdminKey reads the admin key of a data directory, which its owner may.
func AdminKey(dir string) (string, error) {
	raw, err := os.ReadFile(filepath.Join(dir, governance.AdminKeyFile))
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(raw)), nil
}

// newID makes the ids of runs and traces: time-ordered, 32 hex digits.
func newID() string {
	id, err := uuid.NewV7()
	if err != nil {
		panic(fmt.Sprintf("random source: %v", err)) // the system has no randomness: nothing can go on
	}
	return strings.ReplaceAll(id.String(), "-", "")
}
