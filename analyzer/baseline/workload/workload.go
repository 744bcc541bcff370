// Package workload generates the tools that measure the analyzer of schemas, for go benchmarks and for pave bench.
package workload

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"pave/flows"
)

// The shape of the generated tools.
const (
	fieldNames     = 40
	requiredInputs = 2
	outputs        = 4
	seed           = 7
)

var types = []string{`{"type":"integer"}`, `{"type":"string"}`, `{"type":"number"}`, `{"type":"boolean"}`}

// Tools are n tools of two required inputs and four outputs each, drawn from 40 field names of a fixed type each. The same
// n always gives the same tools.
func Tools(n int) []*flows.Tool {
	random := rand.New(rand.NewPCG(seed, seed))
	out := make([]*flows.Tool, n)
	for i := range out {
		out[i] = &flows.Tool{Name: fmt.Sprintf("tool_%03d", i), Description: "Generated.",
			InputSchema: schema(random.Perm(fieldNames)[:requiredInputs]), OutputSchema: schema(random.Perm(fieldNames)[:outputs])}
	}
	return out
}

func schema(fields []int) flows.RawSchema {
	properties, required := make([]string, len(fields)), make([]string, len(fields))
	for i, f := range fields {
		required[i] = fmt.Sprintf("%q", fmt.Sprintf("field_%02d", f))
		properties[i] = required[i] + ":" + types[f%len(types)]
	}
	return flows.RawSchema(`{"type":"object","properties":{` + strings.Join(properties, ",") + `},"required":[` + strings.Join(required, ",") + `]}`)
}
