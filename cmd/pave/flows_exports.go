package main

import (
	"io"

	"pave/api/gen"
	"pave/cmd/pave/internal/output"
)

type flowsExportAllCmd struct {
	For string `help:"Form: ${enum}." enum:"openapi,openai,anthropic,mcp" default:"openapi" env:"PAVE_FOR"`
}

// Run prints all active flows as one document.
func (c *flowsExportAllCmd) Run(e *env) error {
	return e.withClient(func(cl *client) error {
		doc, err := c.document(e, cl)
		if err != nil {
			return err
		}
		return e.print(doc, func(w io.Writer) error { return output.JSON(w, doc) })
	})
}

func (c *flowsExportAllCmd) document(e *env, cl *client) ([]byte, error) {
	if c.For == "openapi" {
		resp, err := check(cl.ExportOpenAPIWithResponse(e.ctx))
		if err != nil {
			return nil, err
		}
		return resp.GetBody(), nil
	}
	resp, err := check(cl.ExportToolsWithResponse(e.ctx, &gen.ExportToolsParams{For: gen.ExportToolsParamsFor(c.For)}))
	if err != nil {
		return nil, err
	}
	return resp.GetBody(), nil
}
