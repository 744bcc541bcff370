package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"reflect"
	"strings"

	"pave/api"
	"pave/api/gen"
	"pave/cmd/pave/internal/app"
	"pave/flows"
	"pave/governance"
	"pave/ingest"
)

// client is the generated client on its way to whoever holds the data: a server, or this process.
type client struct {
	*gen.ClientWithResponses
	close func() error
	local bool // this process holds the data
}

// client connects: to --server; to the server that holds the data directory; or, when none does, to the same
// handlers in this process. Without --key the caller is this machine's user, with the data directory's admin key.
func (e *env) client() (*client, error) {
	if e.g.Server != "" {
		return e.remote(e.g.Server, e.g.Key, e.g.As)
	}
	if err := e.g.usable(); err != nil {
		return nil, err
	}
	as := e.g.As
	if as == "" && e.g.Key == "" {
		as = localPrincipal()
	}
	_, known := os.Stat(e.g.DataDir)
	a, err := app.Open(e.ctx, e.aloneOptions())
	if held := new(app.HeldError); errors.As(err, &held) && held.Address != "" {
		key := e.g.Key
		if key == "" {
			if key, err = app.AdminKey(e.g.DataDir); err != nil {
				return nil, flows.NewError(flows.CodeForbidden, fmt.Sprintf(
					"%s holds %s, and its admin key cannot be read (%v); give --key", held.Address, e.g.DataDir, err))
			}
		}
		return e.remote(held.Address, key, as)
	}
	if err != nil {
		return nil, err
	}
	if errors.Is(known, fs.ErrNotExist) { // where there was none, nothing can be listed: it may be the wrong folder
		fmt.Fprintf(e.err, "pave: made the data directory %s; --data-dir or PAVE_DATA name another\n", e.g.DataDir)
	}
	var actor *governance.Actor
	if e.g.Key == "" {
		actor = &governance.Actor{Tenant: ingest.DefaultTenant, Principal: localPrincipal(), Scopes: governance.AllScopes}
	}
	c, err := e.newClient("http://localhost", &http.Client{Transport: api.Transport(a.Handler(), actor)}, e.g.Key, as)
	if err != nil {
		return nil, errors.Join(err, a.Close())
	}
	c.close, c.local = a.Close, true
	return c, nil
}

// aloneOptions open the data directory for this command only.
func (e *env) aloneOptions() app.Options {
	opts := e.appOptions(slog.New(slog.NewTextHandler(e.err, &slog.HandlerOptions{Level: slog.LevelWarn})))
	opts.Alone = true
	return opts
}

func (e *env) appOptions(log *slog.Logger) app.Options {
	return app.Options{DataDir: e.g.DataDir, ClickHouse: e.g.Clickhouse, Runs: e.g.RunSettings.options(), Telemetry: e.g.RunSettings.telemetry(), Solo: e.g.Solo, Mining: e.g.Mining.loop(), EgressAllow: e.g.EgressAllow, MCP: e.g.MCP.options(),
		LocalPrincipal: localPrincipal(), Logger: log, Version: version}
}

func (e *env) remote(server, key, as string) (*client, error) {
	u, err := url.Parse(server)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, errUsage(fmt.Sprintf("--server %q: must be http://host:port or https://host", server))
	}
	return e.newClient(strings.TrimSuffix(server, "/"), &http.Client{}, key, as)
}

func (e *env) newClient(server string, doer *http.Client, key, as string) (*client, error) {
	c, err := gen.NewClientWithResponses(server, gen.WithHTTPClient(doer),
		gen.WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
			if key != "" {
				r.Header.Set("Authorization", "Bearer "+key)
			}
			if as != "" {
				r.Header.Set(api.HeaderActAs, as)
			}
			r.Header.Set("User-Agent", "pave/"+version)
			return nil
		}))
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	return &client{ClientWithResponses: c, close: func() error { return nil }}, nil
}

// withClient runs fn with a connected client and closes it.
func (e *env) withClient(fn func(c *client) error) error {
	c, err := e.client()
	if err != nil {
		return err
	}
	return errors.Join(fn(c), c.close())
}

// answered is what every generated response has.
type answered interface {
	StatusCode() int
	GetBody() []byte
}

// check turns a failed request and a problem answer into errors of the taxonomy.
func check[R answered](resp R, err error) (R, error) {
	if err != nil {
		return resp, requestError(err)
	}
	if reflect.ValueOf(resp).IsNil() || resp.StatusCode() < http.StatusBadRequest {
		return resp, nil
	}
	return resp, problemError(resp.StatusCode(), resp.GetBody())
}

// requestError says of a request without an answer why it has none.
func requestError(err error) error {
	if known := new(flows.Error); errors.As(err, &known) || errors.Is(err, context.Canceled) {
		return err
	}
	if refused := new(url.Error); errors.As(err, &refused) {
		return &flows.Error{Code: flows.CodeUnavailable, Message: "the server cannot be reached: " + refused.Err.Error(), Err: err}
	}
	return err
}

// problemError rebuilds the error from a problem answer.
func problemError(status int, body []byte) error {
	var p gen.Problem
	if json.Unmarshal(body, &p) != nil || p.Code == "" {
		return &flows.Error{Code: flows.CodeUnavailable, Message: fmt.Sprintf("the server answered %d, and not as pave does", status)}
	}
	message := p.Detail
	if message == "" {
		message = p.Title
	}
	e := &flows.Error{Code: flows.Code(p.Code), Message: message}
	for _, d := range p.Errors {
		e.Details = append(e.Details, flows.ErrorDetail{Pointer: d.Pointer, Code: d.Code, Detail: d.Detail})
	}
	return e
}

// localPrincipal is the person at this machine.
func localPrincipal() string {
	name := os.Getenv("USER")
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_.@+-", r) {
			return r
		}
		return '-'
	}, filepath.Base(name))
	if clean == "" || clean == "." {
		clean = "user"
	}
	return "local:" + clean
}

// etag is an If-Match value for a revision.
func etag(revision int64) string { return fmt.Sprintf("%q", fmt.Sprint(revision)) }
