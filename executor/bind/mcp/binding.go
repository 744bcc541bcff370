// Package mcp reaches tools of servers of the Model Context Protocol: programs that speak it on standard input and
// output, and servers over streamable HTTP. One session with a server serves all calls; one that ends is made anew when
// the next call needs it.
//
// A server may change its tools at any time. Every definition has a digest; a tool that is pinned to one is called
// only while the server's list shows that definition. When a list is read, at the beginning of a session and when the
// server says that it changed, whoever keeps the pins is told.
package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"pave/executor"
	"pave/executor/bind"
	"pave/flows"
)

// Options of a Binding. Server is required.
type Options struct {
	// Server finds a server by name; equal pointers mean that nothing about it changed. Errors are shown to users.
	Server func(ctx context.Context, name string) (*flows.MCPServer, error)
	// Secret returns the value of {{secret:NAME}}.
	Secret func(ctx context.Context, name string) (string, error)
	// EgressAllow opens addresses that are closed by default, as for HTTP tools.
	EgressAllow []string
	// Stdio allows servers that are programs to be started.
	Stdio bool
	// Changed is told what a server lists, each time that the list is read; nil for nobody. It runs on a goroutine of
	// its own, one at a time for all servers.
	Changed func(ctx context.Context, server string, tools []Discovered)
	Version string
}

// Binding calls MCP tools. It is safe for concurrent use; Close ends its sessions and the programs behind them.
type Binding struct {
	opts Options
	http *http.Transport

	life context.Context // ends with Close
	stop context.CancelFunc
	work sync.WaitGroup
	jobs chan func(context.Context)

	mu     sync.Mutex
	peers  map[string]*peer
	listen map[string]func(bind.Progress) // by progress token
}

var _ executor.PromptInvoker = (*Binding)(nil)

// New builds a Binding. A malformed egress entry is a *flows.Error.
func New(opts Options) (*Binding, error) {
	out, err := bind.NewEgress(opts.EgressAllow)
	if err != nil {
		return nil, err
	}
	b := &Binding{opts: opts, http: out.Transport(), peers: map[string]*peer{}, listen: map[string]func(bind.Progress){}, jobs: make(chan func(context.Context), 256)}
	b.life, b.stop = context.WithCancel(context.Background())
	b.work.Go(func() {
		for {
			select {
			case job := <-b.jobs:
				job(b.life)
			case <-b.life.Done():
				return
			}
		}
	})
	return b, nil
}

// Close ends all sessions; programs get a second to end by themselves.
func (b *Binding) Close() {
	b.stop()
	b.mu.Lock()
	peers := b.peers
	b.peers = map[string]*peer{}
	b.mu.Unlock()
	for _, p := range peers {
		p.mu.Lock()
		if p.session != nil {
			b.end(p.session)
		}
		p.mu.Unlock()
	}
	b.work.Wait()
	b.http.CloseIdleConnections()
}

// end closes a session without waiting for it.
func (b *Binding) end(s *session) {
	if !s.dead.Swap(true) {
		b.work.Go(func() { _ = s.client.Close() })
	}
}

// later runs a job on the binding's own goroutine; past what is sensible it is dropped, because a list that changes
// faster than it can be read is read again anyway.
func (b *Binding) later(job func(context.Context)) {
	select {
	case b.jobs <- job:
	default:
	}
}

func (b *Binding) changed(server string, tools []Discovered) {
	if b.opts.Changed != nil {
		b.later(func(ctx context.Context) { b.opts.Changed(ctx, server, tools) })
	}
}

func (b *Binding) peer(name string) *peer {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.peers[name]
	if p == nil {
		p = &peer{b: b, name: name}
		b.peers[name] = p
	}
	return p
}

// Prompt reports that a call returns soon after its context ends.
func (b *Binding) Prompt(*flows.Tool) bool { return true }

// Discover lists a server's tools as they are now, by name. Errors are *executor.ToolError or *flows.Error.
func (b *Binding) Discover(ctx context.Context, server string) ([]Discovered, error) {
	s, err := b.peer(server).connect(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.list(ctx, server); err != nil {
		return nil, &executor.ToolError{Class: executor.ClassIO, Code: "connection_failed",
			Message: fmt.Sprintf("MCP server '%s' does not list its tools: %s", server, bind.OneLine(err.Error()))}
	}
	found := s.listed()
	slices.SortFunc(found, func(x, y Discovered) int { return cmp.Compare(x.Remote, y.Remote) })
	return found, nil
}

// Invoke makes one call. Errors are *executor.ToolError, or the context's: connection_failed, tool_drift (the server's
// definition is not the pinned one), tool_error, timeout, outcome_unknown (the connection ended under the call).
func (b *Binding) Invoke(ctx context.Context, tool *flows.Tool, input map[string]any, info executor.CallInfo) (any, error) {
	limited, cancel := bind.WithMargin(ctx)
	defer cancel()
	p := b.peer(tool.Binding.Server)
	for again := true; ; again = false {
		s, err := p.connect(limited)
		if err == nil {
			err = pinned(tool, s)
		}
		if err != nil {
			return nil, b.ended(ctx, limited, tool, toolError(err, again))
		}
		res, err := b.call(limited, ctx, s, tool, input, info)
		if err == nil {
			return answer(tool, res)
		}
		if said := new(jsonrpc.Error); errors.As(err, &said) && !slices.Contains(ofTransport, said.Code) {
			return nil, &executor.ToolError{Class: classOf(said.Code), Code: "tool_error", Message: bind.OneLine(said.Message)}
		}
		if limited.Err() != nil {
			return nil, b.ended(ctx, limited, tool, err)
		}
		// The server forgot the session, so it did not take the call: a new session may. A connection that broke under
		// the call of a tool that may be called twice is tried once more as well.
		b.end(s)
		if dial := new(net.OpError); errors.As(err, &dial) && dial.Op == "dial" { // nothing was sent
			return nil, &executor.ToolError{Class: executor.ClassIO, Code: "connection_failed", NotSent: again,
				Message: fmt.Sprintf("MCP server '%s' cannot be reached: %s", p.name, bind.OneLine(err.Error()))}
		}
		if again && (errors.Is(err, mcp.ErrSessionMissing) || tool.Repeatable()) {
			continue
		}
		return nil, &executor.ToolError{Class: executor.ClassIO, Code: "outcome_unknown", Final: !tool.Repeatable(),
			Message: fmt.Sprintf("MCP server '%s' broke off under the call of tool '%s': %s", p.name, tool.Name, bind.OneLine(err.Error()))}
	}
}

// pinned refuses a tool whose definition is not the one that was accepted.
func pinned(tool *flows.Tool, s *session) error {
	drift := func(format string, args ...any) error {
		return &executor.ToolError{Class: executor.ClassOther, Code: string(flows.CodeToolDrift), Final: true, Message: fmt.Sprintf(format, args...)}
	}
	have, ok := s.tool(tool.Binding.Tool)
	switch {
	case !ok:
		return drift("MCP server '%s' has no tool '%s' any more", s.config.Name, tool.Binding.Tool)
	case have.Problem != "":
		return drift("tool '%s' of MCP server '%s' cannot be used: %s", tool.Binding.Tool, s.config.Name, have.Problem)
	case tool.Binding.DefinitionDigest != "" && have.Digest != tool.Binding.DefinitionDigest:
		return drift("MCP server '%s' changed the definition of tool '%s' since it was accepted; see `pave tools drift %s`, and accept it with `pave tools pin %s`",
			s.config.Name, tool.Binding.Tool, tool.Name, tool.Name)
	}
	return nil
}

// call sends one request. Trace context and the idempotency key go along as metadata.
func (b *Binding) call(limited, ctx context.Context, s *session, tool *flows.Tool, input map[string]any, info executor.CallInfo) (*mcp.CallToolResult, error) {
	params := &mcp.CallToolParams{Name: tool.Binding.Tool, Arguments: input, Meta: mcp.Meta{"pave/idempotency_key": info.Key()}}
	if parent := info.Traceparent(); parent != "" {
		params.Meta["traceparent"], params.Meta["tracestate"] = parent, info.Tracestate()
	}
	token := uuid.NewString()
	params.SetProgressToken(token)
	b.mu.Lock()
	b.listen[token] = func(p bind.Progress) { p.Tool = tool.Name; bind.Report(ctx, p) }
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.listen, token)
	}()
	return s.client.CallTool(limited, params)
}

// progress passes a server's notice on to the call that it is about.
func (b *Binding) progress(p *mcp.ProgressNotificationParams) {
	token, _ := p.ProgressToken.(string)
	b.mu.Lock()
	fn := b.listen[token]
	b.mu.Unlock()
	if fn != nil {
		fn(bind.Progress{Done: p.Progress, Total: p.Total, Message: bind.OneLine(p.Message)})
	}
}

// ended names why a call has no answer: its run or its time ended, or what err says.
func (b *Binding) ended(ctx, limited context.Context, tool *flows.Tool, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case limited.Err() != nil:
		return &executor.ToolError{Class: executor.ClassTimeout, Code: "timeout", Final: !tool.Repeatable(),
			Message: fmt.Sprintf("MCP server '%s' did not answer the call of tool '%s' in time", tool.Binding.Server, tool.Name)}
	}
	return err
}

// toolError is why a call was not made this time, with a class. first says that it was not made before either.
func toolError(err error, first bool) error {
	said := executor.ToolError{Class: executor.ClassOther, Code: cmp.Or(strings.TrimSpace(string(flows.CodeOf(err))), "unknown_server"), Message: err.Error()}
	if te := new(executor.ToolError); errors.As(err, &te) {
		said = *te // several calls may wait for one connection
	}
	said.NotSent = first
	return &said
}

// ofTransport are the codes by which the library says that the connection has ended or broke (client is closing, server is
// closing, rejected by transport); they do not come from the server.
var ofTransport = []int64{-32003, -32004, -32005}

// classOf sorts the protocol's error codes into the retry classes.
func classOf(code int64) string {
	if code == jsonrpc.CodeInvalidParams {
		return executor.ClassValidation
	}
	return executor.ClassOther
}
