package governance

import (
	"context"
	"strings"
	"time"

	"pave/flows"
	"pave/flows/schema"
	"pave/governance/store"
)

// ToolEras tells for each declared tool that changed incompatibly when it last did: what was recorded before is of another
// tool by the same name. An incompatible change is one of the major number of schema_version; or, of a tool that was discovered
// on its server both times, schemas that no longer take what it took or give what it gave. A corrected tool file is none: it
// is the file that was wrong, not the tool.
func (s *Service) ToolEras(ctx context.Context, actor Actor) (map[string]time.Time, error) {
	eras := map[string]time.Time{}
	action := ActionRead
	if !actor.Has(ScopeRead) {
		action = ActionPropose // who mines need not read what others propose
	}
	err := s.view(ctx, actor, action, func(r *store.Reader, tenant string, _ Policy) error {
		rows, err := r.Tools(tenant)
		if err != nil {
			return err
		}
		for _, row := range rows {
			if row.Inferred || row.Revision == 1 {
				continue
			}
			since, err := era(r, tenant, row.Name)
			if err != nil {
				return err
			}
			if !since.IsZero() {
				eras[row.Name] = since
			}
		}
		return nil
	})
	return eras, err
}

// era is when the newest definition came that breaks the one before it, zero for none.
func era(r *store.Reader, tenant, name string) (time.Time, error) {
	rows, err := r.ToolVersions(tenant, name)
	if err != nil {
		return time.Time{}, err
	}
	var after *ToolVersion
	for _, row := range rows {
		v, err := toolVersion(row)
		if err != nil {
			return time.Time{}, err
		}
		if after != nil && breaksCalls(v.Tool, after.Tool) {
			return after.UpdatedAt, nil
		}
		after = v
	}
	return time.Time{}, nil
}

// breaksCalls reports whether calls of before say nothing of the tool as it is now.
func breaksCalls(before, now *flows.Tool) bool {
	if schemaMajor(before) != schemaMajor(now) {
		return true
	}
	if before.Origin != flows.ToolDiscovered || now.Origin != flows.ToolDiscovered {
		return false
	}
	return !fits(before.InputSchema, now.InputSchema) || !fits(now.OutputSchema, before.OutputSchema)
}

// fits reports whether values of one schema can stand where the other is wanted. What has no schema, or one that cannot be
// read, fits everything.
func fits(out, in flows.RawSchema) bool {
	if len(out) == 0 || len(in) == 0 {
		return true
	}
	a, errOut := schema.Compile(out)
	b, errIn := schema.Compile(in)
	if errOut != nil || errIn != nil {
		return true
	}
	ok, _ := schema.Assignable(a, b)
	return ok
}

// schemaMajor is what stands before the first point of the tool's schema_version.
func schemaMajor(t *flows.Tool) string {
	major, _, _ := strings.Cut(strings.TrimPrefix(t.SchemaVersion, "v"), ".")
	if major == "" {
		return "0"
	}
	return major
}
