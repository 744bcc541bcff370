package flows

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"pave/flows/predicate"
	"pave/flows/schema"
	"pave/flows/value"
)

// ParseFlow reads one flow file, JSON or YAML, within the default limits. Files of format version 1.1 must not
// have unknown fields; in files of version 1 they are ignored with a warning. Guards, predicates and schemas are
// checked. The error is an *Error that wraps CWFlowSerialization; its details point to every fault.
func ParseFlow(data []byte) (*Flow, []Warning, error) { return ParseFlowLimits(data, Limits{}) }

// ParseFlowLimits is ParseFlow with other limits.
func ParseFlowLimits(data []byte, limits Limits) (*Flow, []Warning, error) {
	limits = limits.orDefault()
	trees, err := readTrees(data, limits)
	if err != nil {
		return nil, nil, err
	}
	if len(trees) != 1 {
		return nil, nil, formatError("a flow file holds one document, not %d", len(trees))
	}
	r := &reader{what: "flow file"}
	flow, err := r.flow(trees[0], limits)
	if err != nil {
		return nil, nil, err
	}
	if err := r.err(); err != nil {
		return nil, nil, err
	}
	return flow, r.warnings, nil
}

func (r *reader) flow(doc any, limits Limits) (*Flow, error) {
	o, ok := r.object("", doc)
	if !ok {
		return nil, r.err()
	}
	f := &Flow{FormatVersion: r.formatVersion(o)}
	r.strict = f.FormatVersion != FormatVersion1
	f.Type = choice(o, "type", TypeFlow, TypeDAGFlow)
	if f.Type == "" {
		o.missing("type")
	}
	f.Name = o.needText("name")
	if f.Name == "" && len(r.details) == 0 {
		o.fail("/name", "invalid", "must not be empty")
	}
	f.Version = o.text("version", "0.1.0")
	if _, given := o.get("version"); !given && f.Type == TypeDAGFlow {
		o.missing("version")
	}
	f.Description = o.needText("description")
	o.notNull("version", "status", "deterministic", "on_context_collision", "governance", "dynamic_params")
	r.contracts(o, f)
	f.OnContextCollision = choice(o, "on_context_collision", CollisionOverwrite, CollisionWarn, CollisionError)
	f.Status = choice(o, "status", StatusActive, StatusNeedsReview, StatusDisabled)
	if _, ok := o.get("deterministic"); ok {
		deterministic := o.boolean("deterministic", true)
		f.Deterministic = &deterministic
	}
	if v, ok := o.get("trigger_conditions"); ok {
		if _, isObject := v.(value.Members); !isObject && !r.strict {
			o.fail("/trigger_conditions", "wrong_type", "must be an object")
		}
		f.TriggerConditions = value.Plain(v)
	}
	f.ToolSchemaHashes = o.textMap("tool_schema_hashes")
	f.CapabilityID = o.text("capability_id", "")
	f.Governance = r.governance(o)
	f.Safety = r.safety(o)
	f.DynamicParams = o.texts("dynamic_params")
	steps, ok := o.list("steps")
	if _, given := o.get("steps"); !given {
		o.missing("steps")
	}
	if ok && len(steps) > limits.MaxSteps {
		return nil, limitError("max_steps", limits.MaxSteps)
	}
	f.Steps = make([]Step, 0, len(steps))
	for i, s := range steps {
		f.Steps = append(f.Steps, r.step(fmt.Sprintf("/steps/%d", i), s, f.Type == TypeDAGFlow))
	}
	o.close()
	return f, nil
}

// contracts reads what the flow takes and gives.
func (r *reader) contracts(o *object, f *Flow) {
	if r.strict {
		f.InputSchema, f.OutputSchema, f.ContextSchema = r.schema(o, "input_schema"), r.schema(o, "output_schema"), r.schema(o, "context_schema")
		f.OnFailure = choice(o, "on_failure", OnFailureFail, OnFailureHandBack)
		f.Returns = r.mapping(o, "returns")
		if v, ok := o.get("returns"); ok && len(f.Returns) == 0 && typeOf(v) == "an object" {
			o.fail("/returns", "invalid", "must name at least one key; leave it out to return the whole context")
		}
		f.Evidence = o.plainMap("evidence")
	}
	f.InputSchemaRef, f.OutputSchemaRef, f.ContextSchemaRef = o.text("input_schema_ref", ""), o.text("output_schema_ref", ""), o.text("context_schema_ref", "")
	for _, key := range []string{"input_schema", "output_schema", "context_schema"} {
		_, inline := o.m.Get(key)
		if _, ref := o.get(key + "_ref"); inline && ref && r.strict {
			o.fail("/"+key, "invalid", "give %s or %s_ref, not both", key, key)
		}
	}
}

var formatVersion = regexp.MustCompile(`^\s*\+?0*1\s*(\..*)?$`)

// formatVersion accepts 1, 1.1 and "1.x": within a major version additions only. As in the base system only the text
// before the first dot says which version it is.
func (r *reader) formatVersion(o *object) string {
	v, ok := o.get("format_version")
	if !ok {
		return FormatVersion1
	}
	text, isText := v.(string)
	switch n := v.(type) {
	case int64:
		text, isText = strconv.FormatInt(n, 10), true
	case float64: // an unquoted 1.1 in YAML
		text, isText = strconv.FormatFloat(n, 'f', -1, 64), true
	}
	if !isText || !formatVersion.MatchString(text) {
		r.fail("/format_version", "invalid", "this version reads format versions 1 and 1.1, not %s", value.Encode(value.Plain(v)))
		return FormatVersion1
	}
	if _, minor, _ := strings.Cut(text, "."); strings.Trim(minor, "0") == "" {
		return FormatVersion1
	}
	return text
}

func (r *reader) schema(o *object, key string) RawSchema {
	v, ok := o.get(key)
	if !ok {
		return nil
	}
	if _, isObject := v.(value.Members); !isObject {
		o.fail(o.at(key), "wrong_type", "must be a JSON Schema object")
		return nil
	}
	raw := json.RawMessage(value.Encode(v))
	if _, err := schema.Compile(raw); err != nil {
		o.fail(o.at(key), "invalid_schema", "%v", err)
	}
	return raw
}

func (r *reader) governance(o *object) *Governance {
	v, ok := o.get("governance")
	if !ok {
		return nil
	}
	g, ok := r.object("/governance", v)
	if !ok {
		return nil
	}
	g.notNull("lifecycle", "replaces_tools", "estimated_model_calls_removed")
	out := &Governance{
		Lifecycle: choice(g, "lifecycle", LifecycleObserved, LifecycleSuggested, LifecycleDraft, LifecycleReviewed, LifecycleActive,
			LifecycleArchived, LifecycleIgnored),
		Owner:                      g.text("owner", ""),
		ReplacesTools:              g.texts("replaces_tools"),
		EstimatedModelCallsRemoved: int(g.integer("estimated_model_calls_removed", 0, 0)),
		ReviewedBy:                 g.text("reviewed_by", ""),
		ReviewNotes:                g.text("review_notes", ""),
	}
	if out.Lifecycle == "" {
		out.Lifecycle = LifecycleActive
	}
	if _, ok := g.get("estimated_token_savings"); ok {
		tokens := g.integer("estimated_token_savings", 0, 0)
		out.EstimatedTokenSavings = &tokens
	}
	g.close()
	if reflect.DeepEqual(*out, Governance{Lifecycle: LifecycleActive}) {
		return nil // all defaults, as the base system writes it
	}
	return out
}

func (r *reader) safety(o *object) *SafetyContract {
	v, ok := o.get("safety")
	if !ok {
		return nil
	}
	s, ok := r.object(o.at("safety"), v)
	if !ok {
		return nil
	}
	s.notNull("side_effects", "stability", "determinism_level", "idempotent", "cacheable", "safe_to_retry", "supports_dry_run", "requires_approval", "read_only")
	c := DefaultSafety()
	or := func(given, dflt string) string {
		if given == "" {
			return dflt
		}
		return given
	}
	c.SideEffects = SideEffects(or(string(choice(s, "side_effects", effectLevels...)), string(c.SideEffects)))
	c.Stability = or(choice(s, "stability", stabilityLevels...), c.Stability)
	c.DeterminismLevel = or(choice(s, "determinism_level", determinismLevels...), c.DeterminismLevel)
	c.Idempotent = s.boolean("idempotent", true)
	c.Cacheable = s.boolean("cacheable", true)
	c.SafeToRetry = s.boolean("safe_to_retry", true)
	c.SupportsDryRun = s.boolean("supports_dry_run", false)
	c.RequiresApproval = s.boolean("requires_approval", s.boolean("requires_review", false))
	if _, both := s.get("requires_approval"); both && s.boolean("requires_review", c.RequiresApproval) != c.RequiresApproval {
		s.fail(s.at("requires_review"), "invalid", "contradicts requires_approval")
	}
	if s.boolean("read_only", c.ReadOnly()) != c.ReadOnly() {
		s.fail(s.at("read_only"), "invalid", "contradicts side_effects %s", c.SideEffects)
	}
	c.ApprovalReason = s.text("approval_reason", "")
	c.Source = choice(s, "source", "declared", "mcp_annotations", "reviewer", "unknown")
	s.close()
	return &c
}

func (r *reader) step(path string, v any, dag bool) Step {
	o, ok := r.object(path, v)
	if !ok {
		return Step{}
	}
	o.notNull("input_mapping", "on_error")
	s := Step{
		ToolName: o.text("tool_name", ""), FlowName: o.text("flow_name", ""),
		InputMapping:       r.mapping(o, "input_mapping"),
		OutputMapping:      r.outputMapping(o),
		Retry:              r.retry(o),
		OnError:            r.onError(o),
		DecisionCandidates: o.texts("decision_candidates"),
		InputContract:      o.text("input_contract", ""), OutputContract: o.text("output_contract", ""),
	}
	_, tool := o.get("tool_name")
	_, flow := o.get("flow_name")
	if tool == flow || r.strict && s.Name() == "" { // the base system takes an empty name
		o.fail(path, "invalid", "a step names either tool_name or flow_name")
	}
	if _, given := o.get("decision_candidates"); given {
		r.decision(o, &s)
	}
	if r.strict {
		r.additions(o, &s)
	}
	if dag {
		r.dagStep(o, &s)
	}
	if !dag && !r.strict { // the base system ignores the fields of DAG steps on linear ones
		for _, key := range []string{"step_id", "depends_on", "step_type", "capability_id", "branches", "default_next"} {
			if _, given := o.get(key); given {
				o.warn(o.at(key), "has no meaning in a linear flow")
			}
		}
	}
	o.close()
	return s
}

// additions are the fields of format version 1.1.
func (r *reader) additions(o *object, s *Step) {
	s.OutputAs = o.text("output_as", "")
	if v, given := o.get("output_as"); given && s.OutputAs == "" && typeOf(v) == "a string" {
		o.fail(o.at("output_as"), "invalid", "must not be empty")
	}
	if _, both := o.get("output_mapping"); both && s.OutputAs != "" {
		o.fail(o.at("output_as"), "invalid", "give output_as or output_mapping, not both")
	}
	s.Guard = r.predicate(o, "guard")
	if v, ok := o.get("for_each"); ok {
		each := r.mappingValue(o.at("for_each"), v, false)
		s.ForEach = &each
	}
	s.As = o.text("as", "")
	if (s.ForEach != nil) != (s.As != "") {
		o.fail(o.at("for_each"), "invalid", "for_each and as come together")
	}
	s.MaxConcurrency = int(o.integer("max_concurrency", 0, 1))
	if s.MaxConcurrency != 0 && s.ForEach == nil {
		o.fail(o.at("max_concurrency"), "invalid", "is for steps with for_each")
	}
}

func (r *reader) dagStep(o *object, s *Step) {
	o.notNull("depends_on", "step_type", "branches")
	s.StepID = o.needText("step_id")
	s.DependsOn = o.texts("depends_on")
	s.StepType = choice(o, "step_type", "tool", "capability")
	if s.StepType == "tool" {
		s.StepType = ""
	}
	s.CapabilityID = o.text("capability_id", "")
	if s.CapabilityID != "" && s.StepType != "capability" {
		o.fail(o.at("capability_id"), "invalid", "is for steps with step_type: capability")
	}
	branches, _ := o.list("branches")
	for i, v := range branches {
		path := fmt.Sprintf("%s/%d", o.at("branches"), i)
		if b, ok := r.object(path, v); ok {
			s.Branches = append(s.Branches, Branch{TargetStepID: b.needText("target_step_id"), Predicate: r.predicate(b, "predicate")})
			if _, given := b.get("predicate"); !given {
				b.missing("predicate")
			}
			b.close()
		}
	}
	s.DefaultNext = o.text("default_next", "")
	if s.DefaultNext != "" && len(branches) == 0 {
		o.fail(o.at("default_next"), "invalid", "is for steps with branches")
	}
	if len(branches) > 0 && s.StepType == "capability" {
		o.fail(o.at("branches"), "invalid", "a capability step has no branches")
	}
}

func (r *reader) predicate(o *object, key string) string {
	text := o.text(key, "")
	if _, given := o.get(key); given {
		if _, err := predicate.Parse(text); err != nil {
			o.fail(o.at(key), predicate.Code, "%v", err)
		}
	}
	return text
}

func (r *reader) decision(o *object, s *Step) {
	at := o.at("decision_candidates")
	seen := map[string]bool{}
	for _, c := range s.DecisionCandidates {
		if seen[c] {
			o.fail(at, "invalid", "lists %q twice", c)
		}
		seen[c] = true
	}
	switch {
	case s.FlowName != "":
		o.fail(at, "invalid", "is for tool steps")
	case !seen[s.ToolName]:
		o.fail(at, "invalid", "must contain the step's tool_name")
	}
}

func (r *reader) onError(o *object) string {
	text := o.text("on_error", "fail")
	fallback, isFallback := strings.CutPrefix(text, "fallback:")
	switch {
	case text == "fail":
		return ""
	case text == "skip" || isFallback && fallback != "":
		return text
	}
	o.fail(o.at("on_error"), "invalid", `must be "fail", "skip" or "fallback:<tool>", not %q`, text)
	return ""
}

// ErrorClasses are the neutral classes of retryable errors.
var ErrorClasses = []string{"timeout", "validation", "io", "rate_limit", "other"}

func (r *reader) retry(o *object) *RetryPolicy {
	v, ok := o.get("retry")
	if alias, given := o.get("retry_policy"); given {
		if ok {
			o.fail(o.at("retry_policy"), "invalid", "is another name for retry; give one of them")
		}
		v, ok = alias, true
	}
	if !ok {
		return nil
	}
	p, ok := r.object(o.at("retry"), v)
	if !ok {
		return nil
	}
	p.notNull("max_retries", "backoff_seconds", "backoff_multiplier", "jitter", "retryable_errors")
	policy := DefaultRetry()
	policy.MaxRetries = int(p.integer("max_retries", int64(policy.MaxRetries), 0))
	policy.BackoffSeconds = p.number("backoff_seconds", policy.BackoffSeconds, 0)
	policy.BackoffMultiplier = p.number("backoff_multiplier", policy.BackoffMultiplier, 1)
	policy.Jitter = p.boolean("jitter", false)
	if r.strict {
		policy.MaxBackoffSeconds = p.number("max_backoff_seconds", 0, 0)
	}
	if _, given := p.get("retryable_errors"); given {
		policy.RetryableErrors = p.texts("retryable_errors")
		if len(policy.RetryableErrors) == 0 {
			p.fail(p.at("retryable_errors"), "invalid", "must name at least one class")
		}
		for _, class := range policy.RetryableErrors {
			if !strings.Contains(class, ":") && !slices.Contains(ErrorClasses, class) {
				p.fail(p.at("retryable_errors"), "invalid", "%q is neither one of %v nor module:Class", class, ErrorClasses)
			}
		}
	}
	p.close()
	return &policy
}

// DefaultRetry is a retry policy whose fields are all left out.
func DefaultRetry() RetryPolicy {
	return RetryPolicy{MaxRetries: 3, BackoffSeconds: 1, BackoffMultiplier: 2, RetryableErrors: []string{"builtins:Exception"}}
}

func (r *reader) outputMapping(o *object) []OutputEntry {
	m, ok := o.members("output_mapping")
	if !ok {
		return nil
	}
	out := make([]OutputEntry, 0, len(m))
	for _, e := range m {
		key, ok := e.Value.(string)
		if !ok {
			o.fail(o.at("output_mapping")+"/"+value.Escape(e.Key), "wrong_type", "must be an output key")
		}
		out = append(out, OutputEntry{ContextKey: e.Key, OutputKey: key})
	}
	return out
}

func (r *reader) mapping(o *object, key string) Mapping {
	m, ok := o.members(key)
	if !ok || len(m) == 0 {
		return nil
	}
	out := make(Mapping, len(m))
	for i, e := range m {
		out[i] = MappingEntry{Target: e.Key, Value: r.mappingValue(o.at(key)+"/"+value.Escape(e.Key), e.Value, false)}
	}
	return out
}

func (r *reader) mappingValue(path string, v any, inner bool) MappingValue {
	switch v := v.(type) {
	case string:
		if strings.HasPrefix(v, "/") {
			return Pointer(v)
		}
		return Key(v)
	case value.Members:
		if !r.strict || len(v) != 1 {
			break
		}
		switch v[0].Key {
		case "$const":
			return Const(value.Plain(v[0].Value))
		case "$expr":
			text, ok := v[0].Value.(string)
			if !ok {
				r.fail(path+"/$expr", "wrong_type", "must be a string")
			}
			return MappingValue{Kind: MapExpr, Ref: text}
		case "$optional":
			if inner {
				r.fail(path, "invalid", "$optional does not nest")
				return MappingValue{}
			}
			of := r.mappingValue(path+"/$optional", v[0].Value, true)
			return MappingValue{Kind: MapOptional, Inner: &of}
		}
	}
	return MappingValue{Kind: MapLiteral, Literal: value.Plain(v)}
}
