package main

import (
	"encoding/json"
	"io"
	"os"

	"pave/cmd/pave/internal/bench"
	"pave/cmd/pave/internal/output"
)

type benchCmd struct {
	Ingest   benchIngestCmd   `cmd:"" help:"Recording with durable acknowledgement, from a sender process."`
	Mining   benchMiningCmd   `cmd:"" help:"Mining of generated calls from the store."`
	Replay   benchReplayCmd   `cmd:"" help:"Proposals scored on recorded sessions that they were not made from."`
	Planted  benchPlantedCmd  `cmd:"" help:"Planted flows found again in noisy logs."`
	Executor benchExecutorCmd `cmd:"" help:"Steps of flows whose tool adds one in process."`
	Analyzer benchAnalyzerCmd `cmd:"" help:"Compatible pairs, chains and flows from schemas of generated tools."`
	Tools    benchToolsCmd    `cmd:"" help:"Flows called over MCP and tools of workers, by processes of their own."`
	API      benchAPICmd      `cmd:"" name:"api" help:"Requests, the review list, reports and memory over a large installation."`
	Process  benchProcessCmd  `cmd:"" help:"Size of the binary, start time, idle memory."`
	Send     benchSendCmd     `cmd:"" hidden:"" help:"Send encoded calls to a server; the sender of bench ingest."`
	Call     benchCallCmd     `cmd:"" hidden:"" help:"Call a flow over MCP, or work for a pool; the clients of bench tools."`
}

type benchIngestCmd struct {
	Engine   string `help:"Engine: ${enum}." env:"PAVE_ENGINE" enum:"sqlite,clickhouse" default:"sqlite"`
	Dsn      string `help:"ClickHouse server; without it --chserver is started." env:"PAVE_DSN" placeholder:"DSN"`
	Chserver string `help:"Program that serves the ClickHouse library." env:"PAVE_CHSERVER" default:"bin/chserver" placeholder:"PROGRAM"`
	Calls    int    `help:"Calls per path." env:"PAVE_CALLS" default:"200000"`
	Data     string `help:"Folder of recorded sessions whose bytes on disk are measured; without it those of the generated calls." env:"PAVE_INGEST_DATA" type:"existingdir" placeholder:"DIR"`
}

// Run measures ingest.
func (c *benchIngestCmd) Run(e *env) error {
	return runBench(e, bench.Ingest{Engine: c.Engine, DSN: c.Dsn, Calls: c.Calls, Data: c.Data}, c.Chserver)
}

type benchMiningCmd struct {
	Calls     int  `help:"Calls to generate." env:"PAVE_CALLS" default:"1000000"`
	CountOnly bool `help:"Record sequences without values and leave out what needs values: for many calls." env:"PAVE_BENCH_COUNT_ONLY"`
}

// Run measures mining.
func (c *benchMiningCmd) Run(e *env) error {
	return runBench(e, bench.Mining{Calls: c.Calls, CountOnly: c.CountOnly}, "")
}

type benchReplayCmd struct {
	Data      string  `help:"Folder of recorded sessions, a file per domain." env:"PAVE_REPLAY_DATA" type:"existingdir" required:"" placeholder:"DIR"`
	Test      string  `help:"Folder of the same form to score on; without it the tasks of --data are split." env:"PAVE_TEST" type:"existingdir" placeholder:"DIR"`
	TrainFrac float64 `help:"Share of the tasks of --data to propose from." env:"PAVE_TRAIN_FRAC" default:"0.7"`
	Export    string  `help:"Folder to write the scored flows to." env:"PAVE_EXPORT" placeholder:"DIR"`
}

// Run scores proposals.
func (c *benchReplayCmd) Run(e *env) error {
	return runBench(e, bench.Replay{Data: c.Data, Test: c.Test, TrainFrac: c.TrainFrac, Export: c.Export}, "")
}

type benchPlantedCmd struct {
	Noise []float64 `help:"Rates of each of dropped, inserted and repeated steps." env:"PAVE_NOISE" default:"0,0.03,0.06,0.1,0.2" placeholder:"LIST"`
	Calls int       `help:"Calls of each log." env:"PAVE_CALLS" default:"1000000"`
}

// Run measures recovery.
func (c *benchPlantedCmd) Run(e *env) error {
	return runBench(e, bench.Planted{Noise: c.Noise, Calls: c.Calls}, "")
}

type benchExecutorCmd struct{}

// Run measures the executor.
func (benchExecutorCmd) Run(e *env) error { return runBench(e, bench.Executor{}, "") }

type benchAnalyzerCmd struct {
	Tools int `help:"Tools to generate." env:"PAVE_BENCH_TOOLS" default:"500"`
}

// Run measures the analyzer of schemas.
func (c *benchAnalyzerCmd) Run(e *env) error { return runBench(e, bench.Analyzer{Tools: c.Tools}, "") }

type benchAPICmd struct {
	Engine    string `help:"Engine: ${enum}." env:"PAVE_ENGINE" enum:"sqlite,clickhouse" default:"sqlite"`
	Dsn       string `help:"ClickHouse server, whose database is filled; without it --chserver is started." env:"PAVE_DSN" placeholder:"DSN"`
	Chserver  string `help:"Program that serves the ClickHouse library." env:"PAVE_CHSERVER" default:"bin/chserver" placeholder:"PROGRAM"`
	Calls     int    `help:"Recorded calls." env:"PAVE_CALLS" default:"10000000"`
	Proposals int    `help:"Proposals that wait." env:"PAVE_PROPOSALS" default:"10000"`
	Requests  int    `help:"Requests between the two looks at memory." env:"PAVE_REQUESTS" default:"100000"`
	Dir       string `help:"Folder to keep the installation in and to take it from the next time; without it, it is made and removed." env:"PAVE_BENCH_DIR" type:"path" placeholder:"DIR"`
}

// Run measures the API.
func (c *benchAPICmd) Run(e *env) error {
	return runBench(e, bench.API{Engine: c.Engine, DSN: c.Dsn, Calls: c.Calls, Proposals: c.Proposals, Requests: c.Requests, Dir: c.Dir}, c.Chserver)
}

type benchProcessCmd struct{}

// Run measures the process.
func (benchProcessCmd) Run(e *env) error { return runBench(e, bench.Process{}, "") }

type benchToolsCmd struct {
	Calls  int `help:"Calls over MCP, and as many in process and of a worker." env:"PAVE_CALLS" default:"21000"`
	Memory int `help:"Calls between the two looks at memory." env:"PAVE_BENCH_MEMORY_CALLS" default:"100000"`
}

// Run measures flows over MCP.
func (c *benchToolsCmd) Run(e *env) error {
	return runBench(e, bench.Tools{Calls: c.Calls, Memory: c.Memory}, "")
}

type benchCallCmd struct {
	URL     string `help:"Base of the server." required:""`
	Role    string `help:"What to be." enum:"agent,worker" required:""`
	AtATime int    `help:"Calls, or workers, at a time." required:""`
}

// Run calls.
func (c *benchCallCmd) Run(e *env) error {
	return bench.Caller{URL: c.URL, Key: e.g.Key, Role: c.Role, AtATime: c.AtATime}.Run(e.ctx, e.in, e.out)
}

type benchSendCmd struct {
	URL      string `help:"Base of the server." required:""`
	Path     string `help:"Way in." enum:"json,otlp_http,otlp_grpc" required:""`
	Requests int    `help:"Requests." required:""`
	Calls    int    `help:"Calls per request." required:""`
	Senders  int    `help:"Concurrent senders." required:""`
}

// Run sends.
func (c *benchSendCmd) Run(e *env) error {
	return bench.Send(e.ctx, bench.Load{URL: c.URL, Path: c.Path, Requests: c.Requests, Calls: c.Calls, Senders: c.Senders}, e.in, e.out)
}

// runBench runs one bench and prints its object; for people it is JSON with line breaks.
func runBench(e *env, b bench.Runner, chserver string) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	res, err := b.Run(e.ctx, bench.Env{Version: version, Program: program, CHServer: chserver, Progress: e.err})
	if err != nil {
		return err
	}
	doc, err := json.Marshal(res)
	if err != nil {
		return err
	}
	return e.print(doc, func(w io.Writer) error { return output.JSON(w, doc) })
}
