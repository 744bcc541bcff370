package runs

import (
	"context"
	"encoding/json"

	"pave/flows"
	"pave/flows/export"
	"pave/governance"
)

// Offer is a flow as others may call it.
type Offer struct {
	Flow         *flows.Flow
	InputSchema  flows.RawSchema       // nil: not known
	OutputSchema flows.RawSchema       // nil: not declared
	Safety       *flows.SafetyContract // nil: not known
	// Definition is the flow as a tool of the Model Context Protocol; nil when it cannot be one, for the reason in Problem.
	Definition json.RawMessage
	Problem    string
}

// Offers lists the flows in service, by name, each in the version that governance.Offered selects.
func (s *Service) Offers(ctx context.Context, actor governance.Actor) ([]Offer, error) {
	versions, err := s.catalogue.Flows(ctx, actor)
	if err != nil {
		return nil, err
	}
	var out []Offer
	for _, v := range governance.Offered(versions) {
		compiled, err := s.Compile(ctx, actor, v.Flow)
		if err != nil {
			return nil, err
		}
		known := &registered{ctx: ctx, actor: actor, catalogue: s.catalogue}
		o := Offer{Flow: v.Flow, InputSchema: compiled.InputSchema, OutputSchema: v.Flow.OutputSchema, Safety: export.Safety(v.Flow, known)}
		if o.Definition, err = export.Definition(v.Flow, export.MCP, export.Options{Tools: known, Input: compiled.InputSchema}); err != nil {
			o.Problem = err.Error()
		}
		if known.err != nil {
			return nil, known.err
		}
		out = append(out, o)
	}
	return out, nil
}

// Exposed says whether agents may be offered the flow by itself: it was promoted, what it does to the world is known and
// within the ceiling, and nobody needs to be asked. why says what keeps it back.
func (o *Offer) Exposed(ceiling flows.SideEffects) (why string, ok bool) {
	switch g := o.Flow.Governance; {
	case g == nil || g.Lifecycle != flows.LifecycleActive:
		return "its lifecycle is not active", false
	case o.Safety == nil || o.Safety.Source == "unknown":
		return "the safety of one of its tools is not known", false
	case flows.Exceeds(o.Safety.SideEffects, ceiling):
		return "its side effects (" + string(o.Safety.SideEffects) + ") are above the ceiling (" + string(ceiling) + ")", false
	case o.Safety.RequiresApproval:
		return "its calls need approval", false
	case o.Definition == nil:
		return o.Problem, false
	}
	return "", true
}
