package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	"pave/api/gen"
	"pave/cmd/pave/internal/output"
	"pave/executor"
	"pave/flows"
)

type workersCmd struct {
	List workersListCmd `cmd:"" default:"1" help:"List the pools of tools that live in other processes, and what waits in them."`
	Run  workersRunCmd  `cmd:"" help:"Serve a pool with programs of this machine, until interrupted."`
}

type workersListCmd struct{}

// Run lists pools.
func (c *workersListCmd) Run(e *env) error {
	return e.withClient(func(cl *client) error {
		resp, err := check(cl.ListWorkerPoolsWithResponse(e.ctx))
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error {
			t := output.NewTable(w, "POOL", "QUEUED", "OLDEST", "LEASED", "WORKERS", "POLLED", "GIVEN", "EXPIRED")
			t.Otherwise("no pool; one is there once a tool's binding names it and a worker asks for its calls")
			for _, p := range resp.JSON200.Items {
				oldest := time.Duration(p.OldestMs) * time.Millisecond
				t.Row(p.Pool, fmt.Sprint(p.Queued), oldest.Round(100*time.Millisecond).String(), fmt.Sprint(p.Leased), dash(strings.Join(p.Workers, " ")),
					when(p.PolledAt), fmt.Sprint(p.Given), fmt.Sprint(p.Expired))
			}
			return t.Flush()
		})
	})
}

type workersRunCmd struct {
	Pool   string            `arg:"" help:"The pool that the tools' bindings name."`
	Tool   map[string]string `help:"A tool and the program that serves it: it reads the input as JSON on standard input and prints its result as JSON." env:"PAVE_TOOL" placeholder:"NAME=PROGRAM" required:""`
	Worker string            `help:"Name of this worker." env:"PAVE_WORKER" placeholder:"NAME"`
}

// Run takes calls one after another until it is interrupted.
func (c *workersRunCmd) Run(e *env) error {
	for name, program := range c.Tool {
		if _, err := exec.LookPath(program); err != nil {
			return errUsage(fmt.Sprintf("--tool %s: %v", output.Clean(name), err))
		}
	}
	return e.withClient(func(cl *client) error {
		if cl.local {
			return errUsage("workers take their calls from a server; start one with pave serve, or name it with --server")
		}
		poll := gen.WorkerPoll{Worker: c.Worker}
		for name := range c.Tool {
			poll.Tools = append(poll.Tools, name)
		}
		fmt.Fprintf(e.err, "pave: serving pool %s with %d tools; Ctrl-C ends it\n", output.Clean(c.Pool), len(c.Tool))
		for e.ctx.Err() == nil {
			resp, err := check(cl.PollWorkerPoolWithResponse(e.ctx, c.Pool, poll))
			switch {
			case e.ctx.Err() != nil:
				return nil
			case flows.CodeOf(err) == flows.CodeUnavailable:
				fmt.Fprintf(e.err, "pave: %v; trying again\n", err)
				select {
				case <-e.ctx.Done():
				case <-time.After(2 * time.Second):
				}
				continue
			case err != nil:
				return err
			case resp.JSON200 == nil:
				continue
			}
			call := *resp.JSON200
			status, err := c.serve(e, cl, call)
			if err != nil {
				status = err.Error()
			}
			fmt.Fprintf(e.out, "%s %s: %s\n", call.ID, output.Clean(call.Tool), output.Clean(status))
		}
		return nil
	})
}

// heartbeatEvery is well within the shortest lease that the service gives.
const heartbeatEvery = 10 * time.Second

// serve runs the program of one call and answers it. A call whose run ended ends its program.
func (c *workersRunCmd) serve(e *env, cl *client, call gen.WorkerCall) (status string, err error) {
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(heartbeatEvery):
			}
			if lease, err := check(cl.RenewWorkerCallWithResponse(ctx, call.ID)); err == nil && lease.JSON200.Cancelled {
				cancel()
			}
		}
	}()
	cmd := exec.CommandContext(ctx, c.Tool[call.Tool])
	var out, said bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(call.Input), &out, &said
	failure := cmd.Run()
	if failure == nil && !json.Valid(out.Bytes()) {
		failure = fmt.Errorf("the program printed no JSON")
	}
	if failure == nil {
		return c.complete(e, cl, call, out.Bytes())
	}
	message := strings.TrimSpace(said.String())
	if message == "" {
		message = failure.Error()
	}
	return c.fail(e, cl, call, "", message)
}

// complete answers with a result. One that the service does not take is answered as an error at once: the call has happened,
// and nobody is to wait until its lease has run out.
func (c *workersRunCmd) complete(e *env, cl *client, call gen.WorkerCall, result []byte) (status string, err error) {
	_, err = check(cl.CompleteWorkerCallWithResponse(context.WithoutCancel(e.ctx), call.ID, gen.WorkerResult{Result: result}))
	switch flows.CodeOf(err) {
	case flows.CodeTooLarge:
		return c.fail(e, cl, call, executor.CodeOutputTooLarge, fmt.Sprintf("the result of tool '%s' has %d bytes, more than a request to pave may have: %v", call.Tool, len(result), err))
	case flows.CodeInvalid:
		return c.fail(e, cl, call, "invalid_answer", fmt.Sprintf("pave does not take the result of tool '%s': %v", call.Tool, err))
	}
	return "ok", err
}

// fail answers with an error. An answer is given also when the worker is told to stop.
func (c *workersRunCmd) fail(e *env, cl *client, call gen.WorkerCall, code, message string) (status string, err error) {
	_, err = check(cl.FailWorkerCallWithResponse(context.WithoutCancel(e.ctx), call.ID,
		gen.WorkerFailure{Code: code, Message: strings.ToValidUTF8(message[:min(len(message), 4096)], "")}))
	return "failed: " + message, err
}
