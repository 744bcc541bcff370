// Package advice looks for what could be better in a linear flow that compiles: steps whose data flow nobody sees,
// steps that could run side by side, steps that nobody needs, steps whose results never change.
package advice

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"pave/flows"
	"pave/flows/expr"
	"pave/flows/predicate"
	"pave/flows/schema"
	"pave/flows/value"
)

// Codes of suggestions, with their titles a wire contract.
const (
	CodePassthrough = "CW001"
	CodeParallel    = "CW002"
	CodeDead        = "CW003"
	CodeCacheable   = "CW004"
)

var titles = map[string]string{CodePassthrough: "wasteful-passthrough", CodeParallel: "parallelizable-pair", CodeDead: "dead-step", CodeCacheable: "cacheable-step"}

// Suggestion is one thing that could be better.
type Suggestion struct {
	Code      string `json:"code"`
	Title     string `json:"title"`
	StepIndex int    `json:"step_index"`
	ToolName  string `json:"tool_name"`
	Message   string `json:"message"`
}

// Tools looks tools up by name.
type Tools interface {
	Tool(name string) (*flows.Tool, bool)
}

// Suggest lists suggestions by code, then by step. DAG flows get none: they say themselves what depends on what. tools
// nil leaves out what needs the tools' outputs. runs are the outputs of recorded runs, by step; with fewer than two
// nothing is said about results that never change.
//
// A key counts as read whether it is read as a key, by a pointer, in an expression or in a guard. A step with declared
// side effects is never called dead, and two of them never parallel: their order may matter.
func Suggest(flow *flows.Flow, tools Tools, runs [][]map[string]any) []Suggestion {
	if flow.Type == flows.TypeDAGFlow {
		return nil
	}
	a := &adviser{flow: flow, tools: tools}
	a.passthrough()
	if tools != nil {
		a.parallel()
		a.dead()
	}
	if len(runs) >= 2 {
		a.cacheable(runs)
	}
	return a.found
}

type adviser struct {
	flow  *flows.Flow
	tools Tools
	found []Suggestion
}

func (a *adviser) suggest(code string, step int, format string, args ...any) {
	a.found = append(a.found, Suggestion{Code: code, Title: titles[code], StepIndex: step, ToolName: a.flow.Steps[step].Name(), Message: fmt.Sprintf(format, args...)})
}

func (a *adviser) passthrough() {
	for i := range a.flow.Steps {
		if len(a.flow.Steps[i].InputMapping) == 0 {
			a.suggest(CodePassthrough, i, "Step %d ('%s') uses an empty input_mapping. Consider an explicit mapping so the data flow is visible to readers.", i, a.flow.Steps[i].Name())
		}
	}
}

func (a *adviser) parallel() {
	for i := 0; i+1 < len(a.flow.Steps); i++ {
		written, known := a.writes(i)
		read := readsOf(&a.flow.Steps[i+1])
		if !known || len(written) == 0 || read.all || len(read.keys) == 0 || a.acts(i) && a.acts(i+1) {
			continue
		}
		if !slices.ContainsFunc(written, read.has) {
			a.suggest(CodeParallel, i, "Steps %d ('%s') and %d ('%s') have disjoint output/input fields; they're DAG-eligible (promote to DAGFlow for parallel execution).",
				i, a.flow.Steps[i].Name(), i+1, a.flow.Steps[i+1].Name())
		}
	}
}

func (a *adviser) dead() {
	var later reads
	for _, entry := range a.flow.Returns {
		later.value(&entry.Value)
	}
	var dead []int
	for i := len(a.flow.Steps) - 1; i >= 0; i-- {
		written, known := a.writes(i)
		last := i == len(a.flow.Steps)-1
		if !last && known && len(written) > 0 && !later.all && !a.acts(i) && !slices.ContainsFunc(written, later.has) {
			dead = append(dead, i)
		}
		later.add(readsOf(&a.flow.Steps[i]))
	}
	slices.Reverse(dead)
	for _, i := range dead {
		written, _ := a.writes(i)
		a.suggest(CodeDead, i, "Step %d ('%s') outputs %s but no downstream step reads them. Remove the step or wire it into a downstream input_mapping.",
			i, a.flow.Steps[i].Name(), quoted(written))
	}
}

func quoted(keys []string) string { return "['" + strings.Join(keys, "', '") + "']" }

func (a *adviser) cacheable(runs [][]map[string]any) {
	for i := range a.flow.Steps {
		if same(runs, i) {
			a.suggest(CodeCacheable, i, "Step %d ('%s') gave the same outputs in all %d recorded runs. Its result can be cached, or written into the flow as a constant.",
				i, a.flow.Steps[i].Name(), len(runs))
		}
	}
}

func same(runs [][]map[string]any, step int) bool {
	for _, run := range runs {
		if step >= len(run) || run[step] == nil || !value.Equal(run[step], runs[0][step]) {
			return false
		}
	}
	return true
}

// acts reports whether a step's tool declares side effects beyond reading.
func (a *adviser) acts(step int) bool {
	tool, ok := a.tools.Tool(a.flow.Steps[step].ToolName)
	return ok && tool.Safety != nil && !tool.Safety.ReadOnly()
}

// writes lists the context keys that a step merges, sorted; known is false where its tool does not say.
func (a *adviser) writes(step int) (keys []string, known bool) {
	s := &a.flow.Steps[step]
	switch {
	case s.OutputAs != "":
		return []string{s.OutputAs}, true
	case s.OutputMapping != nil:
		for _, e := range s.OutputMapping {
			keys = append(keys, e.ContextKey)
		}
		slices.Sort(keys)
		return keys, true
	}
	tool, ok := a.tools.Tool(s.ToolName)
	if !ok || len(tool.OutputSchema) == 0 {
		return nil, false
	}
	compiled, err := schema.Compile(tool.OutputSchema)
	if err != nil {
		return nil, false
	}
	for _, f := range compiled.Fields() {
		keys = append(keys, f.Name)
	}
	slices.Sort(keys)
	return keys, len(keys) > 0
}

// reads are the context keys that something reads; all is the whole context.
type reads struct {
	all  bool
	keys map[string]bool
}

func (r *reads) has(key string) bool { return r.keys[key] }

func (r *reads) key(keys ...string) {
	if r.keys == nil {
		r.keys = map[string]bool{}
	}
	for _, k := range keys {
		r.keys[k] = true
	}
}

func (r *reads) add(more reads) {
	r.all = r.all || more.all
	r.key(slices.Collect(maps.Keys(more.keys))...)
}

func (r *reads) value(v *flows.MappingValue) {
	switch v.Kind {
	case flows.MapKey:
		r.key(v.Ref)
	case flows.MapPointer:
		if p, err := value.ParsePointer(v.Ref); err == nil && len(p) > 0 {
			r.key(p[0])
		}
	case flows.MapOptional:
		r.value(v.Inner)
	case flows.MapExpr:
		names, err := expr.Names(v.Ref)
		r.all = r.all || err != nil // what cannot be read may read anything
		r.key(names...)
	}
}

func readsOf(s *flows.Step) reads {
	r := reads{all: len(s.InputMapping) == 0}
	for i := range s.InputMapping {
		r.value(&s.InputMapping[i].Value)
	}
	if s.ForEach != nil {
		r.value(s.ForEach)
		delete(r.keys, s.As)
	}
	if s.Guard != "" {
		guard, err := predicate.Parse(s.Guard)
		if err != nil {
			r.all = true
			return r
		}
		r.key(guard.Names()...)
	}
	return r
}
