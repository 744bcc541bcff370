package governance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"pave/flows"
	"pave/flows/schema"
	"pave/governance/store"
)

// Schema is a registered JSON Schema, which flows name in input_schema_ref, output_schema_ref and context_schema_ref. A draft
// takes the schema that its reference names when it is put into the queue: what is registered later changes no flow.
type Schema struct {
	Name     string
	Revision int64
	Schema   flows.RawSchema
}

// schemaSetting begins the names of the settings that hold schemas.
const schemaSetting = "schema/"

var schemaName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,127}$`)

// FlowSchemaName is the schema of flow files; it is part of the program and nobody registers another.
const FlowSchemaName = "flow"

// Schema reads a registered schema.
func (s *Service) Schema(ctx context.Context, actor Actor, name string) (out *Schema, err error) {
	err = s.view(ctx, actor, ActionRead, func(r *store.Reader, tenant string, _ Policy) error {
		raw, revision, err := r.Setting(tenant, schemaSetting+name)
		out = &Schema{Name: name, Revision: revision, Schema: raw}
		return notFound(err, "there is no schema %q", name)
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Schemas lists the registered schemas by name.
func (s *Service) Schemas(ctx context.Context, actor Actor) (out []Schema, err error) {
	err = s.view(ctx, actor, ActionRead, func(r *store.Reader, tenant string, _ Policy) error {
		rows, err := r.SettingsLike(tenant, schemaSetting)
		if err != nil {
			return err
		}
		for _, row := range rows {
			out = append(out, Schema{Name: strings.TrimPrefix(row.Name, schemaSetting), Revision: row.Revision, Schema: row.Value})
		}
		return nil
	})
	return out, err
}

// PutSchema registers a schema, or replaces the one with revision ifRevision; Absent where there must be none.
func (s *Service) PutSchema(ctx context.Context, actor Actor, name string, raw flows.RawSchema, ifRevision int64) (*Schema, error) {
	if !schemaName.MatchString(name) || name == FlowSchemaName {
		return nil, flows.NewError(flows.CodeInvalid, fmt.Sprintf("schema name %q: use 1 to 128 of A-Z a-z 0-9 _ . : -; %q is taken", name, FlowSchemaName),
			flows.ErrorDetail{Pointer: "name", Code: "invalid", Detail: "1 to 128 of A-Z a-z 0-9 _ . : -"})
	}
	if _, err := schema.Compile(raw); err != nil {
		return nil, &flows.Error{Code: flows.CodeInvalid, Message: "the schema cannot be used: " + err.Error(), Err: err,
			Details: []flows.ErrorDetail{{Code: "invalid", Detail: err.Error()}}}
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, raw); err != nil {
		return nil, flows.NewError(flows.CodeInvalid, "the schema is not JSON")
	}
	out := &Schema{Name: name, Schema: compact.Bytes()}
	err := s.update(ctx, actor, ActionAdmin, func(c *change) error {
		_, current, err := c.Setting(c.tenant, schemaSetting+name)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if err := checkRevision("schema "+name, ifRevision, current); err != nil {
			return err
		}
		out.Revision = current + 1
		if err := c.PutSetting(c.tenant, schemaSetting+name, out.Schema, current); err != nil {
			return err
		}
		return c.audit("schema.put", "schema/"+name, map[string]any{"revision": out.Revision})
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// inlined is the flow with the registered schemas in the place of the references to them. A reference that names nothing
// stays: compiling says so.
func (c *change) inlined(flow *flows.Flow) (*flows.Flow, error) {
	out := *flow
	for _, part := range []struct {
		ref    *string
		schema *flows.RawSchema
	}{{&out.InputSchemaRef, &out.InputSchema}, {&out.OutputSchemaRef, &out.OutputSchema}, {&out.ContextSchemaRef, &out.ContextSchema}} {
		if *part.ref == "" || *part.schema != nil {
			continue
		}
		raw, _, err := c.Setting(c.tenant, schemaSetting+*part.ref)
		switch {
		case err == nil:
			*part.schema, *part.ref = raw, ""
		case !errors.Is(err, store.ErrNotFound):
			return nil, err
		}
	}
	return &out, nil
}
