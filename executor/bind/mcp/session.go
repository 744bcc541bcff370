package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"pave/executor"
	"pave/executor/bind"
	"pave/flows"
)

const (
	connectTimeout = 20 * time.Second
	// calm is how long a server that could not be reached is left alone.
	calm = time.Second
	// maxMessage bounds one message of a server.
	maxMessage = 8 << 20
	// maxTools bounds what is read of a server's list.
	maxTools = 5000
)

// peer is one server: at most one session with it at a time, made when it is needed.
type peer struct {
	b    *Binding
	name string

	mu      sync.Mutex // held while a session is made
	session *session
	failed  error // why the last attempt failed
	retryAt time.Time
}

// session is one connection with what the server listed on it.
type session struct {
	client *mcp.ClientSession
	config *flows.MCPServer
	dead   atomic.Bool // the connection has ended, or is being ended

	mu    sync.Mutex
	tools map[string]Discovered // by remote name
}

func (s *session) tool(remote string) (Discovered, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, ok := s.tools[remote]
	return d, ok
}

func (s *session) listed() []Discovered {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Discovered, 0, len(s.tools))
	for _, d := range s.tools {
		out = append(out, d)
	}
	return out
}

// connect returns the session that stands, or makes one. A server that could not be reached is not asked again at once.
func (p *peer) connect(ctx context.Context) (*session, error) {
	config, err := p.b.opts.Server(ctx, p.name)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.session; s != nil && !s.dead.Load() && s.config == config {
		return s, nil
	}
	if p.session != nil {
		p.b.end(p.session)
		p.session = nil
	}
	if p.failed != nil && time.Now().Before(p.retryAt) {
		return nil, p.failed
	}
	limited, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	s, err := p.open(limited, config)
	if err != nil {
		if ctx.Err() == nil {
			p.failed, p.retryAt = err, time.Now().Add(calm)
		}
		return nil, err
	}
	p.session, p.failed = s, nil
	return s, nil
}

// open connects and lists the server's tools.
func (p *peer) open(ctx context.Context, config *flows.MCPServer) (*session, error) {
	s := &session{config: config}
	transport, secrets, err := p.b.transport(ctx, config)
	if err != nil {
		return nil, err
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "pave", Version: p.b.opts.Version}, &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{},
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) {
			p.b.later(func(ctx context.Context) { p.relist(ctx, s) })
		},
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { p.b.progress(r.Params) },
	})
	unreachable := func(err error) error {
		return &executor.ToolError{Class: executor.ClassIO, Code: "connection_failed",
			Message: bind.Scrub(fmt.Sprintf("MCP server '%s' cannot be reached: %s", p.name, bind.OneLine(err.Error())), secrets)}
	}
	s.client, err = client.Connect(ctx, transport, nil)
	if err != nil {
		if denied := new(bind.EgressDenied); errors.As(err, &denied) {
			return nil, &executor.ToolError{Class: executor.ClassOther, Code: string(flows.CodeEgressDenied), Message: denied.Error()}
		}
		return nil, unreachable(err)
	}
	p.b.work.Go(func() {
		_ = s.client.Wait()
		s.dead.Store(true)
		_ = s.client.Close() // frees what the library keeps of a session that the server ended
	})
	if err := s.list(ctx, p.name); err != nil {
		p.b.end(s)
		return nil, unreachable(err)
	}
	p.b.changed(p.name, s.listed())
	return s, nil
}

// list reads the server's tools.
func (s *session) list(ctx context.Context, server string) error {
	tools := map[string]Discovered{}
	for t, err := range s.client.Tools(ctx, nil) {
		if err != nil {
			return err
		}
		if len(tools) == maxTools {
			return fmt.Errorf("it lists more than %d tools", maxTools)
		}
		d := discovered(server, t)
		tools[d.Remote] = d
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tools = tools
	return nil
}

// relist reads the tools again after the server said that they changed. A list that cannot be read ends the session, so
// that nothing is called by a definition that may be old.
func (p *peer) relist(ctx context.Context, s *session) {
	if err := s.list(ctx, p.name); err != nil {
		p.b.end(s)
		return
	}
	p.b.changed(p.name, s.listed())
}

// transport is the way to a server.
func (b *Binding) transport(ctx context.Context, c *flows.MCPServer) (mcp.Transport, []string, error) {
	var secrets []string
	expand := func(what string, texts map[string]string) (map[string]string, error) {
		out := make(map[string]string, len(texts))
		for k, text := range texts {
			v, used, err := bind.Expand(ctx, text, b.opts.Secret)
			if err != nil {
				return nil, &executor.ToolError{Class: executor.ClassOther, Code: "unknown_secret",
					Message: fmt.Sprintf("a secret of MCP server '%s' (%s %s) is not available; set it where pave runs", c.Name, what, k)}
			}
			out[k] = v
			secrets = append(secrets, used...)
		}
		return out, nil
	}
	if c.Transport == flows.TransportHTTP {
		headers, err := expand("header", c.Headers)
		if err != nil {
			return nil, nil, err
		}
		client := &http.Client{Transport: &bounded{next: b.http, headers: headers}, CheckRedirect: bind.NoRedirects}
		return &mcp.StreamableClientTransport{Endpoint: c.URL, HTTPClient: client, MaxRetries: 2, MaxEventSize: maxMessage}, secrets, nil
	}
	if !b.opts.Stdio {
		return nil, nil, &executor.ToolError{Class: executor.ClassOther, Code: "stdio_denied",
			Message: fmt.Sprintf("MCP server '%s' is a program, and the setting mcp.stdio does not let pave start programs", c.Name)}
	}
	env, err := expand("env", c.Env)
	if err != nil {
		return nil, nil, err
	}
	cmd := exec.Command(c.Command[0], c.Command[1:]...)
	cmd.Env = environment(env)
	cmd.Stderr = io.Discard
	return &mcp.CommandTransport{Command: cmd, TerminateDuration: time.Second}, secrets, nil
}

// inherited are the variables that a program needs to run at all. Others of pave's own, which may be secrets, stay here.
var inherited = []string{"PATH", "HOME", "USER", "LANG", "LC_ALL", "TMPDIR", "TZ"}

func environment(own map[string]string) []string {
	vars := map[string]string{}
	for _, name := range inherited {
		if v, ok := os.LookupEnv(name); ok {
			vars[name] = v
		}
	}
	maps.Copy(vars, own)
	out := make([]string, 0, len(vars))
	for name, v := range vars {
		out = append(out, name+"="+v)
	}
	return out
}

// bounded adds a server's headers, and cuts answers that are no event stream; the events of a stream are bounded one
// by one by the library.
type bounded struct {
	next    http.RoundTripper
	headers map[string]string
}

// RoundTrip implements http.RoundTripper.
func (b *bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, v := range b.headers {
		r.Header.Set(name, v)
	}
	resp, err := b.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if kind := resp.Header.Get("Content-Type"); len(kind) < 17 || kind[:17] != "text/event-stream" {
		resp.Body = &cut{ReadCloser: resp.Body, left: maxMessage}
	}
	return resp, nil
}

// cut fails a body that is longer than allowed, so that the beginning of an answer never passes for all of it.
type cut struct {
	io.ReadCloser
	left int
}

func (c *cut) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	if c.left -= n; c.left < 0 {
		return 0, fmt.Errorf("the answer is longer than %d bytes", maxMessage)
	}
	return n, err
}
