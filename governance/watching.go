package governance

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"pave/flows"
	"pave/governance/store"
)

// ShadowTarget is content that predicts what agents do: an approved draft, or an active flow version.
type ShadowTarget struct {
	Object  string // "proposal/<id>" or "flow/<name>@<version>"
	Active  bool   // a flow version in service
	Current bool   // the one that is offered to agents, see Offered
	Digest  string
	Flow    *flows.Flow
	// Given: it predicts no call, its callers give all.
	Given bool
	// Harmless says of each declared tool that the flow reaches whether it changes nothing.
	Harmless map[string]bool
	// Since is when the content got the state that it is watched in.
	Since time.Time
}

// Walks is what a batch of live sessions says of one target.
type Walks struct {
	Target                ShadowTarget
	Sessions              int
	Exact                 []bool // of each walk of its path, in their order
	DestructiveMismatches int
	Days                  map[int64]DayWalks      // by UTC day since 1970
	Agents                map[AgentDay]AgentWalks // of flow versions
}

// DayWalks counts walks of one day. Missed are those that a version could have replaced, because it was the one offered to
// agents: of several versions in service only one misses a walk. Calls are the tool calls in these.
type DayWalks struct{ Walks, Exact, Missed, Calls int64 }

// AgentDay is one agent, as its telemetry names it, on one UTC day since 1970.
type AgentDay struct {
	Agent string
	Day   int64
}

// AgentWalks counts what an agent did on the path of a flow: walks by hand that the version missed, and calls of the flow as
// its own telemetry has them.
type AgentWalks struct{ Walks, FlowCalls int64 }

// ShadowTargets lists what is watched: approved drafts and active flow versions of a tenant.
func (s *Service) ShadowTargets(ctx context.Context, tenant string) (out []ShadowTarget, err error) {
	err = s.db.View(ctx, func(r *store.Reader) error {
		tools, err := toolsIn(r, tenant)
		if err != nil {
			return err
		}
		rows, err := r.ProposalsInStates(tenant, string(StateApproved))
		if err != nil {
			return err
		}
		for _, row := range rows {
			e, err := load(r, tenant, row)
			if err != nil {
				return err
			}
			out = append(out, ShadowTarget{Object: "proposal/" + e.ID, Digest: e.Digest, Flow: e.Flow, Given: e.Savings.PerCall, Harmless: tools.harmless(e.Flow), Since: approvedAt(&e.Proposal)})
		}
		versions, err := versionsIn(r, tenant, "")
		if err != nil {
			return err
		}
		offered := map[string]bool{}
		for _, v := range Offered(versions) {
			offered[shadowOfVersion(v.Flow.Name, v.Flow.Version)] = true
		}
		for i := range versions {
			v := &versions[i]
			if v.Status != flows.StatusActive {
				continue
			}
			object := shadowOfVersion(v.Flow.Name, v.Flow.Version)
			out = append(out, ShadowTarget{Object: object, Active: true, Current: offered[object], Digest: v.Digest, Flow: v.Flow, Given: v.Savings.PerCall,
				Harmless: tools.harmless(v.Flow), Since: statusSince(v)})
		}
		return nil
	})
	return out, visible(err)
}

// approvedAt is when the last approval of a draft was given. What was found out about it since changes nothing.
func approvedAt(p *Proposal) (at time.Time) {
	for _, r := range p.Reviews {
		if r.Verdict == VerdictApprove && !r.Dismissed && r.At.After(at) {
			at = r.At
		}
	}
	return at
}

// harmless says which of the declared tools of a flow change nothing.
func (l *library) harmless(f *flows.Flow) map[string]bool {
	out := map[string]bool{}
	for name, tool := range l.contentOf(f).tools {
		out[name] = !flows.Exceeds(flows.Effects(tool.Safety), flows.EffectRead)
	}
	return out
}

func statusSince(v *FlowVersion) time.Time {
	if v.StatusAt.IsZero() {
		return v.CreatedAt
	}
	return v.StatusAt
}

// RecordWalks adds what live sessions showed. What it finds is no decision: Watch decides.
func (s *Service) RecordWalks(ctx context.Context, tenant string, all []Walks) error {
	return s.transact(ctx, systemActor(tenant), func(c *change) error {
		for i := range all {
			if err := c.addWalks(&all[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

func systemActor(tenant string) Actor {
	return Actor{Tenant: tenant, Principal: SystemPrincipal, Scopes: []Scope{ScopeAdmin}}
}

func (c *change) addWalks(w *Walks) error {
	result, err := shadowIn(&c.Reader, c.tenant, w.Target.Object, w.Target.Digest)
	if err != nil {
		return err
	}
	if result == nil {
		result = &ShadowResult{Digest: w.Target.Digest, Since: w.Target.Since}
	}
	result.Updated, result.Given = c.at, w.Target.Given
	result.Sessions += w.Sessions
	result.Windows += len(w.Exact)
	result.DestructiveMismatches += w.DestructiveMismatches
	for _, exact := range w.Exact {
		mark := "."
		if exact {
			result.Exact++
			mark = "x"
		}
		result.Recent += mark
	}
	result.Recent = result.Recent[max(0, len(result.Recent)-RecentWalks):]
	body, err := json.Marshal(result)
	if err != nil {
		return fmt.Errorf("encode shadow: %w", err)
	}
	if err := c.PutShadow(c.tenant, w.Target.Object, body); err != nil {
		return err
	}
	if !w.Target.Active {
		return nil
	}
	for key, n := range w.Agents {
		if err := c.AddAgentDay(c.tenant, store.AgentDayRow{Flow: w.Target.Flow.Name, Version: w.Target.Flow.Version, Day: key.Day, Agent: key.Agent,
			Walks: n.Walks, FlowCalls: n.FlowCalls}); err != nil {
			return err
		}
	}
	for day, n := range w.Days {
		if err := c.AddFlowDay(c.tenant, store.FlowDayRow{Flow: w.Target.Flow.Name, Version: w.Target.Flow.Version, Day: day,
			Walks: n.Walks, Exact: n.Exact, Missed: n.Missed, Calls: n.Calls}); err != nil {
			return err
		}
	}
	return nil
}

// States of runs, as package runs writes them.
const (
	runFailed = "failed"
	runDenied = "denied" // by a person, which says nothing about the flow
)

// Watch holds every active flow version of a tenant against the policy: too many failures among its last runs, agents
// who walk its path otherwise, nobody who runs it. Such a version goes to needs_review, with the reason, an audit event
// and a webhook event; runs in flight finish on their plan. It returns the versions ("name@version").
func (s *Service) Watch(ctx context.Context, tenant string) (taken []string, err error) {
	err = s.transact(ctx, systemActor(tenant), func(c *change) error {
		taken = nil
		rows, err := c.FlowVersions(c.tenant, "")
		if err != nil {
			return err
		}
		for _, row := range rows {
			if row.Status != string(flows.StatusActive) {
				continue
			}
			v, err := flowVersion(row)
			if err != nil {
				return err
			}
			reason, err := c.complaint(v)
			if err != nil {
				return err
			}
			if reason == "" {
				continue
			}
			if err := c.setStatus(v, flows.StatusNeedsReview, nil, "flow.watch", reason, map[string]any{}); err != nil {
				return err
			}
			taken = append(taken, row.Name+"@"+row.Version)
		}
		return nil
	})
	return taken, err
}

// complaint says what speaks against a version, "" when nothing does.
func (c *change) complaint(v *FlowVersion) (string, error) {
	name, version, since := v.Flow.Name, v.Flow.Version, statusSince(v)
	p := c.policy
	runs, failures, last, err := c.RunTail(c.tenant, name, version, runFailed, runDenied, since, max(1, p.MinRuns))
	if err != nil {
		return "", err
	}
	if p.MaxFailureRate > 0 && p.MinRuns > 0 && runs >= p.MinRuns && float64(failures) > p.MaxFailureRate*float64(runs) {
		return fmt.Sprintf("%d of its last %d runs failed, more than %.0f %%", failures, runs, 100*p.MaxFailureRate), nil
	}
	result, err := shadowIn(&c.Reader, c.tenant, shadowOfVersion(name, version), v.Digest)
	if err != nil {
		return "", err
	}
	if result != nil && p.MinConformance > 0 {
		if share, known := result.Conformance(); known && share < p.MinConformance {
			return fmt.Sprintf("agents' last %d walks of its path fit it in %.0f %%, less than %.0f %%", RecentWalks, 100*share, 100*p.MinConformance), nil
		}
	}
	if last.IsZero() {
		last = since
	}
	if idle := c.at.Sub(last); p.UnusedDays > 0 && idle > time.Duration(p.UnusedDays)*24*time.Hour {
		return fmt.Sprintf("nobody ran it for %d days", int(idle.Hours()/24)), nil
	}
	return "", nil
}
