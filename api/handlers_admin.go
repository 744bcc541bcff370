package api

import (
	"context"
	"encoding/base64"
	"strconv"
	"time"

	"pave/api/gen"
	"pave/flows"
	"pave/governance"
)

// ListAPIKeys lists keys without secrets.
func (h *handlers) ListAPIKeys(ctx context.Context, _ gen.ListAPIKeysRequestObject) (gen.ListAPIKeysResponseObject, error) {
	keys, err := h.s.deps.Keys.Keys(ctx, actorFrom(ctx))
	if err != nil {
		return nil, err
	}
	return gen.ListAPIKeys200JSONResponse{Items: list(keys, apiKey)}, nil
}

// CreateAPIKey makes a key.
func (h *handlers) CreateAPIKey(ctx context.Context, r gen.CreateAPIKeyRequestObject) (gen.CreateAPIKeyResponseObject, error) {
	req := governance.KeyRequest{Principal: r.Body.Principal,
		Scopes: list(r.Body.Scopes, func(s gen.Scope) governance.Scope { return governance.Scope(s) })}
	if at := r.Body.ExpiresAt; !at.IsZero() {
		req.ExpiresAt = &at
	}
	key, secret, err := h.s.deps.Keys.CreateKey(ctx, actorFrom(ctx), req)
	if err != nil {
		return nil, err
	}
	return gen.CreateAPIKey201JSONResponse{Key: apiKey(key), Secret: secret}, nil
}

// RevokeAPIKey ends a key.
func (h *handlers) RevokeAPIKey(ctx context.Context, r gen.RevokeAPIKeyRequestObject) (gen.RevokeAPIKeyResponseObject, error) {
	if err := h.s.deps.Keys.RevokeKey(ctx, actorFrom(ctx), r.ID); err != nil {
		return nil, err
	}
	return gen.RevokeAPIKey204Response{}, nil
}

// RotateAPIKey makes the successor of a key.
func (h *handlers) RotateAPIKey(ctx context.Context, r gen.RotateAPIKeyRequestObject) (gen.RotateAPIKeyResponseObject, error) {
	grace := time.Duration(0)
	if r.Body != nil {
		grace = time.Duration(r.Body.GraceSeconds) * time.Second
	}
	key, secret, err := h.s.deps.Keys.RotateKey(ctx, actorFrom(ctx), r.ID, grace)
	if err != nil {
		return nil, err
	}
	return gen.RotateAPIKey201JSONResponse{Key: apiKey(key), Secret: secret}, nil
}

// VerifyAuditLog checks the chain. A broken one is an answer, not an error.
func (h *handlers) VerifyAuditLog(ctx context.Context, _ gen.VerifyAuditLogRequestObject) (gen.VerifyAuditLogResponseObject, error) {
	n, err := h.s.deps.Admin.VerifyAudit(ctx, actorFrom(ctx))
	if flows.CodeOf(err) == flows.CodeConflict {
		return gen.VerifyAuditLog200JSONResponse{Detail: err.Error()}, nil
	}
	if err != nil {
		return nil, err
	}
	return gen.VerifyAuditLog200JSONResponse{Intact: true, Events: n}, nil
}

func apiKey(k governance.APIKey) gen.APIKey {
	out := gen.APIKey{ID: k.ID, Prefix: k.Prefix, Principal: k.Principal, CreatedAt: utc(k.CreatedAt), Revoked: k.Revoked,
		Scopes: list(k.Scopes, func(s governance.Scope) gen.Scope { return gen.Scope(s) })}
	if k.ExpiresAt != nil {
		out.ExpiresAt = utc(*k.ExpiresAt)
	}
	if k.LastUsed != nil {
		out.LastUsed = utc(*k.LastUsed)
	}
	return out
}

// ListAuditEvents pages the audit log.
func (h *handlers) ListAuditEvents(ctx context.Context, r gen.ListAuditEventsRequestObject) (gen.ListAuditEventsResponseObject, error) {
	last, err := parseAuditCursor(r.Params.Cursor)
	if err != nil {
		return nil, err
	}
	read := h.s.deps.Admin.Audit
	if r.Params.Order == gen.ListAuditEventsParamsOrderDesc {
		read = h.s.deps.Admin.AuditBefore
	}
	limit := pageSize(r.Params.Limit)
	events, err := read(ctx, actorFrom(ctx), last, limit)
	if err != nil {
		return nil, err
	}
	out := gen.ListAuditEvents200JSONResponse{Items: list(events, func(e governance.AuditEvent) gen.AuditEvent {
		return gen.AuditEvent{Seq: e.Seq, At: utc(e.At), Actor: e.Actor, Action: e.Action, Object: e.Object, Detail: e.Detail,
			PrevSum: e.PrevSum, Sum: e.Sum}
	})}
	if len(events) == limit {
		out.NextCursor = base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(events[limit-1].Seq, 10)))
	}
	return out, nil
}

func parseAuditCursor(cursor string) (int64, error) {
	if cursor == "" {
		return 0, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return 0, errCursor
	}
	after, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || after < 0 {
		return 0, errCursor
	}
	return after, nil
}

// GetPolicy reads the policy.
func (h *handlers) GetPolicy(ctx context.Context, _ gen.GetPolicyRequestObject) (gen.GetPolicyResponseObject, error) {
	out, err := h.policy(ctx)
	return gen.GetPolicy200JSONResponse{PolicyAnswerJSONResponse: out}, err
}

// PutPolicy replaces the policy.
func (h *handlers) PutPolicy(ctx context.Context, r gen.PutPolicyRequestObject) (gen.PutPolicyResponseObject, error) {
	revision, err := ifMatch(r.Params.IfMatch, 0)
	if err != nil {
		return nil, err
	}
	policy := governance.Policy{Solo: r.Body.Solo, MaxPending: r.Body.MaxPending, MaxPendingAnalyzer: r.Body.MaxPendingAnalyzer,
		RequiredReviewers: r.Body.RequiredReviewers, Promoters: r.Body.Promoters, MinReplayExact: r.Body.MinReplayExact,
		RequireShadow: r.Body.RequireShadow, MaxFailureRate: r.Body.MaxFailureRate, MinRuns: r.Body.MinRuns,
		MinConformance: r.Body.MinConformance, UnusedDays: r.Body.UnusedDays,
		Approvals: make(map[flows.SideEffects]int, len(r.Body.Approvals))}
	for level, n := range r.Body.Approvals {
		policy.Approvals[flows.SideEffects(level)] = n
	}
	if err := h.s.deps.Admin.SetPolicy(ctx, actorFrom(ctx), policy, revision); err != nil {
		return nil, err
	}
	out, err := h.policy(ctx)
	return gen.PutPolicy200JSONResponse{PolicyAnswerJSONResponse: out}, err
}

func (h *handlers) policy(ctx context.Context) (gen.PolicyAnswerJSONResponse, error) {
	policy, revision, err := h.s.deps.Admin.Policy(ctx, actorFrom(ctx))
	if err != nil {
		return gen.PolicyAnswerJSONResponse{}, err
	}
	out := gen.Policy{Solo: policy.Solo, MaxPending: policy.MaxPending, MaxPendingAnalyzer: policy.MaxPendingAnalyzer,
		RequiredReviewers: present(policy.RequiredReviewers), Promoters: present(policy.Promoters), MinReplayExact: policy.MinReplayExact,
		RequireShadow: policy.RequireShadow, MaxFailureRate: policy.MaxFailureRate, MinRuns: policy.MinRuns,
		MinConformance: policy.MinConformance, UnusedDays: policy.UnusedDays,
		Approvals: make(map[string]int, len(policy.Approvals))}
	for level, n := range policy.Approvals {
		out.Approvals[string(level)] = n
	}
	return gen.PolicyAnswerJSONResponse{Body: out, Headers: gen.PolicyAnswerResponseHeaders{ETag: etag(revision)}}, nil
}

// GetSavingsReport reports what the runs avoided.
func (h *handlers) GetSavingsReport(ctx context.Context, r gen.GetSavingsReportRequestObject) (gen.GetSavingsReportResponseObject, error) {
	report, err := h.s.deps.Reports.Savings(ctx, actorFrom(ctx), r.Params.From, r.Params.To)
	if err != nil {
		return nil, storeError(err)
	}
	out := gen.GetSavingsReport200JSONResponse{From: utc(report.From), To: utc(report.To),
		Flows: list(report.Flows, flowSavings), Total: flowSavings(report.Total)}
	if r := report.Repeats; r != nil {
		out.Repeats = &gen.RepeatSavings{Calls: r.Calls, Sessions: r.Sessions, At: utc(r.At)}
	}
	return out, nil
}

func flowSavings(f governance.FlowSavings) gen.FlowSavings {
	return gen.FlowSavings{
		Flow: f.Flow, Version: f.Version, Runs: f.Runs, Succeeded: f.Succeeded, Failed: f.Failed, HandedBack: f.HandedBack, Denied: f.Denied,
		RunTimeMs: f.RunTime.Milliseconds(),
		Measured: gen.MeasuredSavings{LlmCalls: figure(f.LLMCalls), Tokens: figure(f.Tokens), CostUsd: figure(f.CostUSD),
			LatencyMs: figure(f.LatencyMS), Basis: f.Basis},
		Estimate: gen.EstimatedSavings{Label: gen.EstimatedSavingsLabel(f.Estimate.Label), LlmCalls: f.Estimate.LLMCalls,
			Tokens: f.Estimate.Tokens, CostUsd: f.Estimate.CostUSD, LatencyMs: f.Estimate.LatencyMS},
	}
}

func figure(f governance.Figure) gen.Figure {
	return gen.Figure{Mean: f.Mean, Low: f.Low, High: f.High, Known: f.Known}
}
