package diagram

import (
	"fmt"
	"slices"
	"strings"

	"pave/flows"
	"pave/flows/value"
)

// graph is what every form draws.
type graph struct {
	flow   *flows.Flow
	plain  bool
	run    bool
	nodes  []node
	edges  []edge
	levels [][]int // positions by rank
}

// node is a step.
type node struct {
	id      string // of the step; "" in linear flows
	name    string // of its tool or sub-flow
	sub     bool
	remarks []string
	mark    Mark
	reached bool
}

// edge is a dependency. Its label is the condition under which it is taken, "" for always.
type edge struct {
	from, to int
	label    string
}

func newGraph(flow *flows.Flow, o Options) (*graph, error) {
	levels, err := flows.Levels(flow)
	if err != nil {
		return nil, &flows.Error{Code: flows.CodeInvalid, Message: err.Error(), Err: err}
	}
	g := &graph{flow: flow, plain: o.Plain, run: o.Run != nil && !o.Plain, levels: levels, nodes: make([]node, len(flow.Steps))}
	for i := range flow.Steps {
		step := &flow.Steps[i]
		g.nodes[i] = node{name: step.Name(), sub: step.FlowName != ""}
		if flow.Type == flows.TypeDAGFlow {
			g.nodes[i].id = step.StepID
		}
		if o.Plain {
			continue
		}
		g.nodes[i].remarks = remarks(step, flow.OnFailure)
		if o.Sources {
			g.nodes[i].remarks = append(g.nodes[i].remarks, sources(step)...)
		}
		if mark, ok := o.Run[i]; ok {
			g.nodes[i].mark, g.nodes[i].reached = mark, true
		}
	}
	g.link()
	return g, nil
}

// link makes the edges, in declaration order.
func (g *graph) link() {
	if g.flow.Type != flows.TypeDAGFlow {
		for i := 1; i < len(g.nodes); i++ {
			g.edges = append(g.edges, edge{from: i - 1, to: i})
		}
		return
	}
	at := make(map[string]int, len(g.nodes))
	for i := range g.nodes {
		at[g.nodes[i].id] = i
	}
	for i := range g.flow.Steps {
		for k, dep := range g.flow.Steps[i].DependsOn {
			if slices.Contains(g.flow.Steps[i].DependsOn[:k], dep) {
				continue
			}
			e := edge{from: at[dep], to: i}
			if !g.plain {
				e.label = condition(&g.flow.Steps[e.from], g.nodes[i].id)
			}
			g.edges = append(g.edges, e)
		}
	}
}

// condition says when a step with branches goes on to one of its dependents.
func condition(from *flows.Step, to string) string {
	if len(from.Branches) == 0 {
		return ""
	}
	var when []string
	for _, b := range from.Branches {
		if b.TargetStepID == to {
			when = append(when, b.Predicate)
		}
	}
	switch {
	case from.DefaultNext == to:
		when = append(when, "otherwise")
	case len(when) == 0 && from.DefaultNext != "":
		return "never"
	case from.DefaultNext == "": // no branch taken: every dependent runs
		when = append(when, "no branch holds")
	}
	return strings.Join(when, " or ")
}

// remarks are what a reader must know of a step beyond its name.
func remarks(s *flows.Step, onFailure flows.OnFailure) []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if s.StepType == "capability" {
		add("capability %s", s.CapabilityID)
	}
	if s.Guard != "" {
		add("only if %s, else hand back", s.Guard)
	}
	if s.ForEach != nil {
		width := ""
		if s.MaxConcurrency > 1 {
			width = fmt.Sprintf(", %d at once", s.MaxConcurrency)
		}
		add("for each %s in %s%s", s.As, source(s.ForEach), width)
	}
	if len(s.DecisionCandidates) > 0 {
		add("decided at run time: %s", strings.Join(s.DecisionCandidates, " or "))
	}
	if s.Retry != nil && s.Retry.MaxRetries > 0 {
		add("up to %d retries", s.Retry.MaxRetries)
	}
	switch fallback, is := strings.CutPrefix(s.OnError, "fallback:"); {
	case is:
		add("on error: %s", fallback)
	case s.OnError == "skip":
		add("on error: go on without it")
	case onFailure == flows.OnFailureHandBack:
		add("on error: hand back")
	}
	return out
}

// sources are the arguments of a step, each with what it is taken from, and the key of its result.
func sources(s *flows.Step) []string {
	var out []string
	for i := range s.InputMapping {
		m := &s.InputMapping[i]
		if m.Value.NeverIn(s.OutputAs) {
			continue
		}
		out = append(out, fmt.Sprintf("%s ← %s", m.Target, source(&m.Value)))
	}
	switch {
	case len(s.InputMapping) == 0:
		out = append(out, "takes the whole context")
	case s.WithoutArguments():
		out = append(out, "takes no arguments")
	}
	if s.OutputAs != "" {
		out = append(out, "gives "+s.OutputAs)
	}
	return out
}

// source is a mapping value as a flow file writes it.
func source(v *flows.MappingValue) string {
	switch v.Kind {
	case flows.MapKey, flows.MapPointer, flows.MapExpr:
		return v.Ref
	case flows.MapOptional:
		return source(v.Inner) + " (where present)"
	}
	return string(value.Encode(v.Literal))
}

// simple reports whether the graph has nothing but steps and their order.
func (g *graph) simple() bool {
	if g.run {
		return false
	}
	return !slices.ContainsFunc(g.nodes, func(n node) bool { return len(n.remarks) > 0 }) &&
		!slices.ContainsFunc(g.edges, func(e edge) bool { return e.label != "" })
}

// notes are the remarks of a node and what the run did with it.
func (g *graph) notes(n *node) []string {
	if !g.run {
		return n.remarks
	}
	state := "not reached"
	if n.reached {
		state = n.mark.String()
	}
	return append(slices.Clip(n.remarks), state)
}

const maxLabel = 80

// oneLine makes text fit for a label: no line ends or control characters, and not too long.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t', r == '\r', r == '\u2028', r == '\u2029':
			return ' '
		case r < ' ', r >= 0x7f && r < 0xa0, r >= '\u202a' && r <= '\u202e', r >= '\u2066' && r <= '\u2069', r == '\u200e', r == '\u200f', r == '\ufeff':
			return '\ufffd'
		}
		return r
	}, s)
	if runes := []rune(s); len(runes) > maxLabel {
		return string(runes[:maxLabel-1]) + "…"
	}
	return s
}
