package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"pave/cmd/pave/internal/output"
	"pave/executor"
	"pave/flows"
)

type flowsExplainCmd struct {
	Flow string `arg:"" help:"Flow file, or NAME or NAME@VERSION of a registered flow."`
	libraryFlags
}

// Run says what a flow will do, step by step, without running it.
func (c *flowsExplainCmd) Run(e *env) error {
	if !isFile(c.Flow) && !c.offline() {
		return c.registered(e)
	}
	flow, _, err := readFlow(e, c.Flow)
	if err != nil {
		return err
	}
	plan, found, err := c.plan(e, flow)
	if err != nil {
		return err
	}
	explained := executor.Explain(plan, found)
	return e.printValue(explained, func(w io.Writer) error { return explanationText(w, explained) })
}

// registered lets the service explain, as it does for others.
func (c *flowsExplainCmd) registered(e *env) error {
	return e.withClient(func(cl *client) error {
		v, _, err := getFlow(e, cl, c.Flow)
		if err != nil {
			return err
		}
		resp, err := check(cl.ExplainFlowWithResponse(e.ctx, v.Name, v.Version))
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error {
			explained := new(executor.Explanation)
			if err := json.Unmarshal(resp.GetBody(), explained); err != nil {
				return fmt.Errorf("the server's explanation: %w", err)
			}
			return explanationText(w, explained)
		})
	})
}

// plan compiles a flow against the files of the flags or against what is registered. A flow that cannot be started is
// an error; one with other faults has a plan.
func (l *libraryFlags) plan(e *env, flow *flows.Flow) (*executor.Plan, []executor.Diagnostic, error) {
	var plan *executor.Plan
	var found []executor.Diagnostic
	err := l.withSets(e, func(tools executor.ToolSet, others executor.FlowSet) error {
		plan, found = executor.Compile(flow, tools, executor.CompileOptions{Flows: others})
		return nil
	})
	if err == nil && plan == nil {
		err = executor.CompileError(flow.Name, found)
	}
	return plan, found, err
}

// withSets calls fn with the tools and flows of the flags' files or, without any, with those that are registered.
func (l *libraryFlags) withSets(e *env, fn func(tools executor.ToolSet, others executor.FlowSet) error) error {
	if l.offline() {
		library, err := l.library()
		if err != nil {
			return err
		}
		return fn(library, library)
	}
	tools, err := l.toolSet(e)
	if err != nil {
		return err
	}
	return e.withClient(func(cl *client) error {
		others := &registeredFlows{e: e, client: cl}
		if err := fn(tools, others); err != nil {
			return err
		}
		return others.err
	})
}

// registeredFlows is a FlowSet of what is registered. The first error other than "there is none" is kept.
type registeredFlows struct {
	e      *env
	client *client
	err    error
}

// Flow implements executor.FlowSet.
func (r *registeredFlows) Flow(name, version string) (*flows.Flow, bool) {
	ref := name
	if version != "" {
		ref += "@" + version
	}
	v, _, err := getFlow(r.e, r.client, ref)
	var flow *flows.Flow
	if err == nil {
		flow, err = parseFlow(v.Flow)
	}
	if err != nil && flows.CodeOf(err) != flows.CodeNotFound && r.err == nil {
		r.err = err
	}
	return flow, err == nil
}

func explanationText(w io.Writer, x *executor.Explanation) error {
	fmt.Fprintf(w, "%s@%s, determinism %s\n", output.Clean(x.FlowName), output.Clean(x.FlowVersion), x.DeterminismLevel)
	fmt.Fprintf(w, "input: %s\n", shapeText(x.Input))
	for i := range x.Steps {
		s := &x.Steps[i]
		name := fmt.Sprint(s.StepIndex)
		if s.StepID != "" {
			name += " " + s.StepID
		}
		fmt.Fprintf(w, "\n%s: %s (level %d%s)\n", output.Clean(name), output.Clean(s.Calls), s.Level, effectsText(s))
		line := func(label, text string) {
			if text != "" {
				fmt.Fprintf(w, "  %-10s %s\n", label, output.Clean(text))
			}
		}
		line("only if", s.Condition)
		if s.ForEach != nil {
			line("for each", s.ForEach.Target+" in "+s.ForEach.Source)
		}
		for _, in := range s.Inputs {
			line("takes", in.Target+" <- "+in.Source)
		}
		line("gives", shapeText(s.OutputShape))
		line("merges", s.Merges)
		line("on error", s.OnError)
		line("UNRESOLVED", strings.Join(s.Unresolved, ", "))
	}
	fmt.Fprintln(w, "\nreturns:")
	for _, out := range x.Output {
		fmt.Fprintf(w, "  %s <- %s\n", output.Clean(out.Target), output.Clean(out.Source))
	}
	for _, d := range x.Warnings {
		fmt.Fprintf(w, "%s: %s (%s at %s)\n", d.Severity, output.Clean(d.Detail), d.IssueType, output.Clean(d.Pointer))
	}
	return nil
}

func effectsText(s *executor.StepExplanation) string {
	text := ""
	if s.SideEffects != "" {
		text = ", side effects " + s.SideEffects
	}
	if s.Approval {
		text += ", needs an approval"
	}
	return text
}

func shapeText(shapes []executor.Shape) string {
	parts := make([]string, len(shapes))
	for i, s := range shapes {
		parts[i] = s.Name + " " + s.Type
		if !s.Required {
			parts[i] += " (optional)"
		}
	}
	return dash(output.Clean(strings.Join(parts, ", ")))
}
