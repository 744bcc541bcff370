package runs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"

	"pave/executor"
	"pave/flows"
	"pave/flows/export"
	"pave/governance"
)

// Catalogue reads what flows are compiled against; governance.Service is one.
type Catalogue interface {
	// Tool reads the current definition of a tool.
	Tool(ctx context.Context, actor governance.Actor, name string) (*governance.ToolVersion, error)
	// Flow reads a flow version; "" is the active one.
	Flow(ctx context.Context, actor governance.Actor, name, version string) (*governance.FlowVersion, error)
	// Flows lists every version of every flow.
	Flows(ctx context.Context, actor governance.Actor) ([]governance.FlowVersion, error)
	// Schema reads a registered schema.
	Schema(ctx context.Context, actor governance.Actor, name string) (*governance.Schema, error)
}

// Compiled is what compiling a flow against the registered tools and flows told.
type Compiled struct {
	Flow        *flows.Flow
	Digest      string
	Diagnostics []executor.Diagnostic
	// InputSchema is what a caller should send, inferred where the flow declares none; nil when it is not known.
	InputSchema flows.RawSchema
	// Unbound are the tools that have no binding: the flow cannot run until they have.
	Unbound []string
	Plan    *executor.Plan // nil when the flow cannot be started at all
}

// Compile checks a flow, which need not be registered, against the tools and flows that are. Faults of the flow are in
// the diagnostics, never an error.
func (s *Service) Compile(ctx context.Context, actor governance.Actor, flow *flows.Flow) (*Compiled, error) {
	if err := governance.Permit(actor, governance.ActionRead); err != nil {
		return nil, err
	}
	return s.compile(ctx, actor, flow, nil)
}

// compile is Compile with the versions of called flows that steps do not pin themselves; those that are not there are the
// active ones.
func (s *Service) compile(ctx context.Context, actor governance.Actor, flow *flows.Flow, versions map[string]string) (*Compiled, error) {
	known := &registered{ctx: ctx, actor: actor, catalogue: s.catalogue, versions: versions}
	plan, found := executor.Compile(flow, known, executor.CompileOptions{Flows: known, Schemas: known})
	if known.err != nil {
		return nil, known.err
	}
	out := &Compiled{Flow: flow, Digest: flows.Digest(flow), Diagnostics: found, Plan: plan}
	if plan != nil {
		out.InputSchema, out.Unbound = plan.InputSchema(), plan.Unbound()
	}
	return out, nil
}

// registered is what a caller may see of the catalogue as sets for the compiler. The first error other than "there is
// none" is kept.
type registered struct {
	ctx       context.Context
	actor     governance.Actor
	catalogue Catalogue
	versions  map[string]string // of flows, in place of the active ones
	err       error
}

// Tool implements executor.ToolSet.
func (r *registered) Tool(name string) (*flows.Tool, bool) {
	v, err := r.catalogue.Tool(r.ctx, r.actor, name)
	if !r.found(err) {
		return nil, false
	}
	return v.Tool, true
}

// Flow implements executor.FlowSet.
func (r *registered) Flow(name, version string) (*flows.Flow, bool) {
	v, err := r.catalogue.Flow(r.ctx, r.actor, name, cmp.Or(version, r.versions[name]))
	if !r.found(err) {
		return nil, false
	}
	return v.Flow, true
}

// Schema implements executor.SchemaSet.
func (r *registered) Schema(name string) (flows.RawSchema, bool) {
	s, err := r.catalogue.Schema(r.ctx, r.actor, name)
	if !r.found(err) {
		return nil, false
	}
	return s.Schema, true
}

func (r *registered) found(err error) bool {
	if err != nil && flows.CodeOf(err) != flows.CodeNotFound {
		r.err = errors.Join(r.err, err)
	}
	return err == nil
}

// Export writes a flow version as a tool definition for target; version "" is the active one, as "" is the flow's own
// name.
func (s *Service) Export(ctx context.Context, actor governance.Actor, name, version string, target export.Target, as string) (json.RawMessage, error) {
	v, err := s.catalogue.Flow(ctx, actor, name, version)
	if err != nil {
		return nil, err
	}
	compiled, err := s.Compile(ctx, actor, v.Flow)
	if err != nil {
		return nil, err
	}
	known := &registered{ctx: ctx, actor: actor, catalogue: s.catalogue}
	out, err := export.Definition(v.Flow, target, export.Options{Tools: known, Input: compiled.InputSchema, Name: as})
	return out, errors.Join(err, known.err)
}

// KindFlow is the kind of every capability that pave offers.
const KindFlow = "flow"

// Capability is a flow that others find by its capability id.
type Capability struct {
	ID           string
	Name         string
	Version      string
	Description  string
	InputSchema  flows.RawSchema // nil: not known
	OutputSchema flows.RawSchema // nil: not declared
	Safety       *flows.SafetyContract
}

// Capabilities lists the flows in service that have a capability id, by flow name, each in the version that
// governance.Offered selects.
func (s *Service) Capabilities(ctx context.Context, actor governance.Actor) ([]Capability, error) {
	versions, err := s.catalogue.Flows(ctx, actor)
	if err != nil {
		return nil, err
	}
	var out []Capability
	for _, v := range governance.Offered(versions) {
		if v.Flow.CapabilityID == "" {
			continue
		}
		compiled, err := s.Compile(ctx, actor, v.Flow)
		if err != nil {
			return nil, err
		}
		known := &registered{ctx: ctx, actor: actor, catalogue: s.catalogue}
		out = append(out, Capability{ID: v.Flow.CapabilityID, Name: v.Flow.Name, Version: v.Flow.Version, Description: v.Flow.Description,
			InputSchema: compiled.InputSchema, OutputSchema: v.Flow.OutputSchema, Safety: export.Safety(v.Flow, known)})
		if known.err != nil {
			return nil, known.err
		}
	}
	return out, nil
}
