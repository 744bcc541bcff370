package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"pave/api/gen"
	"pave/cmd/pave/internal/output"
	"pave/flows"
	"pave/governance"
)

type schemasCmd struct {
	List schemasListCmd `cmd:"" help:"List registered JSON Schemas."`
	Show schemasShowCmd `cmd:"" help:"Print a registered schema; flow is that of flow files."`
	Put  schemasPutCmd  `cmd:"" help:"Register the schema of a file, or replace the one of that name."`
}

type schemasListCmd struct{ pageFlags }

// Run lists schemas.
func (c *schemasListCmd) Run(e *env) error {
	return e.withClient(func(cl *client) error {
		resp, err := check(cl.ListSchemasWithResponse(e.ctx, &gen.ListSchemasParams{Limit: c.Limit, Cursor: c.Cursor}))
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error {
			t := output.NewTable(w, "SCHEMA", "REVISION", "CONTENT")
			t.Otherwise("no schema; pave schemas put registers them")
			for _, s := range resp.JSON200.Items {
				t.Row(s.Name, fmt.Sprint(s.Revision), output.Short(string(s.Schema), 80))
			}
			if err := t.Flush(); err != nil {
				return err
			}
			more(w, resp.JSON200.NextCursor)
			return nil
		})
	})
}

type schemasShowCmd struct {
	Name string `arg:"" help:"Name of the schema."`
}

// Run prints a schema.
func (c *schemasShowCmd) Run(e *env) error {
	return e.withClient(func(cl *client) error {
		body, err := c.read(e, cl)
		if err != nil {
			return err
		}
		return e.print(body, func(w io.Writer) error { return output.JSON(w, body) })
	})
}

func (c *schemasShowCmd) read(e *env, cl *client) ([]byte, error) {
	if c.Name == governance.FlowSchemaName {
		resp, err := check(cl.GetFlowSchemaWithResponse(e.ctx))
		if err != nil {
			return nil, err
		}
		return resp.GetBody(), nil
	}
	resp, err := check(cl.GetSchemaWithResponse(e.ctx, c.Name))
	if err != nil {
		return nil, err
	}
	return resp.GetBody(), nil
}

type schemasPutCmd struct {
	Name     string `arg:"" help:"Name of the schema."`
	File     string `arg:"" help:"JSON file with the schema."`
	Revision int64  `help:"The revision that it replaces, 0 for a new name." env:"PAVE_REVISION" default:"0"`
}

// Run registers a schema.
func (c *schemasPutCmd) Run(e *env) error {
	doc, err := readFile("schema", c.File)
	if err != nil {
		return err
	}
	return e.withClient(func(cl *client) error {
		resp, err := check(cl.PutSchemaWithBodyWithResponse(e.ctx, c.Name, &gen.PutSchemaParams{IfMatch: etag(c.Revision)}, "application/json", bytes.NewReader(doc)))
		if c.Revision == 0 && flows.CodeOf(err) == flows.CodeStale {
			return flows.NewError(flows.CodeStale, fmt.Sprintf("there is a schema %s; --revision N replaces its revision N, which pave schemas list shows", output.Clean(c.Name)))
		}
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "schema %s, revision %s\n", output.Clean(c.Name), strings.Trim(resp.HTTPResponse.Header.Get("ETag"), `"`))
			return err
		})
	})
}
