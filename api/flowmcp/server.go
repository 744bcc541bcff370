// Package flowmcp offers promoted flows as tools of the Model Context Protocol: over streamable HTTP, and over standard
// input and output. Agents list them, call them, and are told when the list changes.
package flowmcp

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"pave/flows"
	"pave/governance"
	"pave/governance/runs"
)

// Runs is what flows are run with; runs.Service is one.
type Runs interface {
	Offers(ctx context.Context, actor governance.Actor) ([]runs.Offer, error)
	Run(ctx context.Context, actor governance.Actor, req runs.Request) (*runs.Run, error)
}

// Auditor keeps what the gate decided; governance.Service is one.
type Auditor interface {
	AuditDecisions(ctx context.Context, tenant string, decisions []governance.GateDecision) error
}

// Options of a Server. Runs is required.
type Options struct {
	Runs    Runs
	Audit   Auditor // nil keeps nothing
	Tenant  string
	Ceiling flows.SideEffects // the worst side effects of a flow that is offered; "" is read
	Prefix  string            // before each tool's name
	// Secret returns a secret for dynamic params, see Params.
	Secret func(ctx context.Context, name string) (string, error)
	// Params fills dynamic params from secrets of the server: principal, or "*" for all, to param to the secret's name.
	// A param that has no entry is taken from the request header Pave-Param-<param>.
	Params map[string]map[string]string
	// Rate is how many requests a second one principal may make; 0 is DefaultRate.
	Rate float64
	// AtOnce is how many runs of one principal go on at a time, more wait in line; 0 is runs.DefaultMaxPerPrincipal.
	AtOnce  int
	Version string
	Logger  *slog.Logger // nil discards
}

// Server is an MCP server of flows. It is safe for concurrent use.
type Server struct {
	opts    Options
	log     *slog.Logger
	mcp     *mcp.Server
	handler http.Handler
	changes atomic.Int64 // of the catalogue
	listed  atomic.Int64 // changes that the list of tools has seen
	pending atomic.Bool  // a timer brings the list up to date

	direct direct
	flows  atomic.Pointer[map[string]*flows.Flow] // offered, by the names of their tools

	mu      sync.Mutex // held while the list is brought up to date
	offered map[string]string
	hidden  map[string]string // why a flow is not offered, as it was logged
	audit   *journal
	limits  *limits
}

// idleSession is how long a session without requests is kept.
const idleSession = 30 * time.Minute

// New builds a server. Its list is read when it is asked for.
func New(o Options) *Server {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Ceiling == "" {
		o.Ceiling = flows.EffectRead
	}
	if o.Rate <= 0 {
		o.Rate = DefaultRate
	}
	if o.AtOnce <= 0 {
		o.AtOnce = runs.DefaultMaxPerPrincipal
	}
	s := &Server{limits: &limits{rate: o.Rate, atOnce: o.AtOnce, per: map[string]*allowance{}}, opts: o, log: o.Logger, offered: map[string]string{}, hidden: map[string]string{}, audit: newJournal(o.Audit, o.Tenant, o.Logger)}
	s.changes.Store(1)
	s.direct.init()
	s.flows.Store(&map[string]*flows.Flow{})
	s.mcp = mcp.NewServer(&mcp.Implementation{Name: "pave", Title: "pave flows", Version: o.Version}, &mcp.ServerOptions{
		Instructions: "Each tool runs a reviewed flow: several tool calls in one, without thinking in between. Prefer a flow to its single steps. An answer that says that a flow stopped tells what is done and what remains: go on from there, do not start again.",
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{ListChanged: true}},
	})
	s.mcp.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if method == "tools/list" || method == "tools/call" {
				if err := s.refresh(ctx); err != nil {
					s.log.WarnContext(ctx, "flows cannot be listed", "error", err)
				}
			}
			return next(ctx, method, req)
		}
	})
	s.handler = mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s.mcp }, &mcp.StreamableHTTPOptions{
		JSONResponse: false, SessionTimeout: idleSession, DisableLocalhostProtection: true, Logger: nil})
	return s
}

// ServeHTTP serves streamable HTTP to a caller that was authenticated and admitted already.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request, actor governance.Actor) {
	if r.Method == http.MethodPost && s.answerDirectly(w, r, actor) {
		return
	}
	// The library hands what a token stands for on to each call, and keeps a session to the one who opened it.
	verified := auth.RequireBearerToken(func(context.Context, string, *http.Request) (*auth.TokenInfo, error) {
		return &auth.TokenInfo{UserID: owner(actor), Extra: map[string]any{actorKey: actor}}, nil
	}, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer verified")
	answered := &statusWriter{ResponseWriter: w}
	verified(s.handler).ServeHTTP(answered, r)
	s.direct.saw(r, owner(actor), answered.status)
}

// owner names who a session belongs to.
func owner(actor governance.Actor) string { return actor.Tenant + "/" + actor.Principal }

const actorKey = "pave.actor"

// actorOf is who makes a call; ok is false when nobody was authenticated.
func actorOf(ctx context.Context, extra *mcp.RequestExtra) (governance.Actor, bool) {
	if actor, ok := ctx.Value(localKey{}).(governance.Actor); ok {
		return actor, true
	}
	if extra == nil || extra.TokenInfo == nil {
		return governance.Actor{}, false
	}
	actor, ok := extra.TokenInfo.Extra[actorKey].(governance.Actor)
	return actor, ok
}

// localKey is for the actor, stdioKey for the session of a client over standard input and output.
type localKey struct{}
type stdioKey struct{}

// ServeStdio serves one client over standard input and output, as actor, until it goes or ctx ends.
func (s *Server) ServeStdio(ctx context.Context, actor governance.Actor, transport mcp.Transport) error {
	session := rand.Text()
	s.mcp.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			ctx = context.WithValue(ctx, stdioKey{}, session)
			return next(context.WithValue(ctx, localKey{}, actor), method, req)
		}
	})
	return s.mcp.Run(ctx, transport)
}

// Changed tells that flows or tools may have changed. Clients that are connected hear of it when their list did.
func (s *Server) Changed() {
	s.changes.Add(1)
	for range s.mcp.Sessions() { // nobody to tell otherwise: the list is read when it is asked for
		if s.pending.Swap(true) {
			return
		}
		time.AfterFunc(settle, func() {
			s.pending.Store(false)
			if err := s.refresh(context.Background()); err != nil {
				s.log.Warn("flows cannot be listed", "error", err)
			}
		})
		return
	}
}

// settle lets changes that come together be one.
const settle = 50 * time.Millisecond

// Close ends all calls and sessions, and writes what the gate decided last.
func (s *Server) Close() error {
	s.direct.close()
	for session := range s.mcp.Sessions() {
		_ = session.Close()
	}
	return s.audit.flush()
}

// refresh brings the list of tools up to date when the catalogue changed. Who asks while another does waits for it.
func (s *Server) refresh(ctx context.Context) error {
	if s.listed.Load() == s.changes.Load() {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.changes.Load()
	if s.listed.Load() == seen {
		return nil
	}
	reader := governance.Actor{Tenant: s.opts.Tenant, Principal: governance.SystemPrincipal, Scopes: []governance.Scope{governance.ScopeRead}}
	offers, err := s.opts.Runs.Offers(context.WithoutCancel(ctx), reader)
	if err != nil {
		return err
	}
	now, hidden, offered := map[string]string{}, map[string]string{}, map[string]*flows.Flow{}
	hide := func(name, why string) {
		if hidden[name] = why; s.hidden[name] != why {
			s.log.InfoContext(ctx, "a flow is not offered over MCP", "flow", name, "reason", why)
		}
	}
	for i := range offers {
		o := &offers[i]
		name := s.opts.Prefix + o.Flow.Name
		if why, ok := o.Exposed(s.opts.Ceiling); !ok {
			hide(name, why)
			continue
		}
		tool, err := definition(o, name)
		if err != nil {
			hide(name, err.Error())
			continue
		}
		key := string(o.Definition) + "\x00" + o.Flow.Version
		now[name], offered[name] = key, o.Flow
		if s.offered[name] != key {
			s.mcp.AddTool(tool, s.caller(o))
		}
	}
	for name := range s.offered {
		if _, still := now[name]; !still {
			s.mcp.RemoveTools(name)
		}
	}
	s.offered, s.hidden = now, hidden
	s.flows.Store(&offered)
	s.listed.Store(seen)
	return nil
}

// Hidden says of each active flow that is not offered why not, as of the last list.
func (s *Server) Hidden() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.hidden)
}

// definition is a flow as an MCP tool. Its answers have one of two forms: the flow's output, or how to go on where the
// flow stopped before its end.
func definition(o *runs.Offer, name string) (*mcp.Tool, error) {
	var tool mcp.Tool
	if err := json.Unmarshal(o.Definition, &tool); err != nil {
		return nil, fmt.Errorf("its definition cannot be read: %w", err)
	}
	tool.Name = name
	var doc struct {
		InputSchema, OutputSchema json.RawMessage
	}
	if err := json.Unmarshal(o.Definition, &doc); err != nil {
		return nil, fmt.Errorf("its definition cannot be read: %w", err)
	}
	var in struct{ Type any }
	if json.Unmarshal(doc.InputSchema, &in) != nil || in.Type != "object" {
		return nil, fmt.Errorf("its input schema is not of type object")
	}
	tool.InputSchema, tool.OutputSchema = doc.InputSchema, nil
	if len(doc.OutputSchema) > 0 {
		tool.OutputSchema = json.RawMessage(`{"type":"object","anyOf":[` + string(doc.OutputSchema) + `,` + stoppedSchema + `]}`)
	}
	return &tool, nil
}

// stoppedSchema describes the structured content of a flow that stopped before its end.
const stoppedSchema = `{"type":"object","required":["flow_stopped"],"properties":{"flow_stopped":{"type":"object","required":["status","reason","done","remaining"],"properties":{` +
	`"status":{"type":"string"},"reason":{"type":"string"},"run_id":{"type":"string"},"done":{"type":"array"},"known":{"type":["object","null"]},"next":{"type":["object","null"]},"remaining":{"type":"array"}}}}}`
