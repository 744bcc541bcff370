package otlp

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"pave/flows"
)

// wrapped puts body into nested messages with these field numbers, the last outermost.
func wrapped(body []byte, fields ...protowire.Number) []byte {
	for _, f := range fields {
		body = protowire.AppendBytes(protowire.AppendTag(nil, f, protowire.BytesType), body)
	}
	return body
}

// Requests of messages of no bytes are small on the wire and huge in memory, whatever the messages are.
func TestRequestsOfEmptyMessagesAreRefused(t *testing.T) {
	empty := func(field protowire.Number, n int) []byte {
		return bytes.Repeat(protowire.AppendBytes(protowire.AppendTag(nil, field, protowire.BytesType), nil), n)
	}
	const many = 5_000_000
	for name, c := range map[string]struct {
		body []byte
		kind *message
		enc  Encoding
	}{
		"spans":      {wrapped(empty(2, many), 2, 1), traceRequest, Protobuf},
		"records":    {wrapped(empty(2, many), 2, 1), logRequest, Protobuf},
		"resources":  {empty(1, many), traceRequest, Protobuf},
		"scopes":     {wrapped(empty(2, many), 1), logRequest, Protobuf},
		"attributes": {wrapped(empty(9, many), 2, 2, 1), traceRequest, Protobuf},
		"events":     {wrapped(empty(11, many), 2, 2, 1), traceRequest, Protobuf},
		"values":     {wrapped(empty(1, many), 5, 2, 9, 2, 2, 1), traceRequest, Protobuf},
		"json":       {append(append([]byte(`{"resourceSpans":[{"scopeSpans":[{"spans":[{}`), bytes.Repeat([]byte(",{}"), many)...), "]}]}]}"...), traceRequest, JSON},
	} {
		require.Equal(t, flows.CodeTooLarge, flows.CodeOf(affordable(c.body, c.enc, c.kind)), name)
	}
}

// What clients send stays far below the limit: every capture, many times over.
func TestCapturesAreAffordable(t *testing.T) {
	body := capture(t, "codex-cli/03-traces.binpb")
	require.NoError(t, affordable(body, Protobuf, traceRequest))
	require.NoError(t, affordable(bytes.Repeat(body, 100), Protobuf, traceRequest), "%d bytes", 100*len(body))
	require.NoError(t, affordable([]byte("not the protocol"), Protobuf, traceRequest))
	require.NoError(t, affordable(capture(t, "codex-cli/02-logs.binpb"), Protobuf, logRequest))
}
