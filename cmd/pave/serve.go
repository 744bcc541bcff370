package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"pave/api"
	"pave/cmd/pave/internal/app"
)

type serveCmd struct {
	Listen         string   `help:"Address of the API; port 0 takes a free one." env:"PAVE_LISTEN" default:"127.0.0.1:8318"`
	OTLPListen     string   `help:"Second address for OTLP/HTTP alone; skipped when it is taken; \"\" or off for none." name:"otlp-listen" env:"PAVE_OTLP_LISTEN" default:"127.0.0.1:4318"`
	OTLPGRPCListen string   `help:"Address for OTLP/gRPC; skipped when it is taken; \"\" or off for none." name:"otlp-grpc-listen" env:"PAVE_OTLP_GRPC_LISTEN" default:"127.0.0.1:4317"`
	Tools          string   `help:"Apply the tool files of this folder at start." env:"PAVE_TOOLS" placeholder:"DIR"`
	Policy         string   `help:"Take the policy of this file (YAML or JSON) at start, as pave policy set would." env:"PAVE_POLICY" placeholder:"FILE"`
	TLSCert        string   `help:"Certificate of the API's address (PEM); with --tls-key it answers HTTPS." name:"tls-cert" env:"PAVE_TLS_CERT" placeholder:"FILE"`
	TLSKey         string   `help:"Private key of the certificate (PEM)." name:"tls-key" env:"PAVE_TLS_KEY" placeholder:"FILE"`
	RateRequests   int      `help:"Requests a second that a principal may make, in bursts of twice as many; 0 for any number." env:"PAVE_RATE_REQUESTS" default:"60"`
	RateIngest     int      `help:"The same for requests that record calls." env:"PAVE_RATE_INGEST" default:"500"`
	TrustedProxies []string `help:"Addresses or ranges whose X-Forwarded-For is believed; none without it." env:"PAVE_TRUSTED_PROXIES" placeholder:"ADDR"`
	RetentionDays  int      `help:"Delete sessions this many days after their start, for good; 0 keeps them." env:"PAVE_RETENTION_DAYS" default:"0"`
	InsecureNoAuth bool     `help:"Answer requests without a key, with every right. Loopback only." env:"PAVE_INSECURE_NO_AUTH"`
	EndWithStdin   bool     `help:"End, as on SIGTERM, when standard input closes; for a process that starts this one and must not leave it behind." name:"end-with-stdin" env:"PAVE_END_WITH_STDIN"`
	LogLevel       string   `help:"Log from this level on: ${enum}." env:"PAVE_LOG_LEVEL" enum:"debug,info,warn,error" default:"info"`

	tls *tls.Config // of TLSCert and TLSKey, once they were read
}

// Run serves until SIGTERM or an interrupt; a second one ends the process at once.
func (c *serveCmd) Run(e *env) error {
	if err := settingsError(append(slices.Clone(e.settings.problems), c.check(e.g)...)); err != nil {
		return err
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.LogLevel)); err != nil {
		return errUsage("log.level: " + err.Error())
	}
	log := slog.New(api.LogHandler(slog.NewJSONHandler(e.err, &slog.HandlerOptions{Level: level})))
	opts := e.appOptions(log)
	opts.NoAuth = c.InsecureNoAuth
	opts.Service = app.ServiceOptions{Rates: api.RateLimits{Requests: float64(c.RateRequests), Ingest: float64(c.RateIngest)},
		TrustedProxies: c.TrustedProxies, Retention: time.Duration(c.RetentionDays) * 24 * time.Hour}
	a, err := app.Open(e.ctx, opts)
	if err != nil {
		return err
	}
	if opts.Solo {
		log.Warn("solo mode: authors may approve their own proposals; every such review is marked")
	}
	if opts.NoAuth {
		log.Warn("INSECURE: requests without a key are answered with every right (--insecure-no-auth)")
	}
	stopped := onSecondSignal(e.ctx) // also while what is open closes
	defer stopped()
	err = c.serve(e, a, log)
	return errors.Join(err, a.Close())
}

func (c *serveCmd) serve(e *env, a *app.App, log *slog.Logger) error {
	if c.Tools != "" {
		doc, err := readToolFiles([]string{c.Tools})
		if err != nil {
			return err
		}
		if err := a.ApplyTools(e.ctx, doc); err != nil {
			return err
		}
	}
	if c.Policy != "" {
		if err := a.ApplyPolicy(e.ctx, c.Policy); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	if c.EndWithStdin {
		go func() { // a read that never ends is ended by the process's own end
			_, _ = io.Copy(io.Discard, e.in)
			cancel()
		}()
	}
	return a.Serve(ctx, app.ServeOptions{Listen: c.Listen, OTLPListen: c.OTLPListen, GRPCListen: c.OTLPGRPCListen, TLS: c.tls, Ready: func(address string) {
		fmt.Fprintf(e.out, "pave: serving on %s (data %s, engine %s)\n", address, e.g.DataDir, a.Engine())
	}})
}

// onSecondSignal ends the process at once when a signal comes after the one that ended ctx.
func onSecondSignal(ctx context.Context) (stop func()) {
	done := make(chan struct{})
	go func() {
		select {
		case <-ctx.Done():
		case <-done:
			return
		}
		again := make(chan os.Signal, 1)
		signal.Notify(again, os.Interrupt, syscall.SIGTERM)
		defer signal.Stop(again)
		select {
		case <-again:
			os.Exit(api.ExitFailed)
		case <-done:
		}
	}()
	return func() { close(done) }
}

// check lists everything that is wrong with the settings, by the key paths of the settings file.
func (c *serveCmd) check(g *globals) []string {
	var problems []string
	fault := func(key, format string, args ...any) {
		problems = append(problems, key+": "+fmt.Sprintf(format, args...))
	}
	host, err := splitAddress(c.Listen)
	if err != nil {
		fault("listen", "%v; use host:port", err)
	} else if ip := net.ParseIP(host); c.InsecureNoAuth && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		fault("insecure_no_auth", "only for a loopback listen address, not %s", c.Listen)
	}
	for _, second := range []struct {
		key     string
		address *string
	}{{"otlp.listen", &c.OTLPListen}, {"otlp.grpc.listen", &c.OTLPGRPCListen}} {
		if *second.address == "off" {
			*second.address = ""
		}
		if *second.address == "" {
			continue
		}
		if _, err := splitAddress(*second.address); err != nil {
			fault(second.key, "%v; use host:port", err)
		}
	}
	if c.Tools != "" {
		if info, err := os.Stat(c.Tools); err != nil {
			fault("tools", "%v", err)
		} else if !info.IsDir() {
			fault("tools", "%s is not a folder", c.Tools)
		}
	}
	c.checkService(fault)
	if g.Server != "" {
		fault("server", "serve works on the data directory; leave it out")
	}
	return append(problems, g.check()...)
}

// maxRetentionDays is a hundred years.
const maxRetentionDays = 36_525

// checkService reads the files and limits of the API's address.
func (c *serveCmd) checkService(fault func(key, format string, args ...any)) {
	switch {
	case (c.TLSCert == "") != (c.TLSKey == ""):
		fault("tls", "give both tls.cert and tls.key")
	case c.TLSCert != "":
		pair, err := tls.LoadX509KeyPair(c.TLSCert, c.TLSKey)
		if err != nil {
			fault("tls.cert", "%v", err)
		}
		c.tls = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	}
	for key, n := range map[string]int{"rate.requests": c.RateRequests, "rate.ingest": c.RateIngest, "retention.days": c.RetentionDays} {
		if n < 0 {
			fault(key, "%d: use 0 or more", n)
		}
	}
	if c.RetentionDays > maxRetentionDays {
		fault("retention.days", "%d: use at most %d, or 0 to keep everything", c.RetentionDays, maxRetentionDays)
	}
	for _, problem := range app.CheckProxies(c.TrustedProxies) {
		key, text, _ := strings.Cut(problem, ": ")
		fault(key, "%s", text)
	}
	if c.Policy != "" {
		if _, err := app.ReadPolicy(c.Policy); err != nil {
			fault("policy", "%v", err)
		}
	}
}

// splitAddress is the host of a host:port that can be listened on.
func splitAddress(address string) (host string, err error) {
	host, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	return host, err
}
