package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/oklog/run"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"pave/api"
	"pave/flows"
	"pave/governance"
	"pave/ingest"
	"pave/ingest/config"
	"pave/ingest/deadletter"
	"pave/ingest/otlp"
)

// Names in the data directory.
const (
	ingestFile = "ingest.yaml"
	lettersDir = "dead-letters"
)

// IngestConfig reads the data directory's ingest.yaml, the default when there is none.
func IngestConfig(dir string) (config.Config, error) {
	path := filepath.Join(dir, ingestFile)
	raw, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return config.Config{}, nil
	}
	if err != nil {
		return config.Config{}, err
	}
	c, err := config.Parse(raw)
	if err != nil {
		return config.Config{}, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// openReceiver makes what receives OTLP. Its metrics are registered with the API's.
func (a *App) openReceiver(own config.Config, key []byte) error {
	letters, err := deadletter.Open(filepath.Join(a.opts.DataDir, lettersDir), key, deadletter.Options{})
	if err != nil {
		return fmt.Errorf("dead letters: %w", err)
	}
	a.defers(letters.Close)
	a.rates, a.limits, a.inFlight = own.Rates, own.Limits, ingest.NewInFlight(own.Limits.WithDefaults().InFlight)
	a.received = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "pave_otlp_records_total", Help: "Spans and log records received, by signal and what became of them."}, []string{"signal", "outcome"})
	a.refused = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "pave_otlp_rejected_total", Help: "Spans and log records that could not be used, by signal and reason."}, []string{"signal", "reason"})
	a.letters = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "pave_otlp_dead_letters", Help: "Requests kept because they could not be read."}, func() float64 {
		count, _, _ := letters.Stats()
		return float64(count)
	})
	a.receiver = otlp.New(a.record, otlp.Options{Log: a.log, Mapping: own.Mapping, Own: a.installation, DeadLetters: letters,
		Rates: own.Rates, Room: a.record.Room, Limits: a.limits, InFlight: a.inFlight,
		Sender: func(r *http.Request) otlp.Sender {
			actor := api.ActorOf(r)
			return otlp.Sender{Tenant: actor.Tenant, Key: actor.Key}
		},
		Observe: func(signal string, s otlp.Stats) {
			a.received.WithLabelValues(signal, "received").Add(float64(s.Total))
			a.received.WithLabelValues(signal, "filtered").Add(float64(s.Filtered))
			a.received.WithLabelValues(signal, "rejected").Add(float64(s.Rejected))
			for reason, n := range s.Reasons {
				a.refused.WithLabelValues(signal, reason).Add(float64(n))
				a.losses.Add(api.Loss{Via: signal, Reason: reason}, n, time.Now())
			}
		}})
	a.dead = &deadLetters{store: letters, receiver: a.receiver}
	return nil
}

// AuthorizeIngest lets in whose key may send telemetry, or everyone where no keys are asked for.
func (a *App) AuthorizeIngest(ctx context.Context, header map[string][]string) (otlp.Sender, error) {
	secret := ""
	for _, v := range header["authorization"] {
		if scheme, rest, _ := strings.Cut(v, " "); strings.EqualFold(scheme, "bearer") {
			secret = strings.TrimSpace(rest)
		}
	}
	if secret == "" && a.opts.NoAuth {
		return otlp.Sender{Tenant: ingest.DefaultTenant}, nil
	}
	actor, err := a.gate.Authenticate(ctx, secret)
	if err != nil {
		return otlp.Sender{}, err
	}
	if !actor.Has(governance.ScopeIngest) {
		return otlp.Sender{}, flows.NewError(flows.CodeForbidden, fmt.Sprintf("this needs the scope %q", governance.ScopeIngest))
	}
	return otlp.Sender{Tenant: actor.Tenant, Key: actor.Key}, nil
}

// GRPC is a server of OTLP over gRPC.
func (a *App) GRPC() *grpc.Server { return a.receiver.GRPC(otlp.GRPCOptions{Authorizer: a}) }

// serveGRPC adds OTLP over gRPC to the group, where its address is to be had.
func (a *App) serveGRPC(group *run.Group, address string, patience time.Duration) error {
	if address == "" {
		return nil
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		a.log.Warn("no OTLP/gRPC listener", "address", address, "error", err)
		return nil
	}
	if a.opts.NoAuth && !api.IsLoopback(l.Addr()) {
		return errors.Join(flows.NewError(flows.CodeInvalid, "without keys only a loopback address is served"), l.Close())
	}
	server := a.GRPC()
	a.log.Info("serving OTLP/gRPC", "address", l.Addr().String())
	group.Add(func() error { return server.Serve(l) }, func(error) { drainGRPC(server, patience) })
	return nil
}

// drainGRPC lets the requests of a server end and cuts those that do not.
func drainGRPC(server *grpc.Server, patience time.Duration) {
	defer time.AfterFunc(patience, server.Stop).Stop()
	server.GracefulStop()
}
