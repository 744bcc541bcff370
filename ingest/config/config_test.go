package config

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pave/flows"
	"pave/ingest"
	"pave/ingest/secrets"
)

func TestParse(t *testing.T) {
	c, err := Parse([]byte(`
sessions: [acme.chat]
calls:
  - name: acme
    when: {acme.kind: tool}
    tool: [acme.tool]
    arguments: [acme.input]
capture:
  - tool: payroll_*
  - agent: hr
    source: otlp/*
failures:
  - source: otlp/codex
    result: 'exited with code [1-9]'
redact: {names: [badge_no], allow: [session_token], emails: true}
limits: {inflated: 1.5MiB, record: 64KiB, batch: 500, in_flight: 1GiB, depth: 10}
`))
	require.NoError(t, err)
	require.Equal(t, []string{"acme.chat"}, c.Mapping.Sessions)
	require.Equal(t, map[string]string{"acme.kind": "tool"}, c.Mapping.Calls[0].When)
	require.Equal(t, []ingest.CaptureRule{{Tool: "payroll_*"}, {Agent: "hr", Source: "otlp/*"}}, c.Policy.Capture)
	require.Equal(t, "otlp/codex", c.Policy.Failures[0].Source)
	require.True(t, c.Policy.Failures[0].Result.MatchString("Process exited with code 12"))
	require.Equal(t, secrets.Options{Names: []string{"badge_no"}, Allow: []string{"session_token"}, Emails: true}, c.Secrets)

	require.Equal(t, ingest.Limits{Inflated: 3 << 19, Record: 64 << 10, Batch: 500, InFlight: 1 << 30, Depth: 10}, c.Limits)

	c, err = Parse(nil)
	require.NoError(t, err)
	require.Nil(t, c.Mapping)
	require.Empty(t, c.Policy)
}

func TestParseRefuses(t *testing.T) {
	for text, message := range map[string]string{
		"limits: {batch: -1}": "no limit", "limits: {batch: 10XB}": "no limit", "limits: {batch: [1]}": "no limit", "limits: {batch: 1e300}": "no limit", "limits: {batch: nan}": "no limit", "limits: {batch: MiB}": "no limit",
		"limits: {batch: 0}": "no limit", "limits: {batches: 1}": "batches", "limits: {inflated: 2GiB}": "below 2GiB", "limits: {inflated: 1MiB}": "must not be above", "limits: {depth: 1001}": "must not be above 1000",
		"capture: [{}]": "capture rule 1", "captures: []": "captures", "rates: {keys: {k: {bytes: -1}}}": "\"k\" must not be negative", "rates: {default: {records: -1}}": "default rates", "calls: [{name: x}]": "when", "failures: [{result: '('}]": "regular expression", "sessions: {a: b}": "ingest settings", "calls: [": "ingest settings",
	} {
		_, err := Parse([]byte(text))
		require.Equal(t, flows.CodeInvalid, flows.CodeOf(err), text)
		require.ErrorContains(t, err, message, text)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("sessions: [a]\ncapture: [{tool: x}]"))
	f.Add([]byte("limits: {body: 1.5MiB, depth: 3, values: 1e3, queue: 0x10}"))
	f.Add([]byte("calls: [{name: a, when: {b: c}}]\nredact: {emails: true}\nrates: {default: {records: 5}, keys: {k: {bytes: -1}}}"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if _, err := Parse(raw); err != nil && flows.CodeOf(err) != flows.CodeInvalid {
			t.Fatal(err)
		}
	})
}
