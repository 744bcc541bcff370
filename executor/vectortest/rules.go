package vectortest

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"pave/flows"
	"pave/flows/predicate"
	"pave/flows/schema"
	"pave/flows/value"
)

// rule is one decision of pave that changes what a vector of the reference expects. rewrite returns the expected
// outcome under the rule, nil where the rule does not apply.
type rule struct {
	name    string
	rewrite func(v *Vector, f *flowDoc, expect map[string]any) map[string]any
}

// rules in the order of application; names are those of the table of decisions.
var rules = []rule{
	{"R5", predicatesParseEarly},
	{"R5", typeErrorsAreResults},
	{"R2", skippedMergesNothing},
	{"R1", failureIsAResult},
	{"R6", subflowsAreSteps},
	{"R3", fallbackMeetsContract},
	{"R14", fallbackMeetsGuardrail},
	{"R12", strictIndexes},
	{"R13", inputsAreValidatedOnce},
	{"R16", filterIsExact},
	{"R23", integersStayExact},
	{"R28", flowInputIsCoerced},
	{"R17", inputsAreCoerced},
	{"R19", onlyFinishedStepsSave},
}

// flowDoc is what rules read of a flow file.
type flowDoc struct {
	Name             string    `json:"name"`
	Type             string    `json:"type"`
	FormatVersion    string    `json:"format_version"`
	InputSchemaRef   string    `json:"input_schema_ref"`
	OutputSchemaRef  string    `json:"output_schema_ref"`
	ContextSchemaRef string    `json:"context_schema_ref"`
	Steps            []stepDoc `json:"steps"`
}

type stepDoc struct {
	ToolName       string                     `json:"tool_name"`
	FlowName       string                     `json:"flow_name"`
	StepID         string                     `json:"step_id"`
	DependsOn      []string                   `json:"depends_on"`
	OnError        string                     `json:"on_error"`
	InputContract  string                     `json:"input_contract"`
	OutputContract string                     `json:"output_contract"`
	InputMapping   map[string]json.RawMessage `json:"input_mapping"`
	OutputMapping  map[string]string          `json:"output_mapping"`
	Branches       []struct{ Predicate string }
	Retry          *struct {
		RetryableErrors []string `json:"retryable_errors"`
	} `json:"retry"`
}

// name is what the step's records are called.
func (s *stepDoc) name() string {
	if s.FlowName != "" {
		return s.FlowName
	}
	return s.ToolName
}

// flowDoc reads the vector's flow, its steps as they are declared.
func (v *Vector) flowDoc() *flowDoc {
	doc := new(flowDoc)
	_ = json.Unmarshal(v.Flow, doc) // what is malformed is for the codec to refuse
	return doc
}

// inOrder puts the steps in the order of their records.
func (v *Vector) inOrder(doc *flowDoc) *flowDoc {
	flow, _, err := flows.ParseFlow(v.Flow)
	if err != nil {
		return doc
	}
	levels, err := flows.Levels(flow)
	if err != nil {
		return doc
	}
	out := *doc
	out.Steps = nil
	for _, at := range slices.Concat(levels...) {
		out.Steps = append(out.Steps, doc.Steps[at])
	}
	return &out
}

// compare holds the actual outcome against the expected one as it is, then against what the rules make of it.
func (v *Vector) compare(expect, actual map[string]any) (Verdict, string) {
	diffs := differences(expect, actual)
	if len(diffs) == 0 {
		return Exact, ""
	}
	doc := v.inOrder(v.flowDoc())
	var applied []string
	for _, r := range rules {
		if rewritten := overRuns(expect, func(expect map[string]any) map[string]any { return r.rewrite(v, doc, expect) }); rewritten != nil && !value.Equal(rewritten, expect) {
			expect = rewritten
			if !slices.Contains(applied, r.name) {
				applied = append(applied, r.name)
			}
		}
	}
	if len(applied) == 0 {
		return Fail, strings.Join(diffs, "; ")
	}
	note := strings.Join(applied, " ")
	if diffs := differences(expect, actual); len(diffs) > 0 {
		return Fail, "after " + note + ": " + strings.Join(diffs, "; ")
	}
	return Divergence, note
}

// overRuns applies a rule to an outcome, or to each of several.
func overRuns(expect map[string]any, rewrite func(map[string]any) map[string]any) map[string]any {
	runs, several := expect["runs"].([]any)
	if !several {
		return rewrite(expect)
	}
	out := make([]any, len(runs))
	for i := range runs {
		out[i] = runs[i]
		if rewritten := rewrite(runs[i].(map[string]any)); rewritten != nil {
			out[i] = rewritten
		}
	}
	return map[string]any{"runs": out}
}

// predicatesParseEarly (R5): a flow with a predicate that does not parse is refused when it is loaded.
func predicatesParseEarly(_ *Vector, f *flowDoc, _ map[string]any) map[string]any {
	var details []any
	for _, step := range f.Steps {
		for _, b := range step.Branches {
			if _, err := predicate.Parse(b.Predicate); err != nil {
				details = append(details, predicate.Code)
			}
		}
	}
	if details == nil {
		return nil
	}
	return map[string]any{"registration_error": map[string]any{
		"code": flows.CWFlowSerialization.Code, "type": flows.CWFlowSerialization.Class, "details": details}}
}

// typeErrorsAreResults (R5): a branch that compares what has no order fails its step with CW-E036.
func typeErrorsAreResults(_ *Vector, f *flowDoc, expect map[string]any) map[string]any {
	r, _ := raised(expect)
	branches := slices.ContainsFunc(f.Steps, func(s stepDoc) bool { return len(s.Branches) > 0 })
	if r["chainweaver_error"] != false || r["type"] != "TypeError" || !branches {
		return nil
	}
	return failedLast(map[string]any{"error_code": predicate.Code, "error_type": flows.CWPredicateSyntax.Class})
}

// failedLast is a failed run whose last record has the fields.
func failedLast(record map[string]any) map[string]any {
	record["success"] = false
	return map[string]any{"success": false, "status": "failed", "final_output": nil, "last_step": record}
}

func raised(expect map[string]any) (map[string]any, string) {
	r, _ := expect["raised"].(map[string]any)
	code, _ := r["code"].(string)
	return r, code
}

// skippedMergesNothing (R2): a skipped step with an output mapping succeeds and the flow goes on.
func skippedMergesNothing(v *Vector, f *flowDoc, expect map[string]any) map[string]any {
	r, code := raised(expect)
	index, _ := r["step_index"].(int64)
	if code != flows.CWOutputMapping.Code || int(index) >= len(f.Steps) || !noneAvailable(r) || !v.skips(&f.Steps[index]) {
		return nil
	}
	record := map[string]any{"step_index": index, "tool_name": r["tool_name"], "success": true, "skipped": true, "outputs": map[string]any{}}
	if len(f.Steps) == 1 {
		return map[string]any{"success": true, "status": "succeeded", "steps": []any{record}}
	}
	return map[string]any{"record": map[string]any{"at": index, "is": record}}
}

// skips reports whether a step that gave no outputs was skipped: by its on_error, or by a dry run that cannot call its
// tool.
func (v *Vector) skips(s *stepDoc) bool {
	tool := v.tool(s.ToolName)
	if string(v.Call["dry_run"]) == "true" && tool != nil && string(tool.DryRunFn) == "" {
		if contract, err := tool.contract(); err == nil && !contract.ReadOnly() {
			return true
		}
	}
	return s.OnError == "skip" && !v.answers(s.ToolName)
}

// answers reports whether a tool always answers with what its output schema takes.
func (v *Vector) answers(name any) bool {
	tool := v.tool(name)
	if tool == nil {
		return false
	}
	fn, _ := decoded(tool.Fn).(map[string]any)
	return fn["kind"] == "const" && fitsSchema(tool.OutputSchema, fn["value"])
}

// noneAvailable reports whether an output mapping failed on empty outputs.
func noneAvailable(raised map[string]any) bool {
	available, ok := raised["available"].([]any)
	return ok && len(available) == 0
}

// failureIsAResult (R1): what left the reference's run as an exception is a failed record; the records before it are
// kept. Within a sub-flow it fails that flow's step.
func failureIsAResult(v *Vector, f *flowDoc, expect map[string]any) map[string]any {
	r, code := raised(expect)
	if code == flows.CWFlowSerialization.Code {
		return v.unresolvedIsAResult(f)
	}
	if code == flows.CWDecisionBudget.Code {
		return failedLast(map[string]any{"error_code": code, "error_type": r["type"], "error_message": r["message"], "inputs": map[string]any{}})
	}
	if code != flows.CWContextCollision.Code && code != flows.CWOutputMapping.Code {
		return nil
	}
	index, _ := r["step_index"].(int64)
	name := r["tool_name"]
	if name == nil {
		name = r["step_name"]
	}
	switch {
	case r["flow_name"] != nil && r["flow_name"] != f.Name:
		return failedLast(map[string]any{"error_code": flows.CWFlowExecution.Code, "error_type": flows.CWFlowExecution.Class})
	case f.Type == flows.TypeDAGFlow && code == flows.CWContextCollision.Code:
		// The reference names the level; pave names the step that collides.
		return failedLast(map[string]any{"error_code": code, "error_type": r["type"]})
	case f.Type != flows.TypeDAGFlow && (int(index) >= len(f.Steps) || f.Steps[index].name() != name):
		return failedLast(map[string]any{"error_code": flows.CWFlowExecution.Code, "error_type": flows.CWFlowExecution.Class})
	}
	steps := make([]any, index+1)
	for i := range index {
		steps[i] = map[string]any{"step_index": i, "success": true}
	}
	last := map[string]any{"step_index": index, "tool_name": name, "success": false, "error_code": code, "error_type": r["type"]}
	if keys, _ := r["keys"].([]any); len(keys) < 2 { // the order of undeclared keys is nobody's contract
		last["error_message"] = r["message"]
	}
	steps[index] = last
	return map[string]any{"success": false, "status": "failed", "final_output": nil, "steps": steps}
}

// subflowsAreSteps (R6): a sub-flow that is refused is a failed record; on_error and retry hold for sub-flow steps.
func subflowsAreSteps(v *Vector, f *flowDoc, expect map[string]any) map[string]any {
	if r, code := raised(expect); code == flows.CWFlowStatus.Code && r["flow_name"] != f.Name {
		return map[string]any{"success": false, "status": "failed", "final_output": nil, "last_step": map[string]any{
			"tool_name": r["flow_name"], "success": false, "error_code": flows.CWFlowExecution.Code, "sub_result": nil}}
	}
	steps, _ := expect["steps"].([]any)
	if len(steps) == 0 {
		return nil
	}
	last := steps[len(steps)-1].(map[string]any)
	i := len(steps) - 1
	if i >= len(f.Steps) || f.Steps[i].FlowName == "" || last["success"] == true || last["sub_result"] == nil {
		return nil
	}
	step := map[string]any{"tool_name": last["tool_name"], "flow_name": last["flow_name"], "inputs": last["inputs"]}
	fallback, isFallback := strings.CutPrefix(f.Steps[i].OnError, "fallback:")
	switch {
	case isFallback:
		step["fallback_used"], step["fallback_tool_name"] = true, fallback
		if tool := v.tool(fallback); tool != nil && f.Steps[i].OutputMapping == nil {
			_, step["success"] = apply(tool.InputSchema, last["inputs"])
		}
	case f.Steps[i].OnError == "skip":
		step["success"], step["skipped"], step["outputs"] = true, true, map[string]any{}
	default:
		return nil
	}
	return map[string]any{"record": map[string]any{"at": int64(i), "is": step}}
}

// fallbackMeetsContract (R3): a fallback's output that violates the output contract fails the step.
func fallbackMeetsContract(v *Vector, f *flowDoc, expect map[string]any) map[string]any {
	return eachStep(expect, func(i int, step map[string]any, out map[string]any) {
		if step["fallback_used"] != true || step["success"] != true || i >= len(f.Steps) {
			return
		}
		contract, ok := v.Schemas[f.Steps[i].OutputContract]
		if ok && fitsSchema(contract, step["outputs"]) || f.Steps[i].OutputContract == "" {
			return
		}
		refused := flows.CWSchemaValidation
		if !ok { // R1: a reference that nothing resolves
			refused = flows.CWFlowSerialization
		}
		maps.Copy(step, map[string]any{"success": false, "outputs": nil, "error_code": refused.Code, "error_type": refused.Class})
		delete(step, "error_message")
		endsAt(out, i)
	})
}

// endsAt makes a result end with its i-th record, which fails.
func endsAt(out map[string]any, i int) {
	out["success"], out["final_output"] = false, nil
	delete(out, "cost_report") // of more steps than are left
	if steps, ok := out["steps"].([]any); ok && i < len(steps) {
		out["steps"] = steps[:i+1]
	}
}

// fallbackMeetsGuardrail (R14): the input guardrail sees a fallback's inputs too.
func fallbackMeetsGuardrail(v *Vector, _ *flowDoc, expect map[string]any) map[string]any {
	var config guardrail
	if json.Unmarshal(v.Executor["guardrail"], &config) != nil {
		return nil
	}
	return eachStep(expect, func(i int, step map[string]any, out map[string]any) {
		fallback, _ := step["fallback_tool_name"].(string)
		code, _ := step["error_code"].(string)
		asked := code != flows.CWToolNotFound.Code && code != flows.CWSafetyCeiling.Code && code != flows.CWApprovalDenied.Code
		if step["fallback_used"] != true || !asked || !slices.Contains(config.BlockTools, fallback) {
			return
		}
		maps.Copy(step, map[string]any{"success": false, "skipped": false, "outputs": nil, "error_code": flows.CWGuardrail.Code, "error_type": flows.CWGuardrail.Class})
		delete(step, "error_message")
		endsAt(out, i)
	})
}

// strictIndexes (R12): a pointer whose array index is not RFC 6901 leads nowhere.
func strictIndexes(v *Vector, f *flowDoc, expect map[string]any) map[string]any {
	input, err := value.Decode(v.Input)
	if err != nil {
		return nil
	}
	for i, step := range f.Steps {
		if records, _ := expect["steps"].([]any); i >= len(records) {
			break
		}
		for _, raw := range step.InputMapping {
			var text string
			if json.Unmarshal(raw, &text) != nil || !strings.HasPrefix(text, "/") {
				continue
			}
			p, err := value.ParsePointer(text)
			if err != nil {
				continue
			}
			missing := p.Missing(input)
			parent := p[:max(0, len(missing)-1)]
			if at, ok := parent.Get(input); ok && len(missing) > 0 {
				if _, isList := at.([]any); isList {
					return map[string]any{"success": false, "final_output": nil, "steps": []any{map[string]any{
						"step_index": int64(i), "success": false, "error_code": flows.CWInputMapping.Code, "inputs": map[string]any{}}}}
				}
			}
		}
	}
	return nil
}

// inputsAreValidatedOnce (R13): inputs that do not fit are reported once, without retries.
func inputsAreValidatedOnce(v *Vector, _ *flowDoc, expect map[string]any) map[string]any {
	return deepStep(expect, func(step map[string]any) {
		if tool := v.tool(step["tool_name"]); tool == nil || !isPositive(step["retry_count"]) || fitsSchema(tool.InputSchema, step["inputs"]) {
			return
		}
		attempts, _ := step["retry_count"].(int64)
		errors := step["retry_errors"].([]any)
		step["retry_count"] = int64(0)
		step["retry_errors"] = slices.Delete(slices.Clone(errors), 1, min(int(attempts)+1, len(errors))) // the fallback's stays
	})
}

// inputsAreCoerced (R17): a record's inputs are the ones that the tool received.
func inputsAreCoerced(v *Vector, _ *flowDoc, expect map[string]any) map[string]any {
	return deepStep(expect, func(step map[string]any) {
		message, _ := step["error_message"].(string)
		code, _ := step["error_code"].(string)
		early := code == flows.CWToolNotFound.Code && step["fallback_used"] != true || code == flows.CWInputMapping.Code || strings.Contains(message, "step_input_contract")
		tool := v.tool(step["tool_name"])
		if tool == nil || early {
			return
		}
		if inputs, ok := apply(tool.InputSchema, step["inputs"]); ok {
			step["inputs"] = inputs
		}
	})
}

// onlyFinishedStepsSave (R19): avoided calls count the steps that succeeded and were not skipped.
func onlyFinishedStepsSave(v *Vector, _ *flowDoc, expect map[string]any) map[string]any {
	report, ok := expect["cost_report"].(map[string]any)
	if !ok {
		return nil
	}
	avoided := float64(max(0, finishedSteps(expect)-1))
	profile := report["profile"].(map[string]any)
	number := func(key string) float64 { f, _ := profile[key].(float64); return f }
	report = maps.Clone(report)
	report["llm_calls_avoided"] = int64(avoided)
	report["latency_saved_ms"] = avoided * number("avg_llm_latency_ms")
	report["cost_saved_usd"] = avoided * number("avg_tokens_per_call") * number("cost_per_token_usd")
	out := eachStep(expect, func(_ int, step, _ map[string]any) {
		if sub, ok := step["sub_result"].(map[string]any); ok {
			step["sub_result"] = onlyFinishedStepsSave(v, nil, sub)
		}
	})
	out["cost_report"] = report
	return out
}

// finishedSteps counts the steps that succeeded without being skipped, those of sub-flows in place of their step.
func finishedSteps(result map[string]any) int {
	n := 0
	steps, _ := result["steps"].([]any)
	for _, s := range steps {
		step := s.(map[string]any)
		if sub, ok := step["sub_result"].(map[string]any); ok {
			n += finishedSteps(sub)
		} else if step["success"] == true && step["skipped"] != true {
			n++
		}
	}
	return n
}

// eachStep copies expect and lets edit change the copy's steps, and the copy itself.
func eachStep(expect map[string]any, edit func(i int, step, out map[string]any)) map[string]any {
	steps, ok := expect["steps"].([]any)
	if !ok {
		return nil
	}
	out := maps.Clone(expect)
	edited := make([]any, len(steps))
	for i, s := range steps {
		edited[i] = maps.Clone(s.(map[string]any))
	}
	out["steps"] = edited
	for i, step := range edited {
		edit(i, step.(map[string]any), out)
	}
	return out
}

// deepStep is eachStep that goes into the results of sub-flows too; their steps have no place in the flow.
func deepStep(expect map[string]any, edit func(step map[string]any)) map[string]any {
	return eachStep(expect, func(_ int, step, _ map[string]any) {
		edit(step)
		if sub, ok := step["sub_result"].(map[string]any); ok {
			if edited := deepStep(sub, edit); edited != nil {
				step["sub_result"] = edited
			}
		}
	})
}

func (v *Vector) tool(name any) *toolSpec {
	for i := range v.Tools {
		if v.Tools[i].Name == name {
			return &v.Tools[i]
		}
	}
	return nil
}

func apply(raw json.RawMessage, v any) (map[string]any, bool) {
	s, err := schema.Compile(raw)
	if err != nil {
		return nil, false
	}
	out, violations := s.Apply(v)
	object, isObject := out.(map[string]any)
	return object, len(violations) == 0 && isObject
}

func isPositive(v any) bool {
	n, ok := v.(int64)
	return ok && n > 0
}

func fitsSchema(raw json.RawMessage, v any) bool {
	_, ok := apply(raw, v)
	return ok
}
