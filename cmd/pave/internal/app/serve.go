package app

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/oklog/run"

	"pave/api"
	bindhttp "pave/executor/bind/http"
	"pave/flows"
	"pave/governance"
	"pave/governance/runs"
	"pave/ingest"
)

// drainTime bounds how long requests in flight may take to end at a stop; after it they are told to, which ends
// runs at a step, and have lastCall to answer.
const (
	drainTime = 8 * time.Second
	lastCall  = time.Second
)

// drainNotice is how long readiness says no before the listeners close, so that whoever asks can see it.
const drainNotice = 200 * time.Millisecond

// At a stop it is looked at so often whether workers still have calls; between two calls of one run they have none for a
// while.
const (
	workersCheck = 50 * time.Millisecond
	workersPause = time.Second
)

// Sessions are assembled when nothing came for the quiet period; how often that is looked at.
const (
	quietPeriod   = 60 * time.Second
	assembleEvery = 5 * time.Second
)

// mineCheck is how often it is looked at whether there is reason to mine.
const mineCheck = 5 * time.Second

// ServeOptions say where to listen.
type ServeOptions struct {
	Listen     string               // host:port; port 0 takes a free one
	OTLPListen string               // OTLP/HTTP alone; "" for none, skipped when it is taken
	GRPCListen string               // OTLP/gRPC; "" for none, skipped when it is taken
	Ready      func(address string) // called once requests are answered, with http://host:port
	TLS        *tls.Config          // of Listen; nil answers plain HTTP
	Drain      time.Duration        // how long requests in flight may take at a stop; 0 is 8 s
}

// Serve answers requests until ctx ends, then drains: readiness turns to 503, workers answer the calls that they have,
// listeners close, requests in flight end, background work stops. A clean stop is nil. Close the App afterwards.
func (a *App) Serve(ctx context.Context, opts ServeOptions) error {
	listener, err := net.Listen("tcp", opts.Listen)
	if err != nil {
		return flows.NewError(flows.CodeUnavailable, fmt.Sprintf("listen on %s: %v; --listen takes another address, with port 0 a free one", opts.Listen, err))
	}
	if a.opts.NoAuth && !api.IsLoopback(listener.Addr()) {
		return errors.Join(flows.NewError(flows.CodeInvalid, "without keys only a loopback address is served"), listener.Close())
	}
	address := "http://" + listener.Addr().String()
	if opts.TLS != nil {
		address = "https://" + listener.Addr().String()
		listener = &tlsListener{listener, opts.TLS}
	}
	if err := a.lock.announce(address); err != nil {
		return errors.Join(err, listener.Close())
	}
	var group run.Group
	listeners := map[net.Listener]http.Handler{listener: a.api}
	if otlp := a.otlpListener(opts.OTLPListen); otlp != nil {
		listeners[otlp] = api.OTLPOnly(a.api)
	}
	if err := a.serveGRPC(&group, opts.GRPCListen, cmp.Or(opts.Drain, drainTime)); err != nil {
		return errors.Join(err, closeAll(listeners))
	}
	patience := cmp.Or(opts.Drain, drainTime)
	a.serveOn(&group, listeners, &patience)
	work, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	group.Add(func() error { return a.background(work) }, func(error) { stopWork() })
	stop, stopped := context.WithCancel(ctx)
	group.Add(func() error {
		<-stop.Done()
		began := time.Now()
		a.api.Drain()
		time.Sleep(drainNotice)
		a.awaitWorkers(patience - drainNotice)
		patience = max(patience-time.Since(began), drainNotice)
		return nil
	}, func(error) { stopped() })
	a.log.InfoContext(ctx, "serving", "address", address, "data_dir", a.opts.DataDir, "engine", a.Engine())
	opts.Ready(address)
	err = group.Run()
	a.log.InfoContext(ctx, "stopped")
	return err
}

// awaitWorkers keeps the listeners open while workers have calls, because their answers come as requests of their own.
func (a *App) awaitWorkers(patience time.Duration) {
	var busy time.Time
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(workersCheck) {
		if a.tools.workers.Busy() {
			busy = time.Now()
		}
		if time.Since(busy) > workersPause { // or never
			return
		}
	}
}

func closeAll(listeners map[net.Listener]http.Handler) error {
	var errs []error
	for l := range listeners {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// otlpListener is the second listener, nil when there is none to be had.
func (a *App) otlpListener(address string) net.Listener {
	if address == "" {
		return nil
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		a.log.Warn("no second OTLP listener", "address", address, "error", err)
		return nil
	}
	a.log.Info("serving OTLP/HTTP", "address", "http://"+l.Addr().String())
	return l
}

// serveOn adds the listeners to the group: one failing stops all, and all drain at once. How long that may take is read
// when it begins.
func (a *App) serveOn(group *run.Group, listeners map[net.Listener]http.Handler, patience *time.Duration) {
	requests, endRequests := context.WithCancel(context.Background())
	ended := make(chan error, len(listeners))
	servers := make(map[net.Listener]*http.Server, len(listeners))
	for l, h := range listeners {
		servers[l] = api.HTTPServer(h, a.log)
		servers[l].BaseContext = func(net.Listener) context.Context { return requests }
	}
	group.Add(func() error {
		for l, server := range servers {
			go func() { ended <- serve(server, l) }()
		}
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	}, func(error) {
		var draining sync.WaitGroup
		defer time.AfterFunc(*patience, endRequests).Stop()
		for _, server := range servers {
			draining.Go(func() { a.drain(server, *patience+lastCall) })
		}
		draining.Wait()
		endRequests()
	})
}

// tlsListener is a listener whose server speaks TLS.
type tlsListener struct {
	net.Listener
	config *tls.Config
}

func serve(server *http.Server, l net.Listener) error {
	if secure, ok := l.(*tlsListener); ok {
		server.TLSConfig = secure.config
		return server.ServeTLS(secure.Listener, "", "") // the certificate is in the configuration
	}
	return server.Serve(l)
}

// drain lets the requests of a server end and cuts those that do not.
func (a *App) drain(server *http.Server, patience time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		a.log.Warn("requests were cut at the stop", "error", errors.Join(err, server.Close()))
	}
}

// background assembles sessions that have ended or were quiet, mines when there is reason to, and tends runs, until ctx
// ends.
func (a *App) background(ctx context.Context) error {
	var tending sync.WaitGroup
	defer tending.Wait()
	tending.Go(func() { a.tendRuns(ctx) })
	tending.Go(func() {
		ticker := time.NewTicker(mineCheck)
		defer ticker.Stop()
		a.loop.Run(ctx, ingest.DefaultTenant, ticker.C)
	})
	tending.Go(func() { a.tendService(ctx) })
	a.assembler.Every(ctx, ingest.DefaultTenant, assembleEvery, quietPeriod, func(err error) {
		a.log.WarnContext(ctx, "assemble sessions", "error", err)
	})
	return nil
}

// ApplyTools declares the tools of a tool file on behalf of this machine's user.
func (a *App) ApplyTools(ctx context.Context, doc []byte) error {
	file, err := flows.ParseToolFile(doc)
	if err != nil {
		return err
	}
	_, err = a.gate.ApplyToolFile(ctx, a.localActor(), file)
	return err
}

// Activate proposes a flow file and brings it into service, as this machine's user, who must need no one else's approval.
func (a *App) Activate(ctx context.Context, doc []byte) error {
	flow, _, err := flows.ParseFlow(doc)
	if err != nil {
		return err
	}
	p, err := a.gate.Submit(ctx, a.localActor(), flow)
	if err != nil {
		return err
	}
	if p.Needs > 0 {
		if _, err := a.gate.Review(ctx, a.localActor(), p.ID, governance.ReviewRequest{Verdict: governance.VerdictApprove, Digest: p.Digest}); err != nil {
			return err
		}
	}
	_, err = a.gate.Promote(ctx, a.localActor(), p.ID, governance.PromoteRequest{})
	return err
}

// RunFlow runs the active version of a flow to its end, as this machine's user.
func (a *App) RunFlow(ctx context.Context, name string, input map[string]any) (*runs.Run, error) {
	return a.runs.Run(ctx, a.localActor(), runs.Request{Flow: name, Input: input})
}

func (a *App) localActor() governance.Actor {
	return governance.Actor{Tenant: ingest.DefaultTenant, Principal: a.opts.LocalPrincipal, Scopes: governance.AllScopes}
}

// CheckEgress says what is wrong with the entries of egress.allow.
func CheckEgress(entries []string) (problems []string) {
	for _, entry := range entries {
		if _, err := bindhttp.New(bindhttp.Options{EgressAllow: []string{entry}}); err != nil {
			problems = append(problems, "egress.allow: "+err.Error())
		}
	}
	return problems
}
