package main

import (
	"fmt"
	"io"
	"strings"

	"pave/api/gen"
	"pave/cmd/pave/internal/output"
)

// showProposal prints what a reviewer needs on one screen: what repeats, what will run and why the mappings are
// believed, what it saves, what can go wrong, and the flow file.
func showProposal(w io.Writer, p *gen.Proposal) error {
	flow, err := parseFlow(p.Flow)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%s  %s  (%s, source %s)\n", p.ID, output.Clean(p.FlowName), p.State, p.Source)
	if p.Description != "" {
		fmt.Fprintf(w, "%s\n", output.Clean(p.Description))
	}
	fmt.Fprintf(w, "digest %s, revision %d, author %s, created %s\n", p.Digest, p.Revision, output.Clean(p.Author), when(p.CreatedAt))
	for _, text := range []string{p.Returned, p.Changed} {
		if text != "" {
			fmt.Fprintf(w, "changed: %s\n", output.Clean(text))
		}
	}
	showEvidence(w, p)
	showShadow(w, p.Shadow)
	fmt.Fprintln(w, "\nWHAT WILL RUN")
	drawFlow(w, flow, mappingNotes(p.Evidence.Pattern))
	showInputs(w, p.Evidence.Pattern)
	showSavings(w, p.Savings)
	showRisks(w, p)
	showReviews(w, p)
	fmt.Fprintln(w, "\nFLOW FILE")
	return flowFile(w, flow)
}

func showEvidence(w io.Writer, p *gen.Proposal) {
	fmt.Fprintln(w, "\nWHAT REPEATS")
	pattern := p.Evidence.Pattern
	if pattern != nil {
		fmt.Fprintf(w, "  %s\n", output.Clean(pathOf(pattern.Tools)))
	} else {
		fmt.Fprintf(w, "  %s\n", output.Clean(pathOf(p.Tools)))
		switch p.Source {
		case gen.ProposalSourceSubmitted:
			fmt.Fprintln(w, "  not mined: written and submitted by its author")
		case gen.ProposalSourceExternal:
			fmt.Fprintln(w, "  not mined: another generator made it")
		default:
			fmt.Fprintln(w, "  not mined: a chain of tools whose schemas fit; it was not seen often enough, or not at all")
		}
		for _, x := range p.Evidence.SchemaEdges {
			fmt.Fprintf(w, "  %s %s -> %s.%s (%s)\n", output.Clean(x.Producer), output.Clean(x.OutputField),
				output.Clean(x.Consumer), output.Clean(x.InputField), output.Clean(x.Rule))
		}
		return
	}
	fmt.Fprintf(w, "  seen %d times in %d sessions of %d agents, among %d sessions with %d calls; %s\n",
		pattern.Occurrences, pattern.Sessions, pattern.Agents, p.Evidence.Sessions, p.Evidence.Calls, besideChance(pattern))
	fmt.Fprintf(w, "  without an error in %.1f%% (at least %.1f%%)\n", 100*pattern.Success, 100*pattern.SuccessLower)
	if s := pattern.Stability; s != nil {
		fmt.Fprintf(w, "  %s\n", weeksOf(s))
	}
	if len(pattern.CutFrom) > 0 {
		fmt.Fprintf(w, "  the part without the model of %s\n", output.Clean(pathOf(pattern.CutFrom)))
	}
	if b := pattern.Batch; b != nil {
		showBatch(w, b)
	} else if d := pattern.DataFlow; d != nil {
		fmt.Fprintf(w, "  every mapping held at once in %d of %d examined occurrences (%s)\n", d.Explained, d.Sampled, share(d.Explained, d.Sampled))
		showHeldOut(w, d.HeldOut)
		for _, g := range d.Guards {
			fmt.Fprintf(w, "  %s where %s\n", output.Clean(pattern.Tools[g.Step]), output.Clean(guardText(pattern, g)))
		}
	}
	var sessions []string
	for _, o := range pattern.Examples {
		sessions = append(sessions, o.SessionID)
	}
	if len(sessions) > 0 {
		fmt.Fprintf(w, "  for example in %s\n", output.Clean(strings.Join(sessions[:min(3, len(sessions))], ", ")))
	}
}

// besideChance says what stands against chance: how often it would give the path, or what is between the steps.
func besideChance(pattern *gen.Pattern) string {
	g := pattern.Gap
	if g == nil {
		return fmt.Sprintf("%.1f expected by chance", pattern.Expected)
	}
	tools := make([]string, len(g.Tools))
	for i, t := range g.Tools {
		tools[i] = fmt.Sprintf("%s %d", output.Clean(t.Tool), t.Windows)
	}
	return fmt.Sprintf("with other calls between the steps in %d, at most %d at a time: %s", g.Occurrences, g.Longest, strings.Join(tools, ", "))
}

// showBatch says how often callers knew the calls of a flow that takes whole calls.
func showBatch(w io.Writer, b *gen.PatternBatch) {
	fmt.Fprintf(w, "  callers give the calls: before the first they knew the next one, too, in %d of %d examined occurrences (%s), and all in %d",
		b.Several, b.Examined, share(b.Several, b.Examined), b.Whole)
	if len(b.Supporting) > 0 {
		fmt.Fprintf(w, ", such as in %s", output.Clean(strings.Join(b.Supporting, ", ")))
	}
	if len(b.Contradicting) > 0 {
		fmt.Fprintf(w, "; only the first in %s", output.Clean(strings.Join(b.Contradicting, ", ")))
	}
	fmt.Fprintln(w, "; a run hands back before the first step that it is given nothing for")
}

// showHeldOut says how the mappings did on sessions that they were not found in.
func showHeldOut(w io.Writer, h *gen.HeldOut) {
	if h == nil {
		return
	}
	fmt.Fprintf(w, "  found in one half of these sessions and tried on the other, both ways: exact in %d of %d (%s), %d of %d arguments (%s)\n",
		h.Exact, h.Windows, share(h.Exact, h.Windows), h.Right, h.Predictions, share(h.Right, h.Predictions))
}

// showShadow says how the draft did on live sessions since it was approved.
func showShadow(w io.Writer, s *gen.ShadowResult) {
	if s == nil {
		return
	}
	what := fmt.Sprintf("%d of %d walks of this path were as predicted", s.Exact, s.Windows)
	if s.Given {
		what = fmt.Sprintf("callers could have given several calls in %d walks", s.Windows)
	}
	verdict := "passed"
	if !s.Passed {
		verdict = "not passed yet: " + s.Reason
	}
	fmt.Fprintf(w, "  on live sessions since %s, %d with its first tool: %s; %s\n", when(s.Since), s.Sessions, what, output.Clean(verdict))
}

// guardText says where an optional step runs, and how well that tells what agents did.
func guardText(pattern *gen.Pattern, g gen.StepGuard) string {
	text := fmt.Sprintf("%s of the result of %s", dash(g.Pointer), pattern.Tools[g.Step-1])
	switch {
	case g.Test == gen.StepGuardTestEquals && g.Not:
		text += " is not " + output.Short(string(g.Value), 40)
	case g.Test == gen.StepGuardTestEquals:
		text += " is " + output.Short(string(g.Value), 40)
	case g.Test == gen.StepGuardTestAtLeast && g.Not:
		text += " is less than " + string(g.Value)
	case g.Test == gen.StepGuardTestAtLeast:
		text += " is at least " + string(g.Value)
	case g.Not:
		text += " is missing or empty"
	default:
		text += " is there and not empty"
	}
	e := g.Evidence
	text += fmt.Sprintf(": told rightly in %d of %d on %d values, %.1f%% by always guessing the same", e.Held, e.Present, e.Distinct, 100*e.Chance)
	if len(e.Supporting) > 0 {
		text += ", such as in " + strings.Join(e.Supporting, ", ")
	}
	if len(e.Contradicting) > 0 {
		text += ", not in " + strings.Join(e.Contradicting, ", ")
	}
	return text + "; " + e.Note
}

// weeksOf says how a path is spread over the weeks.
func weeksOf(s *gen.Stability) string {
	counts := make([]string, len(s.Weeks))
	for i, week := range s.Weeks {
		counts[i] = fmt.Sprint(week.Occurrences)
	}
	text := "by week " + strings.Join(counts, " ")
	if s.Rising {
		text += ", rising"
	}
	if s.Drifts {
		text += fmt.Sprintf("; what agents do next has changed on the way (%.2f bit)", s.Drift)
	}
	return text
}

// mappingNotes says how often each mapping held, and where it did not.
func mappingNotes(pattern *gen.Pattern) func(step int, arg string) string {
	if pattern == nil || pattern.DataFlow == nil {
		return nil
	}
	return func(step int, arg string) string {
		if step >= len(pattern.DataFlow.Steps) {
			return ""
		}
		for _, a := range pattern.DataFlow.Steps[step] {
			if a.Arg != arg {
				continue
			}
			if pattern.Batch != nil {
				return givenNote(a)
			}
			note := fmt.Sprintf("held %d of %d", a.Evidence.Held, a.Evidence.Present)
			if a.Kind != gen.ArgFlowKindConst {
				note += fmt.Sprintf(" on %d values, %.1f%% by chance", a.Evidence.Distinct, 100*a.Evidence.Chance)
			}
			if a.Kind == gen.ArgFlowKindInput || a.Kind == gen.ArgFlowKindElement && a.Input != "" {
				note = fmt.Sprintf("%d distinct values in %d", a.Evidence.Distinct, a.Evidence.Present)
			}
			if word := kindNote(a); word != "" {
				note = word + ", " + note
			}
			if a.Presence < 1 {
				note += fmt.Sprintf(", present in %.0f%%", 100*a.Presence)
			}
			if len(a.Evidence.Supporting) > 0 {
				note += ", such as in " + strings.Join(a.Evidence.Supporting, ", ")
			}
			if len(a.Evidence.Contradicting) > 0 {
				note += ", not in " + strings.Join(a.Evidence.Contradicting, ", ")
			}
			if a.Evidence.Ambiguous {
				note += ", another source explains the same"
			}
			if a.Evidence.Note != "" {
				note += "; " + a.Evidence.Note
			}
			return note
		}
		return ""
	}
}

// kindNote says what is done with the values that an argument is taken from, "" where they are passed as they are.
func kindNote(a gen.ArgFlow) string {
	switch a.Kind {
	case gen.ArgFlowKindElement:
		return "for each element"
	case gen.ArgFlowKindDerived:
		return "derived"
	}
	return ""
}

// givenNote says how often callers knew an argument of a flow that takes whole calls: nothing is predicted that could hold.
func givenNote(a gen.ArgFlow) string {
	note := fmt.Sprintf("callers knew it in %d of %d, %d distinct values", a.Evidence.Held, a.Evidence.Present, a.Evidence.Distinct)
	if a.Presence < 1 {
		note += fmt.Sprintf(", present in %.0f%%", 100*a.Presence)
	}
	if len(a.Evidence.Contradicting) > 0 {
		note += ", they did not in " + strings.Join(a.Evidence.Contradicting, ", ")
	}
	return note
}

func showInputs(w io.Writer, pattern *gen.Pattern) {
	if pattern == nil || pattern.DataFlow == nil || len(pattern.DataFlow.Inputs) == 0 {
		return
	}
	fmt.Fprintln(w, "\nINPUTS")
	for _, in := range pattern.DataFlow.Inputs {
		examples := make([]string, len(in.Examples))
		for i, x := range in.Examples {
			examples[i] = output.Short(string(x), 40)
		}
		fmt.Fprintf(w, "  %s  from %s; seen: %s\n", output.Clean(in.Name), dash(output.Clean(in.Origin)), dash(output.Clean(strings.Join(examples, ", "))))
	}
}

func showSavings(w io.Writer, s gen.Savings) {
	fmt.Fprintln(w, "\nWHAT IT SAVES PER RUN (mean, 95 % interval)")
	fmt.Fprintf(w, "  LLM calls  %s\n", figure(s.LlmCallsPerRun, "%.2f"))
	fmt.Fprintf(w, "  tokens     %s\n", figure(s.TokensPerRun, "%.0f"))
	fmt.Fprintf(w, "  cost USD   %s\n", figure(s.CostUsdPerRun, "%.5f"))
	fmt.Fprintf(w, "  latency ms %s\n", figure(s.LatencyMsPerRun, "%.0f"))
	if s.PerWeek > 0 {
		fmt.Fprintf(w, "  walked %.1f times a week\n", s.PerWeek)
	}
	if s.Basis != "" {
		fmt.Fprintf(w, "  %s\n", output.Clean(s.Basis))
	}
}

func showRisks(w io.Writer, p *gen.Proposal) {
	fmt.Fprintln(w, "\nWHAT CAN GO WRONG")
	fmt.Fprintf(w, "  side effects: %s\n", p.Safety)
	for _, text := range p.Warnings {
		fmt.Fprintf(w, "  warning: %s\n", output.Clean(text))
	}
	if len(p.Unbound) == 0 {
		fmt.Fprintln(w, "  every tool is bound")
		return
	}
	for _, tool := range p.Unbound {
		fmt.Fprintf(w, "  unbound: %s; %s\n", output.Clean(tool), output.Clean(p.UnboundBy[tool]))
	}
}

func showReviews(w io.Writer, p *gen.Proposal) {
	fmt.Fprintf(w, "\nREVIEWS (%d of %d approvals)\n", p.Approvals, p.Needs)
	for _, r := range p.Reviews {
		var marks []string
		if r.Solo {
			marks = append(marks, "solo")
		}
		if r.Dismissed {
			marks = append(marks, "dismissed: the digest changed")
		}
		line := fmt.Sprintf("  %s %s by %s", when(r.At), r.Verdict, output.Clean(r.Principal))
		if len(marks) > 0 {
			line += " (" + strings.Join(marks, ", ") + ")"
		}
		if r.Comment != "" {
			line += ": " + output.Clean(r.Comment)
		}
		fmt.Fprintln(w, line)
	}
}
