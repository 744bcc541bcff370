// Package api is the HTTP face of pave: an echo server generated from openapi.yaml over the domain packages. A
// handler decodes, authorises, calls one domain method and encodes; rules live in the domain.
package api

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"pave/api/gen"
	"pave/flows"
	"pave/ingest"
)

// Options configure a Server.
type Options struct {
	Tenant string // default ingest.DefaultTenant
	// NoAuth answers requests without a key as LocalPrincipal with every scope; for loopback listeners only.
	NoAuth         bool
	LocalPrincipal string
	Limits         ingest.Limits
	// InFlight bounds the bytes of recorded calls in memory, with other ways in; nil is a bound of its own of Limits.InFlight.
	InFlight *ingest.InFlight
	// Rates bound the requests of each principal; the zero value bounds nothing.
	Rates RateLimits
	// CursorKey signs the cursors of lists; nil takes a random one, so that cursors end with the process.
	CursorKey []byte
	// TrustedProxies are the addresses whose X-Forwarded-For is believed; none by default.
	TrustedProxies []netip.Prefix
	Logger         *slog.Logger // nil discards
	Version        string
	Revision       string // of the source, "" when unknown
}

// Server answers the API. It is safe for concurrent use.
type Server struct {
	deps     Deps
	opts     Options
	log      *slog.Logger
	contract *contract
	echo     *echo.Echo
	metrics  *metrics
	browsers browsers
	ui       http.Handler
	limiter  *limiter
	seal     seal
	draining atomic.Bool
	drained  chan struct{} // closed when draining begins
	warned   pace
	started  time.Time
}

// New builds a server over its dependencies. It fails when a route and the contract do not agree.
func New(deps Deps, opts Options) (*Server, error) {
	c, err := loadContract()
	if err != nil {
		return nil, err
	}
	if opts.Tenant == "" {
		opts.Tenant = ingest.DefaultTenant
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	opts.Limits = opts.Limits.WithDefaults()
	if deps.Losses == nil {
		deps.Losses = new(Losses)
	}
	if opts.InFlight == nil {
		opts.InFlight = ingest.NewInFlight(opts.Limits.InFlight)
	}
	s := &Server{deps: deps, opts: opts, log: opts.Logger, contract: c, metrics: newMetrics(deps.Status, deps.Mining), ui: newUI(), drained: make(chan struct{}), started: time.Now(),
		limiter: newLimiter(opts.Rates), seal: newSeal(opts.CursorKey)}
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.HTTPErrorHandler = s.handleError
	e.IPExtractor = clientAddress(opts.TrustedProxies)
	e.JSONSerializer = strictJSON{}
	e.Use(s.observe, s.recovered, crossOrigin, s.authorise, s.rates, s.bodyLimits, s.validate, s.cursors, s.once, s.patience)
	s.echo = e
	gen.RegisterHandlers(e, gen.NewStrictHandler(&handlers{s}, []gen.StrictMiddlewareFunc{s.sealed}))
	s.mountRaw()
	return s, s.checkRoutes()
}

// ServeHTTP answers one request. The web UI's files are no operations of the contract.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if isUI(r.URL.Path) {
		s.ui.ServeHTTP(w, r)
		return
	}
	s.echo.ServeHTTP(w, r)
}

// Registry is where other parts of the process register their metrics.
func (s *Server) Registry() prometheus.Registerer { return s.metrics.registry }

// Drain makes /readyz answer 503 from now on, so that load balancers stop sending, and ends requests that only wait.
func (s *Server) Drain() {
	if !s.draining.Swap(true) {
		close(s.drained)
	}
}

// clientAddress is the address of the connection; of a trusted proxy it is the one that the proxy forwards for.
func clientAddress(proxies []netip.Prefix) echo.IPExtractor {
	if len(proxies) == 0 {
		return echo.ExtractIPDirect()
	}
	trust := []echo.TrustOption{echo.TrustLoopback(false), echo.TrustLinkLocal(false), echo.TrustPrivateNet(false)}
	for _, p := range proxies {
		trust = append(trust, echo.TrustIPRange(&net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}))
	}
	return echo.ExtractIPFromXFFHeader(trust...)
}

// operation is the contract's entry for the matched route, nil when there is none.
func (s *Server) operation(c echo.Context) *operation {
	return s.contract.operations[route{c.Request().Method, c.Path()}]
}

// checkRoutes refuses a route that the contract does not have, which nothing would guard, and an operation without
// a route.
func (s *Server) checkRoutes() error {
	have := make(map[route]bool)
	for _, r := range s.echo.Routes() {
		key := route{r.Method, r.Path}
		if s.contract.operations[key] == nil {
			return fmt.Errorf("route %s %s is not in openapi.yaml", key.method, key.path)
		}
		have[key] = true
	}
	for key := range s.contract.operations {
		if !have[key] {
			return fmt.Errorf("operation %s %s of openapi.yaml has no route", key.method, key.path)
		}
	}
	return nil
}

// observe gives each request its id, counts it and logs it.
func (s *Server) observe(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		start := time.Now()
		id, err := uuid.NewV7()
		if err != nil {
			return fmt.Errorf("request id: %w", err)
		}
		header := c.Response().Header()
		header.Set(echo.HeaderXRequestID, id.String())
		header.Set(echo.HeaderXContentTypeOptions, "nosniff")
		if err := next(c); err != nil {
			c.Error(err)
		}
		name := "none"
		if op := s.operation(c); op != nil {
			name = op.id
		}
		took := time.Since(start)
		s.metrics.request(name, c.Response().Status, took)
		s.lostRequest(name, c.Response().Status, start)
		if ctx := c.Request().Context(); s.log.Enabled(ctx, slog.LevelDebug) { // the arguments cost more than most requests' work
			s.log.DebugContext(ctx, "request", "request_id", id.String(), "operation", name,
				"status", c.Response().Status, "duration_ms", took.Milliseconds(), "peer", c.RealIP())
		}
		return nil
	}
}

// sameOrigin is made once: echo calls its middleware for every request.
var sameOrigin = http.NewCrossOriginProtection()

// crossOrigin refuses state-changing requests that a browser sends from a foreign page.
func crossOrigin(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if err := sameOrigin.Check(c.Request()); err != nil {
			return flows.NewError(flows.CodeForbidden, "this is a request of a page from another origin")
		}
		return next(c)
	}
}

func stack() string { return string(debug.Stack()) }

// Time limits of a connection. Runs and waited mining passes extend the write limit for themselves.
const (
	headerTimeout = 5 * time.Second
	readTimeout   = 30 * time.Second
	writeTimeout  = 60 * time.Second
	idleTimeout   = 60 * time.Second
	// longWrite bounds the answers of operations that work in line: a run takes at most ten minutes.
	longWrite = 11 * time.Minute
)

// HTTPServer wraps a handler with the time limits of a listener.
func HTTPServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// OTLPOnly serves the OTLP paths of h and nothing else; for the listener on the protocol's own port.
func OTLPOnly(h http.Handler) http.Handler {
	mux := http.NewServeMux()
	for _, path := range []string{"/v1/traces", "/v1/logs", "/v1/metrics"} {
		mux.Handle(path, h)
	}
	return mux
}

// IsLoopback reports whether a listener's address is reachable from this machine only.
func IsLoopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
