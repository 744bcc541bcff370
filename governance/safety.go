package governance

import (
	"fmt"
	"slices"
	"strings"

	"pave/flows"
)

// SafetyDeclaration is what a reviewer says of a tool whose safety nobody declared.
type SafetyDeclaration struct {
	Tool        string
	SideEffects flows.SideEffects
	Reason      string
}

// sourceReviewer marks a contract that a reviewer declared.
const sourceReviewer = "reviewer"

func (r *ReviewRequest) checkSafety() error {
	var details []flows.ErrorDetail
	fault := func(i int, field, code, detail string) {
		details = append(details, flows.ErrorDetail{Pointer: fmt.Sprintf("/safety/%d/%s", i, field), Code: code, Detail: detail})
	}
	for i, d := range r.Safety {
		if !slices.Contains(levels, d.SideEffects) {
			fault(i, "side_effects", "invalid", "none, read, write, external or destructive")
		}
		if strings.TrimSpace(d.Reason) == "" {
			fault(i, "reason", "missing", "how the reviewer knows")
		}
		if slices.ContainsFunc(r.Safety[:i], func(other SafetyDeclaration) bool { return other.Tool == d.Tool }) {
			fault(i, "tool", "duplicate", "declared twice")
		}
	}
	if len(r.Safety) > 0 && r.Verdict != VerdictApprove {
		details = append(details, flows.ErrorDetail{Pointer: "/safety", Code: "invalid", Detail: "only with an approval"})
	}
	if len(details) == 0 {
		return nil
	}
	return flows.NewError(flows.CodeInvalid, "the declaration of safety is not valid: "+details[0].Detail, details...)
}

// declareSafety writes what a reviewer knows of tools that the draft reaches and whose safety is unknown, and returns what
// the tools say of the draft then. What somebody declared is not overruled in a review.
func (c *change) declareSafety(e *entry, declared []SafetyDeclaration) (content, error) {
	names := ToolNames(e.Flow)
	var changed []string
	for i, d := range declared {
		at := flows.ErrorDetail{Pointer: fmt.Sprintf("/safety/%d/tool", i), Code: "invalid", Detail: "a declared tool of the draft whose safety is not known"}
		if !slices.Contains(names, d.Tool) {
			return content{}, flows.NewError(flows.CodeInvalid, fmt.Sprintf("the draft does not use a tool %q", d.Tool), at)
		}
		row, err := c.Tool(c.tenant, d.Tool, false)
		if err != nil {
			return content{}, notFound(err, "tool %s is not declared: apply a tool file first", d.Tool)
		}
		v, err := toolVersion(row)
		if err != nil {
			return content{}, err
		}
		if s := v.Tool.Safety; s != nil && slices.Contains(levels, s.SideEffects) {
			return content{}, flows.NewError(flows.CodeConflict, fmt.Sprintf("the safety of tool %s is declared already: %s; a tool file changes it", d.Tool, s.SideEffects), at)
		}
		tool := *v.Tool
		tool.Safety = &flows.SafetyContract{SideEffects: d.SideEffects, Stability: "best_effort", DeterminismLevel: "partial", Source: sourceReviewer}
		done, err := c.putTool(&tool, false, 0)
		if err != nil {
			return content{}, err
		}
		if err := c.audit("tool.safety", "tool/"+d.Tool, map[string]any{"side_effects": d.SideEffects, "reason": d.Reason, "proposal": e.ID, "revision": done.Revision}); err != nil {
			return content{}, err
		}
		if _, err := c.driftOf(&tool, done.Riskier); err != nil {
			return content{}, err
		}
		changed = append(changed, d.Tool)
	}
	if err := c.rejudgeBut(e.ID, changed); err != nil {
		return content{}, err
	}
	tools, err := toolsIn(&c.Reader, c.tenant)
	if err != nil {
		return content{}, err
	}
	return tools.contentOf(e.Flow), nil
}
