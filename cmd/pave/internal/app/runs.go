package app

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"pave/executor"
	bindhttp "pave/executor/bind/http"
	"pave/governance/runs"
	"pave/ingest"
)

// RunOptions configure how flows run. The zero value is the default.
type RunOptions struct {
	MaxConcurrent   int           // 0: runs.DefaultMaxConcurrent
	MaxPerPrincipal int           // 0: runs.DefaultMaxPerPrincipal
	ApprovalExpiry  time.Duration // 0: runs.DefaultApprovalExpiry
	KeepCheckpoints time.Duration // of failed and cancelled runs; 0: not at all
	CheckpointKey   string        // file of 32 bytes; "": checkpoint.key of the data directory
	CacheTTL        time.Duration // 0: outputs of tools are not cached
	CacheEntries    int           // 0: the default of executor.CacheLimits
	CacheBytes      int
	Decisions       Decisions
	Kernels         []string // of capability steps: PREFIX=URL
	Prices          Prices
}

// Decisions say who chooses among the candidate tools of a step.
type Decisions struct {
	URL       string        // "": nobody; steps call their own tool
	Timeout   time.Duration // 0: DefaultDecisionTimeout
	MaxPerRun int           // 0: no bound
	OnTimeout string        // executor.OnTimeoutError ("") or OnTimeoutDefault
}

// DefaultDecisionTimeout is how long a decision may take.
const DefaultDecisionTimeout = 5 * time.Second

// Check lists what is wrong with the options, by the keys of the settings file.
func (o *RunOptions) Check() (problems []string) {
	if _, err := o.Prices.profile(); err != nil {
		problems = append(problems, err.Error())
	}
	if _, err := o.kernels(); err != nil {
		problems = append(problems, "runs.kernels: "+err.Error())
	}
	if o.Decisions.URL != "" {
		if err := bindhttp.CheckURL(o.Decisions.URL); err != nil {
			problems = append(problems, "runs.decisions.url: "+err.Error())
		}
	}
	if o.CheckpointKey != "" {
		if info, err := os.Stat(o.CheckpointKey); err != nil || info.Size() != runs.VaultKeySize {
			problems = append(problems, fmt.Sprintf("runs.checkpoint_key: %s is not a file of %d bytes", o.CheckpointKey, runs.VaultKeySize))
		}
	}
	for _, least := range []struct {
		key   string
		value int64
	}{{"runs.max_concurrent", int64(o.MaxConcurrent)}, {"runs.max_per_principal", int64(o.MaxPerPrincipal)}, {"runs.approval_expiry", int64(o.ApprovalExpiry)}, {"runs.keep_checkpoints", int64(o.KeepCheckpoints)},
		{"runs.cache.ttl", int64(o.CacheTTL)}, {"runs.cache.entries", int64(o.CacheEntries)}, {"runs.cache.bytes", int64(o.CacheBytes)},
		{"runs.decisions.timeout", int64(o.Decisions.Timeout)}, {"runs.decisions.max_per_run", int64(o.Decisions.MaxPerRun)}} {
		if least.value < 0 {
			problems = append(problems, least.key+": must not be negative")
		}
	}
	return problems
}

// kernels reads PREFIX=URL.
func (o *RunOptions) kernels() (map[string]string, error) {
	out := make(map[string]string, len(o.Kernels))
	for _, entry := range o.Kernels {
		prefix, url, ok := strings.Cut(entry, "=")
		if !ok {
			return nil, fmt.Errorf("%q is not PREFIX=URL, such as crm.=http://127.0.0.1:9000", entry)
		}
		if err := bindhttp.CheckURL(url); err != nil {
			return nil, err
		}
		out[prefix] = url
	}
	return out, nil
}

// seams are the parts of the engine that the options ask for.
func (o *RunOptions) seams(web *bindhttp.Invoker, e *executor.Options) error {
	kernels, err := o.kernels()
	if err != nil {
		return err
	}
	if len(kernels) > 0 {
		e.Kernel = bindhttp.NewKernel(web, kernels)
	}
	if o.Decisions.URL != "" {
		e.Decider = bindhttp.NewDecider(web, o.Decisions.URL)
		e.Decisions = executor.DecisionPolicy{Timeout: o.Decisions.Timeout, MaxPerFlow: o.Decisions.MaxPerRun, OnTimeout: o.Decisions.OnTimeout}
		if e.Decisions.Timeout <= 0 {
			e.Decisions.Timeout = DefaultDecisionTimeout
		}
	}
	if o.CacheTTL > 0 {
		e.Cache = executor.NewMemoryCache(executor.CacheLimits{Entries: o.CacheEntries, Bytes: o.CacheBytes, TTL: o.CacheTTL}, e.Now)
	}
	return nil
}

func (a *App) openRuns(ctx context.Context) error {
	tools, err := newReach(a.opts)
	if err != nil {
		return err
	}
	a.tools = tools
	tools.servers.gate, tools.servers.log = a.gate, a.log.Warn
	a.defers(func() error { tools.close(); return nil })
	o := &a.opts.Runs
	seal, err := vault(a.opts.DataDir, o.CheckpointKey)
	if err != nil {
		return err
	}
	profile, err := o.Prices.profile()
	if err != nil {
		return err
	}
	engine := executor.Options{Invoker: tools.Invoker, Logger: a.log, Now: time.Now, NewID: newID, CostProfile: &profile,
		Jitter: func() float64 { return 0.5 + rand.Float64() }}
	if err := o.seams(tools.web, &engine); err != nil {
		return err
	}
	exporter, err := a.openTelemetry(ctx)
	if err != nil {
		return err
	}
	a.runs = runs.New(runs.Options{Gate: a.gate, Catalogue: a.gate, Store: a.state, Outbox: a.gate, Archive: a.events, Exporter: exporter, Recorder: a.record, Redactor: a.redact,
		Vault: seal, MaxConcurrent: o.MaxConcurrent, MaxPerPrincipal: o.MaxPerPrincipal, ApprovalExpiry: o.ApprovalExpiry, KeepCheckpoints: o.KeepCheckpoints, Logger: a.log, Engine: engine})
	a.defers(a.runs.Close)
	tools.builtins.RunFlows(a.runs.RunFlow)
	interrupted, err := a.runs.Start(ctx, ingest.DefaultTenant)
	if interrupted > 0 {
		a.log.WarnContext(ctx, "runs were interrupted when an earlier process ended", "runs", interrupted)
	}
	return err
}

// approvalsEvery is how often approvals that nobody decided are looked for.
const approvalsEvery = 5 * time.Second

// tendRuns goes on with what a crash interrupted, and ends what waits too long, until ctx ends.
func (a *App) tendRuns(ctx context.Context) {
	resumed, err := a.runs.Recover(ctx, ingest.DefaultTenant)
	if err != nil {
		a.log.ErrorContext(ctx, "resume interrupted runs", "error", err)
	}
	if resumed > 0 {
		a.log.InfoContext(ctx, "resumed interrupted runs", "runs", resumed)
	}
	tick := time.NewTicker(approvalsEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := a.runs.ExpireApprovals(ctx, ingest.DefaultTenant); err != nil && ctx.Err() == nil {
				a.log.WarnContext(ctx, "expire approvals", "error", err)
			}
		}
	}
}
