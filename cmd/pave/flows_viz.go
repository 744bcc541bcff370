package main

import (
	"io"

	"pave/api/gen"
	"pave/cmd/pave/internal/output"
	"pave/flows/diagram"
)

// drawFlags choose the form of a drawing.
type drawFlags struct {
	Format    string `help:"Form: ${enum}." env:"PAVE_DRAW_FORMAT" enum:"text,mermaid,dot,svg" default:"text"`
	Direction string `help:"LR or TD; mermaid is LR and svg TD without it." env:"PAVE_DIRECTION" enum:",LR,TD" default:""`
}

// drawn is a drawing as an answer.
type drawn struct {
	Format  string `json:"format"`
	Drawing string `json:"drawing"`
}

func (e *env) printDrawing(format, text string) error {
	return e.printValue(drawn{Format: format, Drawing: text}, func(w io.Writer) error {
		_, err := io.WriteString(w, output.CleanLines(text))
		return err
	})
}

type flowsVizCmd struct {
	Flow string `arg:"" help:"NAME, NAME@VERSION or a flow file."`
	drawFlags
}

// Run draws a flow.
func (c *flowsVizCmd) Run(e *env) error {
	if !isFile(c.Flow) {
		return c.registered(e)
	}
	flow, _, err := readFlow(e, c.Flow)
	if err != nil {
		return err
	}
	text, err := diagram.Draw(flow, diagram.Options{Format: diagram.Format(c.Format), Direction: diagram.Direction(c.Direction)})
	if err != nil {
		return err
	}
	return e.printDrawing(c.Format, text)
}

// registered lets the service draw, as it does for others.
func (c *flowsVizCmd) registered(e *env) error {
	return e.withClient(func(cl *client) error {
		v, _, err := getFlow(e, cl, c.Flow)
		if err != nil {
			return err
		}
		resp, err := check(cl.GetFlowDiagramWithResponse(e.ctx, v.Name, v.Version, &gen.GetFlowDiagramParams{
			Format: gen.GetFlowDiagramParamsFormat(c.Format), Direction: gen.GetFlowDiagramParamsDirection(c.Direction)}))
		if err != nil {
			return err
		}
		return e.printDrawing(c.Format, string(resp.GetBody()))
	})
}

type proposalsVizCmd struct {
	ID string `arg:"" help:"Proposal: its id, a unique beginning of it, or its flow's name."`
	drawFlags
}

// Run draws what a proposal would run.
func (c *proposalsVizCmd) Run(e *env) error {
	return e.withClient(func(cl *client) error {
		resp, err := check(cl.GetProposalDiagramWithResponse(e.ctx, c.ID, &gen.GetProposalDiagramParams{
			Format: gen.GetProposalDiagramParamsFormat(c.Format), Direction: gen.GetProposalDiagramParamsDirection(c.Direction)}))
		if err != nil {
			return err
		}
		return e.printDrawing(c.Format, string(resp.GetBody()))
	})
}

type runsVizCmd struct {
	ID string `arg:"" help:"The run's id."`
	drawFlags
}

// Run draws the flow of a run with what the run did.
func (c *runsVizCmd) Run(e *env) error {
	return e.withClient(func(cl *client) error {
		resp, err := check(cl.GetRunDiagramWithResponse(e.ctx, c.ID, &gen.GetRunDiagramParams{
			Format: gen.GetRunDiagramParamsFormat(c.Format), Direction: gen.GetRunDiagramParamsDirection(c.Direction)}))
		if err != nil {
			return err
		}
		return e.printDrawing(c.Format, string(resp.GetBody()))
	})
}
