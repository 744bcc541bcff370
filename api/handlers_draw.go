package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"pave/api/gen"
	"pave/executor"
	"pave/flows"
	"pave/flows/diagram"
)

// GetFlowDiagram draws a flow version.
func (h *handlers) GetFlowDiagram(ctx context.Context, r gen.GetFlowDiagramRequestObject) (gen.GetFlowDiagramResponseObject, error) {
	v, err := h.s.deps.Flows.Flow(ctx, actorFrom(ctx), r.Name, r.Version)
	if err != nil {
		return nil, err
	}
	return draw(v.Flow, diagram.Options{Format: diagram.Format(r.Params.Format), Direction: diagram.Direction(r.Params.Direction)})
}

// GetProposalDiagram draws the flow of a proposal.
func (h *handlers) GetProposalDiagram(ctx context.Context, r gen.GetProposalDiagramRequestObject) (gen.GetProposalDiagramResponseObject, error) {
	p, err := h.s.deps.Proposals.Proposal(ctx, actorFrom(ctx), r.ID)
	if err != nil {
		return nil, err
	}
	return draw(p.Flow, diagram.Options{Format: diagram.Format(r.Params.Format), Direction: diagram.Direction(r.Params.Direction), Sources: true})
}

// GetRunDiagram draws the flow of a run with what the run did.
func (h *handlers) GetRunDiagram(ctx context.Context, r gen.GetRunDiagramRequestObject) (gen.GetRunDiagramResponseObject, error) {
	run, err := h.s.deps.Runs.Get(ctx, actorFrom(ctx), r.ID)
	if err != nil {
		return nil, err
	}
	v, err := h.s.deps.Flows.Flow(ctx, actorFrom(ctx), run.Flow, run.Version)
	if err != nil {
		return nil, err
	}
	return draw(v.Flow, diagram.Options{Format: diagram.Format(r.Params.Format), Direction: diagram.Direction(r.Params.Direction),
		Run: Overlay(v.Flow, run.Result)})
}

// drawing is an answer with the content type of its format.
type drawing struct {
	format diagram.Format
	text   string
}

func draw(flow *flows.Flow, o diagram.Options) (*drawing, error) {
	text, err := diagram.Draw(flow, o)
	return &drawing{format: o.Format, text: text}, err
}

var drawingTypes = map[diagram.Format]string{
	"": "text/plain; charset=utf-8", diagram.FormatText: "text/plain; charset=utf-8", diagram.FormatMermaid: "text/vnd.mermaid; charset=utf-8",
	diagram.FormatDOT: "text/vnd.graphviz; charset=utf-8", diagram.FormatSVG: "image/svg+xml",
}

func (d *drawing) write(w http.ResponseWriter) error {
	w.Header().Set("Content-Type", drawingTypes[d.format])
	if d.format == diagram.FormatSVG { // a browser that opens it alone has no use for more than the picture
		w.Header().Set("Content-Security-Policy", "default-src 'none'; sandbox")
	}
	w.WriteHeader(http.StatusOK)
	_, err := w.Write([]byte(d.text))
	return err
}

// VisitGetFlowDiagramResponse implements gen.GetFlowDiagramResponseObject.
func (d *drawing) VisitGetFlowDiagramResponse(w http.ResponseWriter) error { return d.write(w) }

// VisitGetProposalDiagramResponse implements gen.GetProposalDiagramResponseObject.
func (d *drawing) VisitGetProposalDiagramResponse(w http.ResponseWriter) error { return d.write(w) }

// VisitGetRunDiagramResponse implements gen.GetRunDiagramResponseObject.
func (d *drawing) VisitGetRunDiagramResponse(w http.ResponseWriter) error { return d.write(w) }

// Overlay says what a run did at each step of its flow; result nil is a run without a record.
func Overlay(flow *flows.Flow, result *executor.RunResult) diagram.Overlay {
	out := diagram.Overlay{}
	if result == nil {
		return out
	}
	at := func(index int, id string) int {
		if flow.Type != flows.TypeDAGFlow {
			return index
		}
		for i := range flow.Steps {
			if flow.Steps[i].StepID == id {
				return i
			}
		}
		return -1
	}
	for i := range result.ExecutionLog {
		r := &result.ExecutionLog[i]
		if step := at(r.StepIndex, r.StepID); step >= 0 && step < len(flow.Steps) {
			out[step] = markOf(r)
		}
	}
	if result.HandBack != nil {
		step := at(result.HandBack.StepIndex, result.HandBack.StepID)
		if _, ran := out[step]; !ran {
			out[step] = diagram.Mark{State: diagram.StateHandedBack}
		}
	}
	return out
}

func markOf(r *executor.StepRecord) diagram.Mark {
	m := diagram.Mark{State: diagram.StateDone, Millis: r.DurationMS}
	var notes []string
	note := func(when bool, format string, args ...any) {
		if when {
			notes = append(notes, fmt.Sprintf(format, args...))
		}
	}
	switch {
	case !r.Success:
		m.State = diagram.StateFailed
	case r.Skipped:
		m.State = diagram.StateSkipped
	}
	note(r.Elements != nil, "%d elements", len(r.Elements))
	note(r.Cached, "cached")
	note(r.RetryCount > 0, "%d retries", r.RetryCount)
	if r.FallbackToolName != nil {
		note(r.FallbackUsed, "by %s", *r.FallbackToolName)
	}
	if r.ErrorCode != nil {
		note(true, "%s", *r.ErrorCode)
	}
	m.Note = strings.Join(notes, ", ")
	return m
}

// GetRunLesson makes the lesson of a run.
func (h *handlers) GetRunLesson(ctx context.Context, r gen.GetRunLessonRequestObject) (gen.GetRunLessonResponseObject, error) {
	lesson, err := h.s.deps.Runs.Lesson(ctx, actorFrom(ctx), r.ID)
	if err != nil {
		return nil, err
	}
	out, err := json.Marshal(lesson)
	return rawJSON(out), err
}
