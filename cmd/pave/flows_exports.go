package main

import (
	"net/http"

	"pave/api/gen"
)

type flowsExportAllCmd struct {
	For string `help:"Form: ${enum}." enum:"openapi,openai,anthropic,mcp" default:"openapi" env:"PAVE_FOR"`
}

// Run prints all active flows as one document.
func (c *flowsExportAllCmd) Run(e *env) error {
	return e.withClient(func(cl *client) error {
		var resp *http.Response
		var err error
		if c.For == "openapi" {
			resp, err = cl.ExportOpenAPI(e.ctx)
		} else {
			resp, err = cl.ExportTools(e.ctx, &gen.ExportToolsParams{For: gen.ExportToolsParamsFor(c.For)})
		}
		return e.copyAnswer(resp, err)
	})
}
