package executor

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"pave/flows"
)

// vars is the context of a run: what mappings, guards and the caller see. Its values are never changed, only
// replaced; record and context may share them. size is the sum of the sizes of what was put into it.
type vars struct {
	values map[string]any
	size   int
	params map[string]bool // keys that hold the caller's dynamic params
}

// put gives a dynamic param its key, over an equal one of the input.
func (c *vars) put(key string, v any) {
	if c.params == nil {
		c.params = map[string]bool{}
	}
	c.values[key], c.params[key] = v, true
}

// assign takes over an object; keys are all that it has, nil where that is not known.
func (c *vars) assign(m map[string]any, keys []string) {
	if keys == nil || c.params != nil {
		for k, value := range m {
			c.values[k] = value
			delete(c.params, k)
		}
		return
	}
	for _, k := range keys {
		c.values[k] = m[k]
	}
}

// dynamic reports whether a key still holds a dynamic param, not what a step has put in its place.
func (c *vars) dynamic(key string) bool { return c.params[key] }

// merge is the one place that writes the context. It projects a step's outputs (output_as, output_mapping or all
// of them), applies the collision policy and assigns; on a failure nothing is assigned.
func (r *run) merge(v *visit) *failure {
	projected, f := v.project()
	if f == nil {
		f = r.claim(v, projected)
	}
	if f == nil {
		f = r.checkCollisions(v, projected)
	}
	if f != nil {
		return f
	}
	if r.vars.size += v.size; r.vars.size > r.e.limits.MaxContext {
		message := fmt.Sprintf("The context of flow '%s' grew to %d bytes at step %d ('%s'), above the limit of %d.", r.plan.flow.Name, r.vars.size, v.sp.index, v.name, r.e.limits.MaxContext)
		return &failure{cw: flows.CWToolOutputSize, message: message, raw: message, class: ClassOther}
	}
	r.vars.assign(projected, exactly(projected, v.declared()))
	return nil
}

// project is what a step's outputs add to the context.
func (v *visit) project() (map[string]any, *failure) {
	step := v.sp.step
	switch {
	case step.OutputAs != "" && v.sp.each != nil:
		return map[string]any{step.OutputAs: v.outputs[elementsKey]}, nil
	case step.OutputAs != "":
		return map[string]any{step.OutputAs: v.outputs}, nil
	case step.OutputMapping == nil:
		return v.outputs, nil
	}
	projected := make(map[string]any, len(step.OutputMapping))
	for _, entry := range step.OutputMapping {
		value, ok := v.outputs[entry.OutputKey]
		if !ok {
			return nil, failOutputMapping(v, entry.OutputKey)
		}
		projected[entry.ContextKey] = value
	}
	return projected, nil
}

// checkCollisions applies the policy to keys that the context already has, equal values included.
func (r *run) checkCollisions(v *visit, projected map[string]any) *failure {
	sp := v.sp
	level, policy := slog.LevelWarn, r.plan.collision
	if policy == flows.CollisionOverwrite {
		level = slog.LevelDebug
		if !r.e.logger.Enabled(r.ctx, level) {
			return nil
		}
	}
	collided := false
	for k := range projected {
		if _, exists := r.vars.values[k]; exists {
			collided = true
			break
		}
	}
	if !collided {
		return nil
	}
	keys := slices.DeleteFunc(slices.Clone(v.contextKeys(projected)), func(k string) bool {
		_, exists := r.vars.values[k]
		return !exists
	})
	if policy == flows.CollisionError {
		message := fmt.Sprintf("Flow '%s' step %d ('%s') would overwrite existing context key(s) '%s'; on_context_collision='error' aborts rather than dropping earlier data.",
			r.plan.flow.Name, sp.index, v.name, strings.Join(keys, "', '"))
		return &failure{cw: flows.CWContextCollision, message: message, raw: message, class: ClassOther}
	}
	for _, k := range keys {
		r.e.logger.Log(r.ctx, level, "step overwrites a context key", logFlow, r.plan.flow.Name, logRun, r.runID,
			logStep, sp.index, logTool, v.name, logKey, k)
	}
	return nil
}

// contextKeys are the keys of a projection in output order, not to be changed.
func (v *visit) contextKeys(projected map[string]any) []string {
	step := v.sp.step
	if step.OutputAs == "" && step.OutputMapping != nil {
		keys := make([]string, len(step.OutputMapping))
		for i, entry := range step.OutputMapping {
			keys[i] = entry.ContextKey
		}
		return keys
	}
	return v.ordered(projected)
}

// declared are the keys that the schema of the tool's output declares, in order.
func (v *visit) declared() []string {
	if v.tool == nil {
		return nil
	}
	return v.tool.outputs
}

// ordered lists the keys of outputs: those that the tool's schema declares in their order, then the others by name. The
// list is not to be changed.
func (v *visit) ordered(outputs map[string]any) []string {
	declared := v.declared()
	if keys := exactly(outputs, declared); keys != nil {
		return keys
	}
	rank := func(k string) int {
		if i := slices.Index(declared, k); i >= 0 {
			return i
		}
		return len(declared)
	}
	keys := make([]string, 0, len(outputs))
	for k := range outputs {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b string) int {
		if d := rank(a) - rank(b); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	return keys
}

func failOutputMapping(v *visit, key string) *failure {
	available := v.ordered(v.outputs)
	quoted := make([]string, len(available))
	for i, k := range available {
		quoted[i] = "'" + k + "'"
	}
	message := fmt.Sprintf("Output mapping references key '%s' not produced by tool '%s' at step %d. Available output keys: [%s].",
		key, v.name, v.sp.index, strings.Join(quoted, ", "))
	return &failure{cw: flows.CWOutputMapping, message: message, raw: message, class: ClassOther}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
