package runs

import (
	"context"
	"fmt"

	"pave/executor"
	"pave/flows"
	"pave/governance"
)

// Reviews that a lesson may be turned into. pave never chooses among them; that is the reviewer's work.
var LessonReviews = []string{"skill_instruction", "eval_recommendation", "guardrail_recommendation", "workflow_change"}

// ScopeWorkflow is the scope of every lesson: one flow.
const ScopeWorkflow = "workflow"

// Lesson is what one run has to teach, for a reviewer to make something of: where it failed, and the way there. The
// field names are those of the base system's lesson candidates.
type Lesson struct {
	Workflow         string           `json:"workflow"`
	WorkflowVersion  string           `json:"workflow_version"`
	TraceID          string           `json:"trace_id"`
	Summary          string           `json:"summary"`
	Succeeded        bool             `json:"succeeded"`
	FailingTool      *string          `json:"failing_tool"`
	FailingStepIndex *int             `json:"failing_step_index"`
	ErrorType        *string          `json:"error_type"`
	ErrorMessage     *string          `json:"error_message"`
	Evidence         []LessonEvidence `json:"evidence"`
	SuggestedReviews []string         `json:"suggested_reviews"`
	Scope            string           `json:"scope"`
}

// LessonEvidence is one record of the run.
type LessonEvidence struct {
	StepIndex    int     `json:"step_index"`
	ToolName     string  `json:"tool_name"`
	Success      bool    `json:"success"`
	ErrorType    *string `json:"error_type"`
	ErrorMessage *string `json:"error_message"`
}

// LessonOf makes the lesson of a run. A run without records teaches nothing, which is an error.
func LessonOf(result *executor.RunResult) (*Lesson, error) {
	if len(result.ExecutionLog) == 0 {
		return nil, flows.NewError(flows.CodeConflict, "the run has no step records: there is no lesson in it")
	}
	out := &Lesson{Workflow: result.FlowName, WorkflowVersion: result.FlowVersion, TraceID: result.TraceID, Succeeded: true,
		Summary:          fmt.Sprintf("Workflow '%s' completed without error (%d steps).", result.FlowName, len(result.ExecutionLog)),
		SuggestedReviews: []string{}, Scope: ScopeWorkflow}
	for i := range result.ExecutionLog {
		r := &result.ExecutionLog[i]
		out.Evidence = append(out.Evidence, LessonEvidence{StepIndex: r.StepIndex, ToolName: r.ToolName, Success: r.Success, ErrorType: r.ErrorType, ErrorMessage: r.ErrorMessage})
		if r.Success || !out.Succeeded {
			continue
		}
		kind := "error"
		if r.ErrorType != nil {
			kind = *r.ErrorType
		}
		out.Succeeded, out.FailingTool, out.FailingStepIndex, out.ErrorType, out.ErrorMessage = false, &r.ToolName, &r.StepIndex, r.ErrorType, r.ErrorMessage
		out.Summary = fmt.Sprintf("Workflow '%s' failed at step %d ('%s'): %s.", result.FlowName, r.StepIndex, r.ToolName, kind)
	}
	return out, nil
}

// Lesson is the lesson of a stored run.
func (s *Service) Lesson(ctx context.Context, actor governance.Actor, id string) (*Lesson, error) {
	run, err := s.Get(ctx, actor, id)
	if err != nil {
		return nil, err
	}
	if run.Result == nil {
		return nil, flows.NewError(flows.CodeConflict, fmt.Sprintf("run %s is %s and has no record yet", id, run.State))
	}
	return LessonOf(run.Result)
}
