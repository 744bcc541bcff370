// Package config reads the file that says how a user's telemetry is read and what of it is kept.
//
//	sessions: [acme.chat]            # attributes that name the session, before the known ones
//	calls:                           # tool calls in attributes of one's own
//	  - name: acme                   # their source is otlp/acme
//	    when: {acme.kind: tool}      # "*" is any value
//	    tool: [acme.tool]
//	    arguments: [acme.input]
//	capture:                         # whose content is not kept; * is any text
//	  - tool: payroll_*
//	failures:                        # results that say a call failed
//	  - source: otlp/codex
//	    result: 'exited with code [1-9]'
//	redact:
//	  names: [badge_no]              # members whose values are secret too
//	  allow: [session_token]         # and those that are not
//	  emails: true
//	rates:                           # what a key may send a second, and bursts of ten seconds' worth
//	  default: {requests: 100, records: 20000, bytes: 50000000}
//	  keys:                          # by the prefix that `pave keys list` shows; "" are callers without a key
//	    k3j9d2x1: {records: 1000}
//	limits:                          # how much is taken; what is left out keeps its default
//	  inflated: 32MiB                # also body, ratio, batch, record, payload, text, depth, values, tool_name, id
//	  in_flight: 128MiB              # of requests in memory at once; also queue and queue_size, of what waits to be stored
package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"gopkg.in/yaml.v3"

	"pave/flows"
	"pave/ingest"
	"pave/ingest/otlp"
	"pave/ingest/secrets"
)

// Config is a file that was read. The zero value is the default.
type Config struct {
	Mapping *otlp.Mapping // nil where the file has none
	Policy  ingest.Policy
	Secrets secrets.Options
	Rates   *ingest.RateLimiter // nil where the file has none
	Limits  ingest.Limits       // zero where the file leaves the default
}

type file struct {
	otlp.Mapping `yaml:",inline"`
	Capture      []ingest.CaptureRule `yaml:"capture"`
	Failures     []struct {
		Source string `yaml:"source"`
		Tool   string `yaml:"tool"`
		Result string `yaml:"result"`
	} `yaml:"failures"`
	Redact struct {
		Names  []string `yaml:"names"`
		Allow  []string `yaml:"allow"`
		Emails bool     `yaml:"emails"`
	} `yaml:"redact"`
	Rates *struct {
		Default ingest.Rates            `yaml:"default"`
		Keys    map[string]ingest.Rates `yaml:"keys"`
	} `yaml:"rates"`
	Limits limits `yaml:"limits"`
}

// Parse reads the file. Errors are *flows.Error of CodeInvalid and say what to change.
func Parse(raw []byte) (Config, error) {
	var f file
	dec := yaml.NewDecoder(bytes.NewReader(raw))
	dec.KnownFields(true)
	if err := dec.Decode(&f); err != nil && !errors.Is(err, io.EOF) {
		return Config{}, &flows.Error{Code: flows.CodeInvalid, Message: fmt.Sprintf("ingest settings: %v", err), Err: err}
	}
	if err := f.Check(); err != nil {
		return Config{}, err
	}
	if err := f.Limits.check(); err != nil {
		return Config{}, err
	}
	c := Config{Limits: f.Limits.limits(), Secrets: secrets.Options{Names: f.Redact.Names, Allow: f.Redact.Allow, Emails: f.Redact.Emails}}
	if len(f.Calls) > 0 || len(f.Sessions) > 0 {
		c.Mapping = &f.Mapping
	}
	if f.Rates != nil {
		for key, r := range f.Rates.Keys {
			if r.Requests < 0 || r.Records < 0 || r.Bytes < 0 {
				return Config{}, flows.NewError(flows.CodeInvalid, fmt.Sprintf("the rates of key %q must not be negative; leave one out for no limit", key))
			}
		}
		if d := f.Rates.Default; d.Requests < 0 || d.Records < 0 || d.Bytes < 0 {
			return Config{}, flows.NewError(flows.CodeInvalid, "the default rates must not be negative; leave one out for no limit")
		}
		c.Rates = ingest.NewRateLimiter(f.Rates.Default, f.Rates.Keys, nil)
	}
	for i, rule := range f.Capture {
		if rule == (ingest.CaptureRule{}) {
			return Config{}, flows.NewError(flows.CodeInvalid, fmt.Sprintf("capture rule %d names neither tool, agent nor source; write \"*\" to keep no content at all", i+1))
		}
		c.Policy.Capture = append(c.Policy.Capture, rule)
	}
	for _, rule := range f.Failures {
		compiled, err := ingest.NewFailureRule(rule.Source, rule.Tool, rule.Result)
		if err != nil {
			return Config{}, err
		}
		c.Policy.Failures = append(c.Policy.Failures, compiled)
	}
	return c, nil
}
