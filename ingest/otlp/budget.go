package otlp

import (
	"bytes"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"pave/flows"
)

// maxMemory bounds what decoding one request may take in memory. An empty message is two bytes on the wire and a few
// hundred in memory, so that a body within its size limit could still take gigabytes.
const maxMemory = 256 << 20

// Rough sizes in memory of what the decoder makes of a message, by kind.
const (
	spanMemory   = 400 // a span or log record
	groupMemory  = 150 // a resource, scope, event or link
	valueMemory  = 64  // an attribute or a value in one
	objectMemory = 128 // an object of JSON, on average of these
)

// message is a kind of message of the protocol: what one costs, and the fields that hold messages.
type message struct {
	memory int
	fields map[protowire.Number]*message
}

// The part of the protocol's schema that repeats messages (opentelemetry-proto, common, resource, trace and logs v1).
var traceRequest, logRequest = schemaOf(true), schemaOf(false)

func schemaOf(traces bool) *message {
	keyValue, anyValue := &message{memory: valueMemory}, &message{memory: valueMemory}
	list := &message{memory: valueMemory, fields: map[protowire.Number]*message{1: anyValue}}
	object := &message{memory: valueMemory, fields: map[protowire.Number]*message{1: keyValue}}
	anyValue.fields = map[protowire.Number]*message{5: list, 6: object}
	keyValue.fields = map[protowire.Number]*message{2: anyValue}
	with := func(memory int, fields map[protowire.Number]*message) *message { return &message{memory, fields} }
	record := with(spanMemory, map[protowire.Number]*message{5: anyValue, 6: keyValue})
	if traces {
		event := with(groupMemory, map[protowire.Number]*message{3: keyValue})
		link := with(groupMemory, map[protowire.Number]*message{4: keyValue})
		record = with(spanMemory, map[protowire.Number]*message{9: keyValue, 11: event, 13: link})
	}
	instrumentation := with(groupMemory, map[protowire.Number]*message{3: keyValue})
	resource := with(groupMemory, map[protowire.Number]*message{1: keyValue})
	scope := with(groupMemory, map[protowire.Number]*message{1: instrumentation, 2: record})
	return with(0, map[protowire.Number]*message{1: with(groupMemory, map[protowire.Number]*message{1: resource, 2: scope})})
}

// affordable refuses a body that would take more memory than maxMemory to decode. It does not validate: what is not
// the protocol is left to the decoder.
func affordable(body []byte, encoding Encoding, kind *message) error {
	cost := 0
	if encoding == JSON {
		cost = objectMemory * bytes.Count(body, []byte("{"))
	} else {
		cost = kind.cost(body, maxMemory, maxJSONDepth)
	}
	if cost > maxMemory {
		return flows.NewError(flows.CodeTooLarge,
			fmt.Sprintf("the request holds too many messages: decoding it would take more than %d MiB; send smaller batches", maxMemory>>20))
	}
	return nil
}

// cost sums the memory of the messages in body, up to a little over limit.
func (m *message) cost(body []byte, limit, depth int) int {
	total := 0
	for len(body) > 0 && total <= limit && depth > 0 {
		number, wire, n := protowire.ConsumeTag(body)
		if n < 0 {
			return total
		}
		body = body[n:]
		child := m.fields[number]
		if wire != protowire.BytesType || child == nil {
			if n = protowire.ConsumeFieldValue(number, wire, body); n < 0 {
				return total
			}
			body = body[n:]
			continue
		}
		value, n := protowire.ConsumeBytes(body)
		if n < 0 {
			return total
		}
		body = body[n:]
		total += child.memory + child.cost(value, limit-total, depth-1)
	}
	return total
}
