package api

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"pave/flows"
	"pave/governance"
)

// HeaderActAs names the principal that an admin acts for.
const HeaderActAs = "Pave-As"

// requester is who makes a request, and the request's id, "" for requests that have none yet.
type requester struct {
	actor     governance.Actor
	requestID string
}

type requesterKey struct{}

func requesterOf(ctx context.Context) requester {
	who, _ := ctx.Value(requesterKey{}).(requester)
	return who
}

// WithActor returns a context whose requests are those of actor, already authenticated. It is for callers inside
// the process; nothing on the network can set it.
func WithActor(ctx context.Context, actor governance.Actor) context.Context {
	return context.WithValue(ctx, requesterKey{}, requester{actor: actor})
}

// actorFrom is the actor of a request that passed authorise.
func actorFrom(ctx context.Context) governance.Actor {
	return requesterOf(ctx).actor
}

// authorise identifies the caller and checks the scopes that the contract declares for the operation. It is the
// only gate of the API; what a principal may do with one object is decided by governance.
func (s *Server) authorise(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		op := s.operation(c)
		if op == nil || op.public {
			return next(c)
		}
		actor, err := s.authenticate(c.Request())
		if err == nil && op.path == mcpPath {
			err = s.deps.MCP.Admit(actor)
		}
		if err == nil {
			err = op.permits(actor)
		}
		if err != nil {
			if op.path == mcpPath {
				s.deps.MCP.Denied(actor, err)
			}
			return err
		}
		if actor, err = actor.As(c.Request().Header.Get(HeaderActAs)); err != nil {
			return err
		}
		who := requester{actor, c.Response().Header().Get(echo.HeaderXRequestID)}
		c.SetRequest(c.Request().WithContext(context.WithValue(c.Request().Context(), requesterKey{}, who)))
		return next(c)
	}
}

// permits checks the scopes of an operation.
func (o *operation) permits(actor governance.Actor) error {
	for _, scope := range o.scopes {
		if !actor.Has(scope) {
			return flows.NewError(flows.CodeForbidden,
				fmt.Sprintf("this needs the scope %q; the key of %s has %s", scope, actor.Principal, scopeList(actor.Scopes)))
		}
	}
	return nil
}

func (s *Server) authenticate(r *http.Request) (governance.Actor, error) {
	if who, ok := r.Context().Value(requesterKey{}).(requester); ok {
		return who.actor, nil
	}
	scheme, secret, _ := strings.Cut(r.Header.Get(echo.HeaderAuthorization), " ")
	if secret = strings.TrimSpace(secret); strings.EqualFold(scheme, "Bearer") && secret != "" {
		return s.deps.Keys.Authenticate(r.Context(), secret)
	}
	if secret, ok := s.browsers.secret(r, time.Now()); ok {
		return s.deps.Keys.Authenticate(r.Context(), secret)
	}
	if s.opts.NoAuth {
		if !loopbackHost(r.Host) {
			return governance.Actor{}, flows.NewError(flows.CodeUnauthenticated,
				"without keys the service answers requests for a loopback host name only")
		}
		return governance.Actor{Tenant: s.opts.Tenant, Principal: s.opts.LocalPrincipal, Scopes: governance.AllScopes}, nil
	}
	return governance.Actor{}, flows.NewError(flows.CodeUnauthenticated,
		"send a key as \"Authorization: Bearer pave_...\"; `pave keys create` makes one")
}

func scopeList(scopes []governance.Scope) string {
	if len(scopes) == 0 {
		return "none"
	}
	names := make([]string, len(scopes))
	for i, scope := range scopes {
		names[i] = string(scope)
	}
	return strings.Join(names, ", ")
}

// loopbackHost reports whether a Host header names this machine's loopback, so that a foreign page whose name
// resolves to 127.0.0.1 gets nothing.
func loopbackHost(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
