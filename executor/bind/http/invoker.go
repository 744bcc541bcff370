// Package httpbind reaches tools over HTTP as the binding of their tool files says: arguments fill the placeholders
// of path and query, the others go to the body; status codes, error rules and malformed answers become tool errors.
//
// It follows no redirect, uses no proxy of the environment, reads no more of an answer than its cap, and connects
// to loopback, private and other special addresses only where the egress list names them.
package httpbind

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"

	"pave/executor"
	"pave/executor/bind"
	"pave/flows"
)

// DefaultMaxAnswerBytes caps an answer whose tool sets no max_output_size.
const DefaultMaxAnswerBytes = 1 << 20

// Options of an Invoker. The zero value reaches public addresses only and knows no secrets.
type Options struct {
	// Secret returns the value of {{secret:NAME}}. The value is put into the request's header and nowhere else.
	Secret func(ctx context.Context, name string) (string, error)
	// EgressAllow opens addresses that are closed by default: "host:port", "address:port" or "CIDR:port", IPv6 in
	// brackets, "*" for any port.
	EgressAllow []string
	// MaxAnswerBytes is the cap for tools without max_output_size; 0 means DefaultMaxAnswerBytes.
	MaxAnswerBytes int
}

// Invoker calls HTTP tools. It is safe for concurrent use; Close frees its idle connections.
type Invoker struct {
	opts   Options
	client *http.Client

	mu       sync.Mutex
	compiled map[*flows.Tool]compiled
}

type compiled struct {
	binding *binding
	err     error
}

var _ executor.PromptInvoker = (*Invoker)(nil)

// maxCompiled bounds the memory of tools that were replaced; past it the cache starts anew.
const maxCompiled = 4096

// New builds an Invoker. A malformed egress entry is a *flows.Error.
func New(opts Options) (*Invoker, error) {
	out, err := bind.NewEgress(opts.EgressAllow)
	if err != nil {
		return nil, err
	}
	if opts.MaxAnswerBytes <= 0 {
		opts.MaxAnswerBytes = DefaultMaxAnswerBytes
	}
	client := &http.Client{Transport: out.Transport(), CheckRedirect: bind.NoRedirects}
	return &Invoker{opts: opts, client: client, compiled: map[*flows.Tool]compiled{}}, nil
}

// Close frees idle connections. Calls in flight end by their contexts.
func (c *Invoker) Close() { c.client.CloseIdleConnections() }

// Prompt reports that a call returns soon after its context ends.
func (c *Invoker) Prompt(*flows.Tool) bool { return true }

// Invoke makes one call. Errors are *executor.ToolError, or the context's.
func (c *Invoker) Invoke(ctx context.Context, tool *flows.Tool, input map[string]any, call executor.CallInfo) (any, error) {
	b, err := c.binding(tool)
	if err != nil {
		return nil, err
	}
	req, secrets, err := c.request(ctx, tool, b, input, call)
	if err != nil {
		return nil, err
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return nil, transportError(ctx, tool, req, err, secrets)
	}
	defer resp.Body.Close()
	limit := c.opts.MaxAnswerBytes
	if tool.MaxOutputSize != nil {
		limit = *tool.MaxOutputSize
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, int64(limit)+1))
	if err != nil {
		return nil, transportError(ctx, tool, req, err, secrets)
	}
	out, err := b.answer(tool, resp, body, limit, secrets)
	var te *executor.ToolError
	if errors.As(err, &te) {
		te.Message = bind.Scrub(te.Message, secrets)
	}
	return out, err
}

// binding compiles a tool's binding once: tools are immutable, so their identity is the key.
func (c *Invoker) binding(tool *flows.Tool) (*binding, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if got, ok := c.compiled[tool]; ok {
		return got.binding, got.err
	}
	if len(c.compiled) >= maxCompiled {
		clear(c.compiled)
	}
	b, err := compile(tool)
	c.compiled[tool] = compiled{b, err}
	return b, err
}

func (c *Invoker) secret(ctx context.Context, name string) (string, error) {
	if c.opts.Secret == nil {
		return "", errors.New("no secrets are configured")
	}
	return c.opts.Secret(ctx, name)
}

// transportError names what went wrong before there was an answer. The URL's query and the headers stay out of
// the text: they hold arguments and secrets.
func transportError(ctx context.Context, tool *flows.Tool, req *http.Request, err error, secrets []string) error {
	where := fmt.Sprintf("%s://%s", req.URL.Scheme, req.URL.Host)
	toolError := func(class, code, format string, args ...any) error {
		return &executor.ToolError{Class: class, Code: code, Message: bind.Scrub(fmt.Sprintf(format, args...), secrets)}
	}
	var denied *bind.EgressDenied
	var netErr net.Error
	switch {
	case errors.As(err, &denied):
		return &executor.ToolError{Class: executor.ClassOther, Code: string(flows.CodeEgressDenied), Message: bind.Scrub(denied.Error(), secrets), NotSent: true}
	case errors.Is(ctx.Err(), context.Canceled):
		return ctx.Err()
	case ctx.Err() != nil, errors.As(err, &netErr) && netErr.Timeout():
		return toolError(executor.ClassTimeout, "timeout", "tool server %s of tool '%s' did not answer in time", where, tool.Name)
	}
	return toolError(executor.ClassIO, "connection_failed", "tool server %s of tool '%s' cannot be reached or broke off: %v", where, tool.Name, rootCause(err))
}

// rootCause drops the wrappers that repeat method and URL, and the address of the name server that was asked.
func rootCause(err error) error {
	if dns := new(net.DNSError); errors.As(err, &dns) {
		return fmt.Errorf("lookup %s: %s", dns.Name, dns.Err)
	}
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}
