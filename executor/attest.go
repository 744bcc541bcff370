package executor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"pave/flows"
	"pave/flows/value"
)

// Defaults of AttestOptions.
const (
	DefaultAttestInputs  = 10
	DefaultAttestRepeats = 3
)

// AttestOptions says how often a flow is run to see whether it is deterministic.
type AttestOptions struct {
	Inputs  []map[string]any  // run first
	N       int               // inputs in all, the rest generated from the input schema; 0 means DefaultAttestInputs
	Repeats int               // runs of each input, at least 2; 0 means DefaultAttestRepeats
	Seed    uint64            // of generated inputs
	Force   bool              // also with tools that have side effects, or unknown ones
	Host    map[string]string // copied into the report
}

// Attestation is a report on observed determinism: it says what was seen, not what must be.
type Attestation struct {
	FlowName              string            `json:"flow_name"`
	FlowVersion           string            `json:"flow_version"`
	FlowFingerprint       string            `json:"flow_fingerprint"` // the flow's digest
	ToolFingerprints      map[string]string `json:"tool_fingerprints"`
	Seed                  uint64            `json:"seed"`
	Inputs                int               `json:"inputs"`
	Repeats               int               `json:"repeats"`
	Host                  map[string]string `json:"host"`
	AttestedAt            time.Time         `json:"attested_at"`
	ObservedDeterministic bool              `json:"observed_deterministic"`
	// AggregateFingerprint is the SHA-256 of the sorted output fingerprints of the inputs, joined with "|".
	AggregateFingerprint string             `json:"aggregate_fingerprint"`
	Divergences          []AttestDivergence `json:"divergences"`
}

// AttestDivergence is an input whose runs did not agree, or did not succeed. DivergingStep is the first step whose
// record differs or failed, -1 when none does.
type AttestDivergence struct {
	InputIndex    int            `json:"input_index"`
	InputPayload  map[string]any `json:"input_payload"`
	DivergingStep int            `json:"diverging_step"`
	ErrorMessage  string         `json:"error_message"`
}

// Attest runs a flow several times on each of several inputs and compares the outputs. Tools that are not known to be
// read-only are refused unless forced. The error is a *flows.Error: what was refused, or flows.CWAttestationInput when
// there is neither an input nor a schema to make one from.
func (e *Engine) Attest(ctx context.Context, plan *Plan, o AttestOptions) (*Attestation, error) {
	if err := plan.readOnly("attest", o.Force); err != nil {
		return nil, err
	}
	if o.N <= 0 {
		o.N = max(DefaultAttestInputs, len(o.Inputs))
	}
	if o.Repeats == 0 {
		o.Repeats = DefaultAttestRepeats
	}
	if o.Repeats < 2 {
		return nil, flows.NewError(flows.CodeInvalid, fmt.Sprintf("repeats must be at least 2, got %d: one run agrees with itself", o.Repeats))
	}
	inputs, err := plan.attestInputs(o)
	if err != nil {
		return nil, err
	}
	a := &Attestation{FlowName: plan.flow.Name, FlowVersion: plan.flow.Version, FlowFingerprint: flows.Digest(plan.flow), ToolFingerprints: plan.hashes, Seed: o.Seed,
		Inputs: len(inputs), Repeats: o.Repeats, Host: o.Host, AttestedAt: stamp(e.now()), ObservedDeterministic: true, Divergences: []AttestDivergence{}}
	var prints []string
	for i, input := range inputs {
		var first *RunResult
		for range o.Repeats {
			r := e.afresh(ctx, plan, input)
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			if first == nil {
				first = r
				prints = append(prints, fingerprintOf(r))
			}
			if d := divergence(first, r); d != nil {
				d.InputIndex, d.InputPayload = i, input
				a.Divergences = append(a.Divergences, *d)
				break
			}
		}
	}
	a.ObservedDeterministic = len(a.Divergences) == 0
	slices.Sort(prints)
	a.AggregateFingerprint = sha256Hex([]byte(strings.Join(prints, "|")))
	return a, nil
}

// afresh runs a plan without cache and checkpoints.
func (e *Engine) afresh(ctx context.Context, plan *Plan, input map[string]any) *RunResult {
	ctx, cancel := context.WithTimeoutCause(ctx, e.limits.MaxRunTime, errRunTime)
	defer cancel()
	r := e.newRun(ctx, plan, RunInput{Input: input})
	r.replay = &replay{}
	r.start()
	return r.result
}

func fingerprintOf(r *RunResult) string {
	return sha256Hex(value.Canonical(r.FinalOutput))
}

func sha256Hex(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// divergence compares a run with the first of its input; nil when both succeeded alike.
func divergence(first, r *RunResult) *AttestDivergence {
	diffs := compareResults(first, r)
	if len(diffs) > 0 {
		step := -1
		if i := slices.IndexFunc(diffs, func(d StepDiff) bool { return d.StepIndex >= 0 }); i >= 0 {
			step = diffs[i].StepIndex
		}
		return &AttestDivergence{DivergingStep: step, ErrorMessage: fmt.Sprintf("runs differ in %s: %s, then %s", diffs[0].Field, value.Encode(diffs[0].Expected), value.Encode(diffs[0].Actual))}
	}
	if r.Success {
		return nil
	}
	d := &AttestDivergence{DivergingStep: -1, ErrorMessage: "the run ended as " + r.Status}
	for i := range r.ExecutionLog {
		if rec := &r.ExecutionLog[i]; !rec.Success {
			d.DivergingStep, d.ErrorMessage = rec.StepIndex, *rec.ErrorMessage
			break
		}
	}
	return d
}

func (p *Plan) attestInputs(o AttestOptions) ([]map[string]any, error) {
	inputs := slices.Clone(o.Inputs)
	if len(inputs) >= o.N {
		return inputs[:o.N], nil
	}
	raw := p.InputSchema()
	if p.inferred != nil && len(o.Inputs) == 0 && p.readsNothing() {
		return []map[string]any{{}}, nil
	}
	if len(raw) == 0 {
		if len(inputs) > 0 {
			return inputs, nil
		}
		return nil, &flows.Error{Code: flows.CodeInvalid, Err: flows.CWAttestationInput, Message: fmt.Sprintf("flow '%s' has no input schema to make inputs from; give inputs", p.flow.Name)}
	}
	doc, err := value.Decode(raw)
	if err != nil {
		return nil, flows.NewError(flows.CodeInvalid, "input schema: "+err.Error())
	}
	g := &generator{state: o.Seed, root: doc}
	for len(inputs) < o.N {
		input, _ := g.value(doc, maxGeneratedDepth).(map[string]any)
		if input == nil {
			input = map[string]any{}
		}
		inputs = append(inputs, input)
	}
	return inputs, nil
}

// readsNothing reports whether a flow without an input schema needs no input.
func (p *Plan) readsNothing() bool {
	v, err := value.Decode(p.inferred)
	m, _ := v.(map[string]any)
	properties, _ := m["properties"].(map[string]any)
	return err == nil && len(properties) == 0
}
