package api

import (
	"cmp"
	"context"

	openapi "github.com/oapi-codegen/runtime/types"

	"pave/api/gen"
	"pave/ingest/store"
	"pave/observer"
)

// defaultEdges is how many edges of the graph are answered without a limit.
const defaultEdges = 200

// GetFollows answers the directly-follows graph, the most frequent edges of it.
func (h *handlers) GetFollows(ctx context.Context, r gen.GetFollowsRequestObject) (gen.GetFollowsResponseObject, error) {
	p := r.Params
	survey, err := h.s.deps.Walks.Survey(ctx, actorFrom(ctx).Tenant, store.SequenceFilter{From: p.From, To: p.To, Agent: p.Agent})
	if err != nil {
		return nil, storeError(err)
	}
	limit := cmp.Or(p.Limit, defaultEdges)
	edges := survey.Edges[:min(limit, len(survey.Edges))]
	shown := make(map[string]bool)
	for _, e := range edges {
		shown[e.From], shown[e.To] = true, true
	}
	out := gen.GetFollows200JSONResponse{Sessions: survey.Sessions, Calls: survey.Calls, Tools: []gen.FollowsTool{},
		Edges: list(edges, func(e observer.SurveyEdge) gen.FollowsEdge {
			return gen.FollowsEdge{From: e.From, To: e.To, Count: e.Count, Confidence: e.Confidence}
		}),
		EdgesLeftOut: int64(len(survey.Edges) - len(edges)),
	}
	for i, t := range survey.Tools {
		if shown[t.Name] || i < limit {
			out.Tools = append(out.Tools, gen.FollowsTool{Name: t.Name, Calls: t.Calls, Starts: t.Starts, Ends: t.Ends})
		}
	}
	return out, nil
}

// GetActivityReport answers calls and sessions by day and agent, and the different tools of each day.
func (h *handlers) GetActivityReport(ctx context.Context, r gen.GetActivityReportRequestObject) (gen.GetActivityReportResponseObject, error) {
	p := r.Params
	active, err := h.s.deps.Walks.Activity(ctx, actorFrom(ctx).Tenant, store.SequenceFilter{From: p.From, To: p.To, Agent: p.Agent})
	if err != nil {
		return nil, storeError(err)
	}
	return gen.GetActivityReport200JSONResponse{Sessions: active.Sessions, Calls: active.Calls,
		Days: list(active.Days, func(d observer.ActivityDay) gen.ActivityDay {
			return gen.ActivityDay{Day: openapi.Date{Time: d.Day}, Agent: d.Agent, Calls: d.Calls, Sessions: d.Sessions}
		}),
		Tools: list(active.Tools, func(d observer.ActivityTools) gen.ActivityTools {
			return gen.ActivityTools{Day: openapi.Date{Time: d.Day}, Tools: d.Tools}
		})}, nil
}
