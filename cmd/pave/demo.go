package main

import (
	"os"

	"pave/cmd/pave/internal/demo"
)

type demoCmd struct {
	Play    demoPlayCmd    `cmd:"" default:"withargs" help:"Play the whole loop on this machine, with real processes, and end."`
	Desk    demoDeskCmd    `cmd:"" hidden:"" help:"Serve the support desk of the demo."`
	Carrier demoCarrierCmd `cmd:"" hidden:"" help:"Serve a tool of the demo over MCP."`
	Worker  demoWorkerCmd  `cmd:"" hidden:"" help:"Serve a tool of the demo as a worker."`
}

type demoPlayCmd struct {
	Chserver string `help:"Program that serves the ClickHouse library; the demo starts it and uses it as event store." env:"PAVE_CHSERVER" placeholder:"PROGRAM"`
	Tickets  int    `help:"Tickets that the agents work." env:"PAVE_TICKETS" default:"420"`
	Runs     int    `help:"Runs of each promoted flow on fresh tickets." env:"PAVE_DEMO_RUNS" default:"20"`
	Keep     bool   `help:"Keep the data directory." env:"PAVE_KEEP"`
}

// Run plays the demo.
func (c *demoPlayCmd) Run(e *env) error {
	if c.Tickets < 1 || c.Runs < 1 {
		return errUsage("--tickets and --runs are counts from 1")
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	return demo.Run(e.ctx, demo.Options{Program: program, ClickHouse: e.g.Clickhouse, CHServer: c.Chserver,
		Tickets: c.Tickets, RunsEach: c.Runs, Keep: c.Keep, Out: e.out})
}

type demoDeskCmd struct {
	Listen string `help:"Address." env:"PAVE_LISTEN" default:"127.0.0.1:0"`
	Seed   uint64 `help:"Number that the world is made from." env:"PAVE_SEED" default:"1"`
}

// Run serves the desk until it is told to end.
func (c *demoDeskCmd) Run(e *env) error { return demo.ServeDesk(e.ctx, c.Listen, c.Seed, e.in, e.out) }

type demoCarrierCmd struct {
	Listen string `help:"Address." env:"PAVE_LISTEN" default:"127.0.0.1:0"`
	Desk   string `help:"Address of the desk." env:"PAVE_DEMO_DESK" required:""`
}

// Run serves until it is told to end.
func (c *demoCarrierCmd) Run(e *env) error {
	return demo.ServeCarrier(e.ctx, c.Listen, c.Desk, e.in, e.out)
}

type demoWorkerCmd struct {
	Desk string `help:"Address of the desk." env:"PAVE_DEMO_DESK" required:""`
}

// Run serves until it is told to end.
func (c *demoWorkerCmd) Run(e *env) error {
	return demo.ServePayments(e.ctx, e.g.Server, e.g.Key, c.Desk, e.in, e.out)
}
