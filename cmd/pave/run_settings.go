package main

import (
	"time"

	"pave/cmd/pave/internal/app"
)

// runSettings are the settings of how flows run, for serve and for every command that works on the data directory. They
// are left out of the help of each command; the README lists them.
type runSettings struct {
	RunsMaxConcurrent      int           `help:"Runs at a time; more are refused." env:"PAVE_RUNS_MAX_CONCURRENT" hidden:""`
	RunsMaxPerPrincipal    int           `help:"Runs of one principal at a time; more are refused." env:"PAVE_RUNS_MAX_PER_PRINCIPAL" hidden:""`
	RunsApprovalExpiry     time.Duration `help:"How long a run waits for an approval; 24h." env:"PAVE_RUNS_APPROVAL_EXPIRY" hidden:""`
	RunsKeepCheckpoints    time.Duration `help:"How long the encrypted checkpoints of failed and cancelled runs are kept, so that they can be resumed; not at all." env:"PAVE_RUNS_KEEP_CHECKPOINTS" hidden:""`
	RunsCheckpointKey      string        `help:"File of the 32 bytes that encrypt checkpoints; checkpoint.key of the data directory." env:"PAVE_RUNS_CHECKPOINT_KEY" hidden:""`
	RunsCacheTTL           time.Duration `help:"How long outputs of cacheable tools are taken again by runs of the same tenant; not at all." name:"runs-cache-ttl" env:"PAVE_RUNS_CACHE_TTL" hidden:""`
	RunsCacheEntries       int           `help:"Outputs in the cache; 10000." env:"PAVE_RUNS_CACHE_ENTRIES" hidden:""`
	RunsCacheBytes         int           `help:"Bytes of the outputs in the cache; 64 MiB." env:"PAVE_RUNS_CACHE_BYTES" hidden:""`
	RunsKernels            []string      `help:"Kernels of capability steps: PREFIX=URL." env:"PAVE_RUNS_KERNELS" hidden:""`
	RunsDecisionsURL       string        `help:"Endpoint that chooses among the candidate tools of a step." name:"runs-decisions-url" env:"PAVE_RUNS_DECISIONS_URL" hidden:""`
	RunsDecisionsTimeout   time.Duration `help:"How long a decision may take; 5s." env:"PAVE_RUNS_DECISIONS_TIMEOUT" hidden:""`
	RunsDecisionsMax       int           `help:"Decisions of one run; any number." name:"runs-decisions-max-per-run" env:"PAVE_RUNS_DECISIONS_MAX_PER_RUN" hidden:""`
	RunsDecisionsOnTimeout string        `help:"What a decision that is late does: ${enum}." env:"PAVE_RUNS_DECISIONS_ON_TIMEOUT" enum:"error,default" default:"error" hidden:""`
	TelemetryOTLPEndpoint  string        `help:"Receiver of OTLP/HTTP that finished runs are exported to as spans, such as http://127.0.0.1:4318/v1/traces; none." name:"telemetry-otlp-endpoint" env:"PAVE_TELEMETRY_OTLP_ENDPOINT" hidden:""`
	TelemetryOTLPHeaders   []string      `help:"Headers for it: NAME=VALUE, where {{secret:NAME}} stands for a secret." name:"telemetry-otlp-headers" env:"PAVE_TELEMETRY_OTLP_HEADERS" hidden:""`
	TelemetryOTLPValues    bool          `help:"Export arguments and results, too, redacted." name:"telemetry-otlp-values" env:"PAVE_TELEMETRY_OTLP_VALUES" hidden:""`
	PricesFile             string        `help:"Price table (YAML) in place of the built-in one." env:"PAVE_PRICES_FILE" hidden:""`
	PricesProvider         string        `help:"Provider of the model whose calls the flows replace." env:"PAVE_PRICES_PROVIDER" hidden:""`
	PricesModel            string        `help:"That model." env:"PAVE_PRICES_MODEL" hidden:""`
	PricesOutputFraction   float64       `help:"Share of output tokens in its blended price; 0.5." env:"PAVE_PRICES_OUTPUT_FRACTION" hidden:""`
}

func (s *runSettings) options() app.RunOptions {
	return app.RunOptions{MaxConcurrent: s.RunsMaxConcurrent, MaxPerPrincipal: s.RunsMaxPerPrincipal, ApprovalExpiry: s.RunsApprovalExpiry, KeepCheckpoints: s.RunsKeepCheckpoints,
		CheckpointKey: s.RunsCheckpointKey, CacheTTL: s.RunsCacheTTL, CacheEntries: s.RunsCacheEntries, CacheBytes: s.RunsCacheBytes,
		Kernels: s.RunsKernels,
		Decisions: app.Decisions{URL: s.RunsDecisionsURL, Timeout: s.RunsDecisionsTimeout, MaxPerRun: s.RunsDecisionsMax,
			OnTimeout: s.RunsDecisionsOnTimeout},
		Prices: app.Prices{File: s.PricesFile, Provider: s.PricesProvider, Model: s.PricesModel, OutputFraction: s.PricesOutputFraction}}
}

func (s *runSettings) telemetry() app.TelemetryOptions {
	return app.TelemetryOptions{Endpoint: s.TelemetryOTLPEndpoint, Headers: s.TelemetryOTLPHeaders, Values: s.TelemetryOTLPValues}
}
