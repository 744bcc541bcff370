package vectortest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"pave/executor"
	"pave/executor/bind/local"
	"pave/flows"
	"pave/flows/value"
)

// Run runs one vector. now is the clock of records; their times are not compared.
func Run(v *Vector, now func() time.Time) Outcome {
	out := Outcome{ID: v.ID}
	verdict, note, err := v.run(now)
	if err != nil {
		verdict, note = Fail, err.Error()
	}
	out.Verdict, out.Note = verdict, note
	return out
}

func (v *Vector) run(now func() time.Time) (Verdict, string, error) {
	expect, ok := v.expectValues.(map[string]any)
	if !ok {
		return Fail, "expect is no object", nil
	}
	switch {
	case v.Kind != "":
		return v.runKind(expect)
	case expect["errors"] != nil:
		return v.runCompile(expect)
	}
	actual, err := v.execute(now)
	if err != nil {
		return Fail, "", err
	}
	verdict, note := v.compare(expect, actual)
	return verdict, note, nil
}

// execute runs the vector's flow and returns the result in the vectors' form.
func (v *Vector) execute(now func() time.Time) (map[string]any, error) {
	w, err := v.world()
	if err != nil {
		return nil, err
	}
	if refused, err := v.registered(); refused != nil || err != nil {
		return refused, err
	}
	flow, refused, err := v.load()
	if flow == nil {
		return refused, err
	}
	var call struct {
		Force             bool
		DryRun            bool           `json:"dry_run"`
		DryRunUnsupported string         `json:"dry_run_unsupported"`
		DynamicParams     map[string]any `json:"dynamic_params"`
	}
	if data, err := json.Marshal(v.Call); err != nil || json.Unmarshal(data, &call) != nil {
		return nil, fmt.Errorf("call: %v", err)
	}
	in := executor.RunInput{DryRun: call.DryRun, DryRunUnsupported: call.DryRunUnsupported, DynamicParams: call.DynamicParams}
	if in.Check() != nil { // the reference raises a bare ValueError
		return v.overRepeat(map[string]any{"raised": map[string]any{"type": "ValueError", "code": nil}}), nil
	}
	var cw flows.CWError
	if err := executor.Gate(flow, call.Force); errors.As(err, &cw) {
		return v.overRepeat(map[string]any{"raised": map[string]any{"code": cw.Code, "type": cw.Class, "flow_name": flow.Name, "status": string(flow.Status)}}), nil
	}
	plan, refused, err := v.plan(w, flow)
	if plan == nil {
		return v.overRepeat(refused), err
	}
	engine, err := v.engine(w, now)
	if err != nil {
		return nil, err
	}
	input, err := value.Decode(v.Input)
	if err != nil {
		return nil, fmt.Errorf("input: %w", err)
	}
	object, ok := input.(map[string]any)
	if !ok {
		return nil, errors.New("input is no object")
	}
	in.Input = object
	if v.Repeat < 2 {
		return resultForm(engine.Run(context.Background(), plan, in))
	}
	var runs []any
	for range v.Repeat {
		form, err := resultForm(engine.Run(context.Background(), plan, in))
		if err != nil {
			return nil, err
		}
		runs = append(runs, form)
	}
	return map[string]any{"runs": runs}, nil
}

// overRepeat is the outcome of a refused call, once for each time that a vector repeats it.
func (v *Vector) overRepeat(refused map[string]any) map[string]any {
	if v.Repeat < 2 || refused == nil {
		return refused
	}
	return map[string]any{"runs": slices.Repeat([]any{refused}, v.Repeat)}
}

// registered registers the flows that the vector's flow calls. A refusal is in the vectors' form.
func (v *Vector) registered() (refused map[string]any, err error) {
	have := map[string]bool{}
	for _, raw := range append(slices.Clone(v.Subflows), v.Flow) {
		flow, refused, err := register(raw)
		if flow == nil {
			return refused, err
		}
		key := flow.Name + "@" + flow.Version
		if have[key] {
			return map[string]any{"registration_error": map[string]any{"code": flows.CWFlowExists.Code, "type": flows.CWFlowExists.Class, "flow_name": flow.Name}}, nil
		}
		have[key] = true
	}
	return nil, nil
}

// plan compiles the flow with the flows that it calls. A composition that is refused is in the vectors' form.
func (v *Vector) plan(w *world, flow *flows.Flow) (plan *executor.Plan, refused map[string]any, err error) {
	set, err := v.flowSet(flow)
	if err != nil {
		return nil, nil, err
	}
	depth, err := v.compositionDepth()
	if err != nil {
		return nil, nil, err
	}
	var ce *executor.CompositionError
	if err := executor.CheckComposition(flow, set, depth); errors.As(err, &ce) {
		return nil, map[string]any{"raised": map[string]any{"code": flows.CWFlowComposition.Code, "type": flows.CWFlowComposition.Class,
			"flow_name": ce.Flow, "reason": ce.Reason, "message": ce.Error()}}, nil
	}
	plan, diagnostics := executor.Compile(flow, w.tools, executor.CompileOptions{Schemas: w.schemas, Flows: set, MaxCompositionDepth: depth})
	if plan == nil {
		return nil, nil, fmt.Errorf("no plan: %v", diagnostics)
	}
	return plan, nil, nil
}

// load registers the vector's flow: reads it and checks its topology. A refusal is in the vectors' form.
func (v *Vector) load() (flow *flows.Flow, refused map[string]any, err error) {
	return register(v.Flow)
}

func register(raw json.RawMessage) (flow *flows.Flow, refused map[string]any, err error) {
	flow, _, err = flows.ParseFlow(raw)
	if err == nil {
		_, err = flows.Levels(flow)
	}
	if err == nil {
		return flow, nil, nil
	}
	var cw flows.CWError
	if !errors.As(err, &cw) {
		return nil, nil, fmt.Errorf("flow does not load: %w", err)
	}
	form := map[string]any{"code": cw.Code, "type": cw.Class}
	var te *flows.TopologyError
	var e *flows.Error
	switch {
	case errors.As(err, &te):
		form["reason"], form["flow_name"] = te.Reason, te.Flow
	case errors.As(err, &e):
		var details []any
		for _, d := range e.Details {
			details = append(details, d.Code)
		}
		form["details"] = details
	}
	return nil, map[string]any{"registration_error": form}, nil
}

// flowSet are the flows of a vector; the highest version of a name is its active one.
type flowSet []*flows.Flow

func (s flowSet) Flow(name, version string) (*flows.Flow, bool) {
	var found *flows.Flow
	for _, f := range s {
		if f.Name != name || version != "" && f.Version != version {
			continue
		}
		if found == nil || newer(f.Version, found.Version) {
			found = f
		}
	}
	return found, found != nil
}

func newer(a, b string) bool {
	x, errX := flows.ParseVersion(a)
	y, errY := flows.ParseVersion(b)
	return errX == nil && errY == nil && x.Compare(y) > 0
}

func (v *Vector) flowSet(main *flows.Flow) (flowSet, error) {
	set := flowSet{main}
	for _, raw := range v.Subflows {
		f, _, err := flows.ParseFlow(raw)
		if err != nil {
			return nil, fmt.Errorf("sub-flow does not load: %w", err)
		}
		set = append(set, f)
	}
	return set, nil
}

// compositionDepth is the vector's limit as CompileOptions writes it.
func (v *Vector) compositionDepth() (int, error) {
	raw, ok := v.Executor["max_composition_depth"]
	if !ok {
		return 0, nil
	}
	var depth int
	if err := json.Unmarshal(raw, &depth); err != nil {
		return 0, fmt.Errorf("max_composition_depth: %w", err)
	}
	if depth == 0 {
		depth = -1
	}
	return depth, nil
}

func (v *Vector) engine(w *world, now func() time.Time) (*executor.Engine, error) {
	opts := executor.Options{
		Invoker: executor.NewMux(map[string]executor.Invoker{local.Kind: w.registry}),
		Now:     now,
		NewID:   func() string { return "vector" },
		Sleep:   func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
	}
	if raw, ok := v.Executor["cost_profile"]; ok {
		profile := executor.DefaultCostProfile
		if err := json.Unmarshal(raw, &profile); err != nil {
			return nil, fmt.Errorf("cost_profile: %w", err)
		}
		opts.CostProfile = &profile
	}
	for option, into := range map[string]any{"max_side_effect_level": &opts.MaxSideEffects, "strict_safety": &opts.StrictSafety} {
		if raw, ok := v.Executor[option]; ok {
			if err := json.Unmarshal(raw, into); err != nil {
				return nil, fmt.Errorf("%s: %w", option, err)
			}
		}
	}
	if err := v.seams(&opts, now); err != nil {
		return nil, err
	}
	return executor.New(opts), nil
}

// resultForm is a result as vectors write it: plain JSON with the log under steps.
func resultForm(result *executor.RunResult) (map[string]any, error) {
	data, err := json.Marshal(result)
	if err != nil {
		return nil, err
	}
	v, err := value.Decode(data)
	if err != nil {
		return nil, err
	}
	return inVectorForm(v.(map[string]any)), nil
}

func inVectorForm(result map[string]any) map[string]any {
	steps, _ := result["execution_log"].([]any)
	for _, s := range steps {
		step := s.(map[string]any)
		if sub, ok := step["sub_result"].(map[string]any); ok {
			step["sub_result"] = inVectorForm(sub)
		}
	}
	result["steps"] = result["execution_log"]
	delete(result, "execution_log")
	return result
}

// runKind runs the vectors that are no executions.
func (v *Vector) runKind(expect map[string]any) (Verdict, string, error) {
	var actual map[string]any
	switch v.Kind {
	case "backoff":
		policy := flows.RetryPolicy{BackoffSeconds: 1, BackoffMultiplier: 2}
		if data, err := json.Marshal(v.Policy); err != nil {
			return Fail, "", err
		} else if err := json.Unmarshal(data, &struct {
			Seconds    *float64 `json:"backoff_seconds"`
			Multiplier *float64 `json:"backoff_multiplier"`
		}{&policy.BackoffSeconds, &policy.BackoffMultiplier}); err != nil {
			return Fail, "", err
		}
		var delays []any
		for k := range len(expect["delays"].([]any)) {
			delays = append(delays, executor.Backoff(&policy, k, 1).Seconds())
		}
		// Delays are durations here, which have nanoseconds.
		expect = map[string]any{"delays": roundNano(expect["delays"].([]any))}
		actual = map[string]any{"delays": roundNano(delays)}
	case "policy_validation", "on_error_validation", "step_validation":
		return v.runLoad(expect)
	case "formula":
		profile := executor.DefaultCostProfile
		data, err := json.Marshal(v.Profile)
		if err == nil {
			err = json.Unmarshal(data, &profile)
		}
		if err != nil {
			return Fail, "", err
		}
		if actual, err = plain(executor.NewCostReport(profile, v.Steps, v.Steps, v.ActualMS)); err != nil {
			return Fail, "", err
		}
	case "provider":
		profile, err := executor.PricedProfile(executor.DefaultPrices(), executor.ModelKey{Provider: v.Provider, Model: v.Model}, v.OutputShare)
		if err != nil {
			return Fail, "", err
		}
		if actual, err = plain(profile); err != nil {
			return Fail, "", err
		}
	case "invalid":
		_, err := executor.PricedProfile(executor.DefaultPrices(), executor.ModelKey{Provider: v.Args["provider"], Model: v.Args["model"]}, executor.DefaultOutputFraction)
		if err == nil {
			return Fail, "no error", nil
		}
		var cw flows.CWError
		if actual = map[string]any{"type": "ValueError", "code": nil}; errors.As(err, &cw) {
			actual = map[string]any{"type": cw.Class, "code": cw.Code}
		}
	default:
		return OutOfScope, "kind " + v.Kind, nil
	}
	if diffs := differences(expect, actual); len(diffs) > 0 {
		return Fail, strings.Join(diffs, "; "), nil
	}
	return Exact, "", nil
}

// runLoad loads a flow with the vector's retry policy or on_error.
func (v *Vector) runLoad(expect map[string]any) (Verdict, string, error) {
	step := map[string]any{"tool_name": "t"}
	if v.Step != nil {
		step = v.Step
	}
	if v.OnError != nil {
		step["on_error"] = *v.OnError
	}
	if v.Policy != nil {
		step["retry"] = v.Policy
	}
	data, err := json.Marshal(map[string]any{"type": flows.TypeFlow, "format_version": "1", "name": "f", "description": "d", "version": "1.0.0", "steps": []any{step}})
	if err != nil {
		return Fail, "", err
	}
	_, _, err = flows.ParseFlow(data)
	wantOK := expect["result"] == "ok" || expect["ok"] == true
	if (err == nil) != wantOK {
		return Fail, fmt.Sprintf("expected %v, loading gave %v", expect, err), nil
	}
	return Exact, "", nil
}

func plain(v any) (map[string]any, error) {
	out, err := value.Of(v)
	if err != nil {
		return nil, err
	}
	return out.(map[string]any), nil
}

func roundNano(seconds []any) []any {
	out := make([]any, len(seconds))
	for i, s := range seconds {
		out[i] = int64(s.(float64)*1e9 + 0.5)
	}
	return out
}
