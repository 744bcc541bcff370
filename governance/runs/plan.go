package runs

import (
	"fmt"

	"pave/executor"
	"pave/flows"
	"pave/governance"
)

// plan compiles what was admitted, once for equal content.
func (s *Service) plan(a *governance.Admission) (*executor.Plan, error) {
	s.mu.Lock()
	plan := s.plans[a.Key]
	s.mu.Unlock()
	if plan != nil {
		return plan, nil
	}
	plan, found := executor.Compile(a.Version.Flow, executor.Tools(a.Tools), executor.CompileOptions{Flows: calledFlows(a.Flows)})
	if problems := errorsOf(found); plan == nil || len(problems) > 0 {
		return nil, flows.NewError(flows.CodeCompile, fmt.Sprintf("flow %s@%s does not compile: %s",
			a.Version.Flow.Name, a.Version.Flow.Version, problems[0].Detail), problems...)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.plans) >= maxPlans { // versions come and go slowly; starting anew costs one compilation each
		clear(s.plans)
	}
	s.plans[a.Key] = plan
	return plan, nil
}

// calledFlows are the flows that steps call, by the reference that they write.
type calledFlows map[string]*flows.Flow

// Flow implements executor.FlowSet.
func (c calledFlows) Flow(name, version string) (*flows.Flow, bool) {
	if version != "" {
		name += "@" + version
	}
	flow, ok := c[name]
	return flow, ok
}

// calledAs lists the versions of the flows that steps call without naming one.
func calledAs(a *governance.Admission) map[string]string {
	out := map[string]string{}
	for ref, flow := range a.Flows {
		if ref == flow.Name {
			out[ref] = flow.Version
		}
	}
	return out
}

// Check is a governance.Check: what keeps a flow from running with these tools and flows.
func Check(flow *flows.Flow, tools map[string]*flows.Tool, called map[string]*flows.Flow) []flows.ErrorDetail {
	_, found := executor.Compile(flow, executor.Tools(tools), executor.CompileOptions{Flows: calledFlows(called)})
	return errorsOf(found)
}

func errorsOf(found []executor.Diagnostic) []flows.ErrorDetail {
	var out []flows.ErrorDetail
	for _, d := range found {
		if d.Severity == executor.SeverityError {
			out = append(out, flows.ErrorDetail{Pointer: d.Pointer, Code: d.IssueType, Detail: d.Detail})
		}
	}
	return out
}
