package app

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"time"

	"pave/api"
	"pave/governance/outbox"
	"pave/ingest"
)

// ServiceOptions configure what only a service does.
type ServiceOptions struct {
	// Rates bound the requests of each principal; the zero value bounds nothing.
	Rates api.RateLimits
	// TrustedProxies are the addresses and ranges whose X-Forwarded-For is believed.
	TrustedProxies []string
	// Retention is how long sessions are kept after their start; 0 is for ever.
	Retention time.Duration
}

// sendEvery is how often the outbox is looked at.
const sendEvery = time.Second

// watchEvery is how often flows are held against the policy, and live sessions against what flows predict.
const watchEvery = 15 * time.Second

// tendService does what a service does by itself until ctx ends: it watches flows, deletes what is older
// than the retention and sends webhook deliveries.
func (a *App) tendService(ctx context.Context) {
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() {
		tick := time.NewTicker(watchEvery)
		defer tick.Stop()
		a.watcher.Run(ctx, ingest.DefaultTenant, tick.C)
	})
	if a.opts.Service.Retention > 0 {
		watching.Go(func() {
			tick := time.NewTicker(expireEvery)
			defer tick.Stop()
			a.expire(ctx, tick.C)
		})
	}
	transport := a.egress.Transport()
	defer transport.CloseIdleConnections()
	tick := time.NewTicker(sendEvery)
	defer tick.Stop()
	outbox.New(outbox.Options{Queue: a.gate, Transport: transport, Logger: a.log}).Run(ctx, tick.C)
}

// derivedKey is a key of an installation for one use.
func derivedKey(key []byte, use string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("pave " + use))
	return mac.Sum(nil)
}

// parseProxies reads addresses and ranges.
func parseProxies(entries []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, entry := range entries {
		if !strings.Contains(entry, "/") {
			addr, err := netip.ParseAddr(entry)
			if err != nil {
				return nil, fmt.Errorf("trusted.proxies: %q is no address or range such as 10.0.0.0/8", entry)
			}
			out = append(out, netip.PrefixFrom(addr, addr.BitLen()))
			continue
		}
		prefix, err := netip.ParsePrefix(entry)
		if err != nil {
			return nil, fmt.Errorf("trusted.proxies: %q is no address or range such as 10.0.0.0/8", entry)
		}
		out = append(out, prefix)
	}
	return out, nil
}

// CheckProxies says what is wrong with the entries of trusted.proxies.
func CheckProxies(entries []string) (problems []string) {
	for _, entry := range entries {
		if _, err := parseProxies([]string{entry}); err != nil {
			problems = append(problems, err.Error())
		}
	}
	return problems
}
