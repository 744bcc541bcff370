package api

import (
	"context"
	"fmt"

	"pave/analyzer"
	"pave/api/gen"
	"pave/flows"
	"pave/governance"
)

// pageByOffset cuts a page out of a list that is the same as long as of is.
func pageByOffset[T any](items []T, limit int, cursor, of string) (page []T, next string, err error) {
	first, err := parseOffset(cursor, of, len(items))
	if err != nil {
		return nil, "", err
	}
	last := min(first+pageSize(limit), len(items))
	if last < len(items) {
		next = offsetCursor(of, last)
	}
	return items[first:last], next, nil
}

// ListMiningRuns pages passes.
func (h *handlers) ListMiningRuns(ctx context.Context, r gen.ListMiningRunsRequestObject) (gen.ListMiningRunsResponseObject, error) {
	page, err := h.s.deps.Passes.MiningRuns(ctx, actorFrom(ctx), pageSize(r.Params.Limit), r.Params.Cursor)
	if err != nil {
		return nil, err
	}
	return gen.ListMiningRuns200JSONResponse{NextCursor: page.Next,
		Items: list(page.Items, func(run governance.MiningRun) gen.MiningRun { return miningRun(&run) })}, nil
}

func noPattern(id string) error {
	return flows.NewError(flows.CodeNotFound, fmt.Sprintf("the last pass found no pattern %q", id))
}

// GetPattern reads one pattern of the newest finished pass.
func (h *handlers) GetPattern(ctx context.Context, r gen.GetPatternRequestObject) (gen.GetPatternResponseObject, error) {
	run, err := h.s.deps.Passes.MiningRun(ctx, actorFrom(ctx), "")
	if err != nil {
		return nil, err
	}
	p := run.Pattern(r.ID)
	if p == nil {
		return nil, noPattern(r.ID)
	}
	return gen.GetPattern200JSONResponse(Pattern(*p)), nil
}

// ListPatternOccurrences pages where a pattern occurs.
func (h *handlers) ListPatternOccurrences(ctx context.Context, r gen.ListPatternOccurrencesRequestObject) (gen.ListPatternOccurrencesResponseObject, error) {
	run, err := h.s.deps.Passes.MiningRun(ctx, actorFrom(ctx), "")
	if err != nil {
		return nil, err
	}
	p := run.Pattern(r.ID)
	if p == nil {
		return nil, noPattern(r.ID)
	}
	page, next, err := pageByOffset(p.Examples, r.Params.Limit, r.Params.Cursor, run.ID)
	if err != nil {
		return nil, err
	}
	return gen.ListPatternOccurrences200JSONResponse{Total: p.Occurrences, Items: list(page, occurrence), NextCursor: next}, nil
}

// GetCompatibility pages the fields that fit.
func (h *handlers) GetCompatibility(ctx context.Context, r gen.GetCompatibilityRequestObject) (gen.GetCompatibilityResponseObject, error) {
	found, err := h.s.deps.Tools.Compatibility(ctx, actorFrom(ctx), r.Params.Tool)
	if err != nil {
		return nil, err
	}
	page, next, err := pageByOffset(found.Items, r.Params.Limit, r.Params.Cursor, found.Of)
	if err != nil {
		return nil, err
	}
	return gen.GetCompatibility200JSONResponse{Tools: found.Tools, NextCursor: next, Items: list(page, func(c analyzer.Compatibility) gen.Compatibility {
		return gen.Compatibility{Producer: c.Producer, Pointer: c.Pointer, Consumer: c.Consumer, Input: c.Input, Rule: c.Rule, Score: c.Score}
	})}, nil
}

// ListChains pages the sequences of tools that schemas allow.
func (h *handlers) ListChains(ctx context.Context, r gen.ListChainsRequestObject) (gen.ListChainsResponseObject, error) {
	p := r.Params
	chains, of, err := h.s.deps.Tools.Chains(ctx, actorFrom(ctx), analyzer.ChainQuery{From: p.From, To: p.To, MaxDepth: p.MaxDepth})
	if err != nil {
		return nil, err
	}
	page, next, err := pageByOffset(chains, p.Limit, p.Cursor, of)
	if err != nil {
		return nil, err
	}
	return gen.ListChains200JSONResponse{NextCursor: next, Items: list(page, func(c analyzer.Chain) gen.Chain {
		return gen.Chain{Tools: c.Tools, Score: c.Score, Edges: list(c.Edges, schemaEdge)}
	})}, nil
}

// ListSchemas pages registered schemas by name.
func (h *handlers) ListSchemas(ctx context.Context, r gen.ListSchemasRequestObject) (gen.ListSchemasResponseObject, error) {
	all, err := h.s.deps.Tools.Schemas(ctx, actorFrom(ctx))
	if err != nil {
		return nil, err
	}
	page, next, err := pageByName(all, func(s governance.Schema) string { return s.Name }, r.Params.Limit, r.Params.Cursor)
	if err != nil {
		return nil, err
	}
	return gen.ListSchemas200JSONResponse{NextCursor: next, Items: list(page, func(s governance.Schema) gen.RegisteredSchema {
		return gen.RegisteredSchema{Name: s.Name, Revision: s.Revision, Schema: gen.JSONSchema(s.Schema)}
	})}, nil
}

// GetSchema reads one registered schema.
func (h *handlers) GetSchema(ctx context.Context, r gen.GetSchemaRequestObject) (gen.GetSchemaResponseObject, error) {
	s, err := h.s.deps.Tools.Schema(ctx, actorFrom(ctx), r.Name)
	if err != nil {
		return nil, err
	}
	return gen.GetSchema200JSONResponse{SchemaAnswerJSONResponse: schemaAnswer(s)}, nil
}

// PutSchema registers a schema.
func (h *handlers) PutSchema(ctx context.Context, r gen.PutSchemaRequestObject) (gen.PutSchemaResponseObject, error) {
	revision, err := ifMatch(r.Params.IfMatch, 0)
	if err != nil {
		return nil, err
	}
	if revision == 0 {
		revision = governance.Absent
	}
	s, err := h.s.deps.Tools.PutSchema(ctx, actorFrom(ctx), r.Name, flows.RawSchema(*r.Body), revision)
	if err != nil {
		return nil, err
	}
	return gen.PutSchema200JSONResponse{SchemaAnswerJSONResponse: schemaAnswer(s)}, nil
}

func schemaAnswer(s *governance.Schema) gen.SchemaAnswerJSONResponse {
	return gen.SchemaAnswerJSONResponse{Body: gen.JSONSchema(s.Schema), Headers: gen.SchemaAnswerResponseHeaders{ETag: etag(s.Revision)}}
}

// ReserveProposal says that the caller reads a proposal.
func (h *handlers) ReserveProposal(ctx context.Context, r gen.ReserveProposalRequestObject) (gen.ReserveProposalResponseObject, error) {
	p, err := h.s.deps.Proposals.Reserve(ctx, actorFrom(ctx), r.ID)
	if err != nil {
		return nil, err
	}
	out, err := proposalAnswer(p)
	return gen.ReserveProposal200JSONResponse{ProposalAnswerJSONResponse: out}, err
}

// ReleaseProposal ends the caller's reservation.
func (h *handlers) ReleaseProposal(ctx context.Context, r gen.ReleaseProposalRequestObject) (gen.ReleaseProposalResponseObject, error) {
	p, err := h.s.deps.Proposals.Release(ctx, actorFrom(ctx), r.ID)
	if err != nil {
		return nil, err
	}
	out, err := proposalAnswer(p)
	return gen.ReleaseProposal200JSONResponse{ProposalAnswerJSONResponse: out}, err
}

// GetUsage says who used the installation, and what it holds.
func (h *handlers) GetUsage(ctx context.Context, r gen.GetUsageRequestObject) (gen.GetUsageResponseObject, error) {
	usage, err := h.s.deps.Admin.Usage(ctx, actorFrom(ctx), r.Params.From, r.Params.To)
	if err != nil {
		return nil, err
	}
	out := gen.GetUsage200JSONResponse{From: utc(r.Params.From), To: utc(r.Params.To),
		Principals: list(usage, func(u governance.Usage) gen.PrincipalUsage {
			return gen.PrincipalUsage{Principal: u.Principal, Keys: u.Keys, LastUsedAt: utc(u.LastUsed), Runs: u.Runs, Succeeded: u.Succeeded,
				DryRuns: u.DryRuns, Changes: u.Changes}
		})}
	stats, err := h.s.deps.Status.Stats(ctx)
	if err != nil {
		return nil, storeError(err)
	}
	out.Stored = stored(stats)
	return out, nil
}
