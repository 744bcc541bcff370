package app

import (
	"context"
	"fmt"
	"time"

	"pave/executor"
	bindhttp "pave/executor/bind/http"
	bindlocal "pave/executor/bind/local"
	bindmcp "pave/executor/bind/mcp"
	"pave/executor/bind/worker"
	"pave/flows"
)

// reach is how steps reach their tools.
type reach struct {
	executor.Invoker
	web      *bindhttp.Invoker
	builtins *bindlocal.Registry
	workers  *worker.Pools
	mcp      *bindmcp.Binding
	servers  *directory
	close    func()
}

func newReach(opts Options) (*reach, error) {
	web, err := bindhttp.New(bindhttp.Options{Secret: secrets(opts.DataDir), EgressAllow: opts.EgressAllow})
	if err != nil {
		return nil, err
	}
	servers := &directory{log: func(string, ...any) {}}
	remote, err := bindmcp.New(bindmcp.Options{Server: servers.server, Secret: secrets(opts.DataDir), EgressAllow: opts.EgressAllow, Stdio: !opts.MCP.NoStdio,
		Changed: servers.listed, Version: opts.Version})
	if err != nil {
		web.Close()
		return nil, err
	}
	r := &reach{mcp: remote, servers: servers, web: web, builtins: bindlocal.New(), workers: worker.New(worker.Options{}), close: func() { remote.Close(); web.Close() }}
	var pools executor.Invoker = r.workers
	if opts.Alone {
		pools = unattended{}
	}
	r.Invoker = executor.NewMux(map[string]executor.Invoker{flows.BindHTTP: web, flows.BindLocal: r.builtins, flows.BindWorker: pools, flows.BindMCP: remote})
	return r, nil
}

// unattended stands for the pools of workers in a process that no worker can reach: a call would only wait until its time
// is up.
type unattended struct{}

// Invoke implements executor.Invoker.
func (unattended) Invoke(_ context.Context, tool *flows.Tool, _ map[string]any, _ executor.CallInfo) (any, error) {
	return nil, &executor.ToolError{Class: executor.ClassOther, Code: "no_worker", NotSent: true,
		Message: fmt.Sprintf("tool '%s' was not called: it is served by workers (pool %s), which take their calls from a server; run the flow through pave serve", tool.Name, tool.Binding.Pool)}
}

// Prompt implements executor.PromptInvoker.
func (unattended) Prompt(*flows.Tool) bool { return true }

// LocalEngine is an engine that keeps nothing, for runs outside of the service: with its own way to tools, or with
// answers, which answer for capabilities too where they are a Kernel. Its secrets come from where the service's do; the
// data directory is not opened.
func LocalEngine(opts Options, answers executor.Invoker) (engine *executor.Engine, closeTools func(), err error) {
	closeTools = func() {}
	o := executor.Options{Invoker: answers, Now: time.Now, NewID: newID}
	if kernel, ok := answers.(executor.Kernel); ok {
		o.Kernel = kernel
	}
	if answers == nil {
		opts.Alone = true
		r, err := newReach(opts)
		if err != nil {
			return nil, nil, err
		}
		runs := opts.Runs
		runs.CacheTTL = 0 // runs that are compared must not answer each other
		if err := runs.seams(r.web, &o); err != nil {
			r.close()
			return nil, nil, err
		}
		o.Invoker, closeTools = r.Invoker, r.close
	}
	return executor.New(o), closeTools, nil
}
