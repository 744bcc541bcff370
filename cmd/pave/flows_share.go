package main

import (
	"fmt"
	"io"

	"pave/api/gen"
	"pave/cmd/pave/internal/output"
	"pave/executor/flowtest"
	"pave/flows"
)

type flowsExportCmd struct {
	Flow   string `arg:"" help:"NAME or NAME@VERSION."`
	For    string `help:"Who reads it: ${enum}." required:"" env:"PAVE_FOR" enum:"openai,anthropic,mcp"`
	ToolAs string `help:"Name of the definition; the flow's own without it." name:"name" env:"PAVE_NAME"`
}

// Run prints a flow as a tool definition.
func (c *flowsExportCmd) Run(e *env) error {
	return e.withClient(func(cl *client) error {
		v, _, err := getFlow(e, cl, c.Flow)
		if err != nil {
			return err
		}
		resp, err := check(cl.ExportFlowWithResponse(e.ctx, v.Name, v.Version, &gen.ExportFlowParams{For: gen.ExportFlowParamsFor(c.For), As: c.ToolAs}))
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error { return output.JSON(w, resp.GetBody()) })
	})
}

type flowsSchemaCmd struct{}

// Run prints the JSON Schema of flow files.
func (flowsSchemaCmd) Run(e *env) error {
	return e.print(flows.FormatSchema(), func(w io.Writer) error { return output.JSON(w, flows.FormatSchema()) })
}

type flowsApplyCmd struct {
	Paths []string `arg:"" name:"path" help:"Flow files or folders."`
}

// Outcomes of one applied flow.
const (
	outcomeProposed  = "proposed"  // a new proposal
	outcomeUnchanged = "unchanged" // a version or an open proposal has the same content
	outcomeConflict  = "conflict"  // an open proposal of this name has other content
)

type appliedFlow struct {
	Flow       string `json:"flow"`
	File       string `json:"file"`
	Outcome    string `json:"outcome"`
	ProposalID string `json:"proposal_id,omitempty"`
	Reason     string `json:"reason,omitempty"`
}

// Run proposes the flows of files for review; nothing becomes active. The same files again change nothing. A flow
// whose name has another open proposal is exit status 4, and stops no other.
func (c *flowsApplyCmd) Run(e *env) error {
	library, err := flowtest.ReadLibrary(c.Paths, nil)
	if err != nil {
		return err
	}
	if len(library.Files) == 0 {
		return errUsage("there is no flow file in the paths given")
	}
	var answer struct {
		Items []appliedFlow `json:"items"`
	}
	conflicts := 0
	return e.withClient(func(cl *client) error {
		var failed error // the first file that could not be proposed; those before it are still listed
		for _, f := range library.Files {
			item, err := applyFlow(e, cl, f.Flow)
			if err != nil {
				failed = fmt.Errorf("%s: %w", f.Path, err)
				break
			}
			if item.File = f.Path; item.Outcome == outcomeConflict {
				conflicts++
			}
			answer.Items = append(answer.Items, item)
		}
		if err := e.printValue(answer, func(w io.Writer) error {
			t := output.NewTable(w, "FLOW", "OUTCOME", "PROPOSAL", "FILE", "REASON")
			for _, i := range answer.Items {
				t.Row(i.Flow, i.Outcome, dash(i.ProposalID), i.File, i.Reason)
			}
			return t.Flush()
		}); err != nil {
			return err
		}
		if failed != nil {
			return failed
		}
		if conflicts > 0 {
			return flows.NewError(flows.CodeConflict, fmt.Sprintf("%d flows have another proposal open; reject or withdraw that one first", conflicts))
		}
		return nil
	})
}

func applyFlow(e *env, cl *client, flow *flows.Flow) (appliedFlow, error) {
	item := appliedFlow{Flow: flow.Name}
	if err := flows.CheckName(flow.Name); err != nil {
		return item, err
	}
	digest := flows.Digest(flow)
	list, err := findFlow(e, cl, flow.Name)
	if err != nil {
		return item, err
	}
	for _, v := range list {
		if v.Digest == digest {
			item.Outcome, item.Reason = outcomeUnchanged, fmt.Sprintf("version %s is %s", v.Version, v.Status)
			return item, nil
		}
	}
	open, err := check(cl.GetProposalWithResponse(e.ctx, flow.Name))
	switch {
	case flows.CodeOf(err) == flows.CodeNotFound:
	case err != nil:
		return item, err
	case isOpen(open.JSON200.State):
		item.ProposalID, item.Outcome, item.Reason = open.JSON200.ID, outcomeUnchanged, "the proposal is "+string(open.JSON200.State)
		if open.JSON200.Digest != digest {
			item.Outcome, item.Reason = outcomeConflict, "another proposal for this name is "+string(open.JSON200.State)
		}
		return item, nil
	}
	doc, err := flow.MarshalJSON()
	if err != nil {
		return item, err
	}
	made, err := check(cl.SubmitProposalWithResponse(e.ctx, nil, gen.ProposalCreate{Flow: doc}))
	if err != nil {
		return item, err
	}
	item.Outcome, item.ProposalID = outcomeProposed, made.JSON201.ID
	return item, nil
}

func isOpen(s gen.ProposalState) bool {
	switch s {
	case gen.ProposalStatePromoted, gen.ProposalStateRejected, gen.ProposalStateWithdrawn, gen.ProposalStateSuperseded:
		return false
	}
	return true
}

// findFlow lists the versions of a flow; none when there is no such flow.
func findFlow(e *env, cl *client, name string) (versions []gen.FlowVersionRef, err error) {
	err = eachPage(func(cursor string) (string, error) {
		resp, err := check(cl.ListFlowsWithResponse(e.ctx, &gen.ListFlowsParams{Limit: maxPage, Cursor: cursor}))
		if err != nil {
			return "", err
		}
		for _, f := range resp.JSON200.Items {
			if f.Name == name {
				versions = f.Versions
				return "", nil
			}
		}
		return resp.JSON200.NextCursor, nil
	})
	return versions, err
}
