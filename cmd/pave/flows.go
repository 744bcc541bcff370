package main

import (
	"fmt"
	"io"
	"strings"

	"pave/api/gen"
	"pave/cmd/pave/internal/output"
	"pave/flows"
)

type flowsCmd struct {
	List         flowsListCmd         `cmd:"" help:"List flows."`
	Show         flowsShowCmd         `cmd:"" help:"Show a flow version."`
	Viz          flowsVizCmd          `cmd:"" help:"Draw a flow: text, Mermaid, DOT or SVG."`
	Compile      flowsCompileCmd      `cmd:"" help:"Check one flow against registered tools, or against files."`
	Check        flowsCheckCmd        `cmd:"" help:"Check that every flow of a folder compiles against the tools of another."`
	Test         flowsTestCmd         `cmd:"" help:"Run golden tests: of test files, or of flow versions by name."`
	Explain      flowsExplainCmd      `cmd:"" help:"Say what a flow will do, step by step, without running it."`
	Attest       flowsAttestCmd       `cmd:"" help:"Run a flow repeatedly and see whether the runs agree."`
	Diff         flowsDiffCmd         `cmd:"" help:"Compare two flows."`
	Status       flowsStatusCmd       `cmd:"" help:"Open or close the gate of a flow version."`
	Rollout      flowsRolloutCmd      `cmd:"" help:"Change the share of the callers that a new version serves."`
	Rollback     flowsRollbackCmd     `cmd:"" help:"Make an earlier version of a flow the one that runs."`
	Apply        flowsApplyCmd        `cmd:"" help:"Propose the flows of files for review."`
	Export       flowsExportCmd       `cmd:"" help:"Print a flow as a tool definition for OpenAI, Anthropic or MCP."`
	ExportAll    flowsExportAllCmd    `cmd:"" help:"Print all active flows as one OpenAPI document, or as tool definitions."`
	Profile      flowsProfileCmd      `cmd:"" help:"Show how long recorded runs and their steps took."`
	Optimize     flowsOptimizeCmd     `cmd:"" help:"Suggest what could be better in a linear flow."`
	Capabilities flowsCapabilitiesCmd `cmd:"" help:"List active flows that have a capability id."`
	Schema       flowsSchemaCmd       `cmd:"" help:"Print the JSON Schema of flow files."`
}

type flowsListCmd struct{ pageFlags }

// Run lists flows.
func (c *flowsListCmd) Run(e *env) error {
	return e.withClient(func(cl *client) error {
		resp, err := check(cl.ListFlowsWithResponse(e.ctx, &gen.ListFlowsParams{Limit: c.Limit, Cursor: c.Cursor}))
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error {
			t := output.NewTable(w, "FLOW", "ACTIVE", "STATUS", "PATH", "VERSIONS", "DESCRIPTION")
			t.Otherwise("no flow; a proposal becomes one with pave promote")
			for _, f := range resp.JSON200.Items {
				versions := make([]string, len(f.Versions))
				for i, v := range f.Versions {
					versions[i] = v.Version
				}
				active := dash(f.ActiveVersion)
				if f.Rollout != nil {
					active += " (" + percentOf(f.Rollout.Share) + ")"
				}
				t.Row(f.Name, active, string(f.Status), output.Short(pathOf(f.Tools), 60),
					strings.Join(versions, ","), output.Short(f.Description, 60))
			}
			if err := t.Flush(); err != nil {
				return err
			}
			more(w, resp.JSON200.NextCursor)
			return nil
		})
	})
}

type flowsShowCmd struct {
	Flow string `arg:"" help:"NAME or NAME@VERSION."`
}

// Run shows a flow: its canonical file, under a drawing.
func (c *flowsShowCmd) Run(e *env) error {
	return e.withClient(func(cl *client) error {
		f, body, err := getFlow(e, cl, c.Flow)
		if err != nil {
			return err
		}
		return e.print(body, func(w io.Writer) error {
			fmt.Fprintf(w, "%s@%s  %s%s\n", output.Clean(f.Name), output.Clean(f.Version), f.Status, whoRuns(f))
			if f.Reason != "" {
				fmt.Fprintf(w, "because: %s\n", output.Clean(f.Reason))
			}
			fmt.Fprintf(w, "digest %s, revision %d, promoted by %s\n\n", f.Digest, f.Revision, dash(output.Clean(f.PromotedBy)))
			flow, err := parseFlow(f.Flow)
			if err != nil {
				return err
			}
			drawFlow(w, flow, nil)
			fmt.Fprintln(w)
			return flowFile(w, flow)
		})
	})
}

// getFlow reads NAME or NAME@VERSION.
func getFlow(e *env, cl *client, ref string) (*gen.FlowVersion, []byte, error) {
	name, version, exact, err := flowRef(ref)
	if err != nil {
		return nil, nil, err
	}
	if !exact {
		resp, err := check(cl.GetFlowWithResponse(e.ctx, name))
		if err != nil {
			return nil, nil, err
		}
		return resp.JSON200, resp.GetBody(), nil
	}
	resp, err := check(cl.GetFlowVersionWithResponse(e.ctx, name, version))
	if err != nil {
		return nil, nil, err
	}
	return resp.JSON200, resp.GetBody(), nil
}

func parseFlow(doc []byte) (*flows.Flow, error) {
	flow, _, err := flows.ParseFlow(doc)
	if err != nil {
		return nil, fmt.Errorf("the server's flow document: %w", err)
	}
	return flow, nil
}
