package app

import (
	"context"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"

	"pave/governance/runs"
	"pave/governance/runs/telemetry"
)

// TelemetryOptions say where finished runs are exported to as spans. The zero value exports nothing.
type TelemetryOptions struct {
	Endpoint string   // URL of a receiver of OTLP/HTTP; "" exports nothing
	Headers  []string // NAME=VALUE; {{secret:NAME}} in a value stands for a secret
	Values   bool     // arguments and results, too, redacted
}

// telemetryPatience is how long what is left is sent at the end of the process.
const telemetryPatience = 3 * time.Second

var (
	headerName   = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$")
	headerSecret = regexp.MustCompile(`\{\{secret:([^{}]*)\}\}`)
)

// Check lists what is wrong with the options, by the keys of the settings file.
func (o *TelemetryOptions) Check() (problems []string) {
	if o.Endpoint == "" {
		if len(o.Headers) > 0 || o.Values {
			problems = append(problems, "telemetry.otlp.endpoint: is missing, and the other settings of telemetry.otlp do nothing without it")
		}
		return problems
	}
	if u, err := url.Parse(o.Endpoint); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		problems = append(problems, "telemetry.otlp.endpoint: must be a URL such as http://127.0.0.1:4318/v1/traces; keys go into telemetry.otlp.headers")
	}
	for i, entry := range o.Headers {
		name, value, ok := strings.Cut(entry, "=")
		if !ok || !headerName.MatchString(name) || strings.ContainsAny(value, "\r\n\x00") {
			problems = append(problems, fmt.Sprintf("telemetry.otlp.headers[%d]: must be NAME=VALUE, such as Authorization=Bearer {{secret:COLLECTOR_KEY}}", i))
		}
	}
	return problems
}

// headers resolves the secrets of the headers.
func (o *TelemetryOptions) headers(ctx context.Context, secret func(context.Context, string) (string, error)) (map[string]string, error) {
	out := make(map[string]string, len(o.Headers))
	var missing error
	for _, entry := range o.Headers {
		name, value, _ := strings.Cut(entry, "=")
		out[name] = headerSecret.ReplaceAllStringFunc(value, func(ref string) string {
			v, err := secret(ctx, headerSecret.FindStringSubmatch(ref)[1])
			if err != nil && missing == nil {
				missing = fmt.Errorf("telemetry.otlp.headers: %s: %w", name, err)
			}
			return v
		})
	}
	return out, missing
}

// openTelemetry starts the export of runs; nil when none is asked for.
func (a *App) openTelemetry(ctx context.Context) (runs.Exporter, error) {
	o := &a.opts.Telemetry
	if o.Endpoint == "" {
		return nil, nil
	}
	if problems := o.Check(); len(problems) > 0 {
		return nil, fmt.Errorf("%s", strings.Join(problems, "; "))
	}
	headers, err := o.headers(ctx, secrets(a.opts.DataDir))
	if err != nil {
		return nil, err
	}
	a.telemetry, err = telemetry.New(ctx, telemetry.Options{Endpoint: o.Endpoint, Headers: headers, Values: o.Values,
		Installation: a.installation, Version: a.opts.Version, Logger: a.log})
	if err != nil {
		return nil, err
	}
	a.defers(func() error { // after the runs have ended
		ctx, cancel := context.WithTimeout(context.Background(), telemetryPatience)
		defer cancel()
		return a.telemetry.Close(ctx)
	})
	return a.telemetry, nil
}
