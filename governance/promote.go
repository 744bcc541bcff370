package governance

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"pave/flows"
	"pave/flows/value"
	"pave/governance/store"
)

// PromoteRequest asks for a proposal to become a flow version. Version "" takes the one that the change calls for (see
// VersionBump). Rollout is the share of the callers who name no version that it is to serve, see Rollout; 0 means all.
// IfRevision 0 means that none was given.
type PromoteRequest struct {
	Version    string
	Rollout    float64
	IfRevision int64
}

// Promote makes an approved proposal the active version of its flow, in one transaction that checks everything
// again: the digest, the approvals by the policy and the safety of today, the replay check, the tools' bindings and
// schemas, and that the flow compiles. The version pins the schema hashes of its tools, and the recorded sessions that
// it reproduces become its golden tests.
func (s *Service) Promote(ctx context.Context, actor Actor, ref string, req PromoteRequest) (*FlowVersion, error) {
	share := cmp.Or(req.Rollout, 1)
	if err := checkShare(share); err != nil {
		return nil, err
	}
	if err := s.checkBefore(ctx, actor, ref); err != nil {
		return nil, err
	}
	var made *FlowVersion
	_, err := s.changeProposal(ctx, actor, ref, ActionPromote, req.IfRevision, func(c *change, e *entry, now content, _ Decision) error {
		if err := c.checkPromotable(e, now); err != nil {
			return err
		}
		bump, err := c.nextVersion(e, now, req.Version)
		if err != nil {
			return err
		}
		flow := promoted(e, c.policy.tally(&e.Proposal).Approvers, bump.To, now.hashes)
		if digest := flows.Digest(flow); digest != e.Digest {
			return fmt.Errorf("promoted flow %s has digest %s, approved was %s", flow.Name, digest, e.Digest)
		}
		rollout, err := c.rollOut(flow, now, share)
		if err != nil {
			return err
		}
		revision, err := c.NextFlowRevision(c.tenant, flow.Name)
		if err != nil {
			return err
		}
		made = &FlowVersion{Flow: flow, Digest: e.Digest, Status: flows.StatusActive, Active: true, Rollout: rollout, Revision: revision,
			ProposalID: e.ID, PromotedBy: actor.Principal, CreatedAt: c.at, Savings: e.Savings, Bump: bump}
		if err := c.insertVersion(made, now.hashes, e.Check); err != nil {
			return err
		}
		e.State, e.PromotedAs = StatePromoted, flow.Name+"@"+bump.To
		if err := c.audit("flow.promote", "flow/"+e.PromotedAs, map[string]any{"proposal": e.ID, "digest": e.Digest, "pins": now.hashes,
			"bump": bump.Level, "reasons": bump.Reasons, "rollout": rollout.Share, "rest": rollout.Rest}); err != nil {
			return err
		}
		return c.audit("proposal.promote", "proposal/"+e.ID, map[string]any{"as": e.PromotedAs, "digest": e.Digest})
	})
	if err != nil {
		return nil, err
	}
	return made, nil
}

// checkBefore makes the replay check of a draft that has none and that may be promoted otherwise, so that the
// transaction need not wait for the event store.
func (s *Service) checkBefore(ctx context.Context, actor Actor, ref string) error {
	if s.replayer == nil {
		return nil
	}
	due := false
	err := s.db.View(ctx, func(r *store.Reader) error {
		policy, _, err := s.policyIn(r, tenantOf(actor))
		if err != nil {
			return err
		}
		e, err := find(r, tenantOf(actor), ref)
		if err != nil {
			return err
		}
		tools, err := toolsIn(r, tenantOf(actor))
		if err != nil {
			return err
		}
		policy.judge(&e.Proposal, tools.contentOf(e.Flow))
		check, err := checkIn(r, tenantOf(actor), e.ID, e.Digest)
		policy.RequireShadow = false // what follows decides about it
		due = check == nil && policy.Decide(actor, ActionPromote, &e.Proposal).Err() == nil
		return err
	})
	if err != nil || !due {
		return visible(err)
	}
	_, err = s.checkReplay(ctx, actor, ref, 0)
	return err
}

// checkPromotable holds what was approved against the tools as they are now.
func (c *change) checkPromotable(e *entry, now content) error {
	if digest := flows.Digest(e.Flow); digest != e.Digest {
		return flows.NewError(flows.CodeStale, fmt.Sprintf("the stored draft has digest %s, approved was %s; edit and review it again", digest, e.Digest))
	}
	if changed := changedTools(e.ToolHashes, now.hashes); len(changed) > 0 {
		return driftError("tools changed since the approvals: approve again", changed)
	}
	return c.checkRunnable(e.Flow, now)
}

// checkRunnable says whether a flow could run with these tools: all bound, compiled clean.
func (c *change) checkRunnable(flow *flows.Flow, now content) error {
	if len(now.unbound) > 0 {
		return unboundError(now)
	}
	if problems := c.problems(flow, now); len(problems) > 0 {
		return flows.NewError(flows.CodeCompile, fmt.Sprintf("the flow does not compile: %s", problems[0].Detail), problems...)
	}
	return nil
}

// checkApprovable refuses to approve what does not compile, because nobody could promote it as it is. Of a tool that nobody
// declared nothing is known yet, so that it takes and gives anything here: drafts are read before their tools are
// declared, and a promotion wants them all.
func (c *change) checkApprovable(flow *flows.Flow, now content) error {
	known := maps.Clone(now.tools)
	for _, name := range ToolNames(flow) {
		if known[name] == nil {
			known[name] = anyTool(name, flow)
		}
	}
	now.tools = known
	problems := c.problems(flow, now)
	if len(problems) == 0 {
		return nil
	}
	return flows.NewError(flows.CodeCompile, fmt.Sprintf("this draft does not compile and cannot be approved as it is: %s; "+
		"have it edited, or request changes", problems[0].Detail), problems...)
}

// anyTool stands for a tool that is not declared: it has the inputs that the flow gives it, of any type, and any output.
func anyTool(name string, flow *flows.Flow) *flows.Tool {
	inputs := map[string]any{}
	for i := range flow.Steps {
		for _, entry := range flow.Steps[i].InputMapping {
			inputs[entry.Target] = map[string]any{}
		}
	}
	schema := value.Encode(map[string]any{"properties": inputs})
	return &flows.Tool{Name: name, InputSchema: schema, OutputSchema: flows.RawSchema(`{}`)}
}

// problems are what keeps a flow from compiling with these tools.
func (c *change) problems(flow *flows.Flow, now content) []flows.ErrorDetail {
	called := now.callable()
	if _, own := called[flow.Name]; own { // what is checked here is about to be the active version of its name
		called[flow.Name] = flow
	}
	return c.s.check(flow, now.tools, called)
}

func unboundError(now content) error {
	e := flows.NewError(flows.CodeUnbound, fmt.Sprintf(
		"no binding for %s: declare each in a tool file with a binding and apply it (pave tools apply FILE)", strings.Join(now.unbound, ", ")))
	for _, name := range now.unbound {
		e.Details = append(e.Details, flows.ErrorDetail{Code: "unbound", Detail: name + ": " + now.binders[name]})
	}
	return e
}

func driftError(message string, changed []string) error {
	e := flows.NewError(flows.CodeToolDrift, message+" ("+strings.Join(changed, ", ")+")")
	for _, name := range changed {
		e.Details = append(e.Details, flows.ErrorDetail{Code: "tool_changed", Detail: name})
	}
	return e
}

// promoted is the draft as a flow version. Only fields outside the digest change.
func promoted(e *entry, approvers []string, version string, pins map[string]string) *flows.Flow {
	flow := *e.Flow
	var g flows.Governance
	if flow.Governance != nil {
		g = *flow.Governance
	}
	g.Lifecycle, g.ReviewedBy = flows.LifecycleActive, strings.Join(approvers, ", ")
	flow.Governance = &g
	flow.Version, flow.Status, flow.ToolSchemaHashes = version, flows.StatusActive, pins
	flow.Evidence = maps.Clone(flow.Evidence)
	if flow.Evidence == nil {
		flow.Evidence = map[string]any{}
	}
	flow.Evidence["proposal"] = e.ID
	return &flow
}

// asDrafted is a flow without what promoted writes.
func asDrafted(f *flows.Flow) *flows.Flow {
	flow := *f
	flow.Version, flow.Status, flow.ToolSchemaHashes = "", "", nil
	if flow.Governance != nil {
		g := *flow.Governance
		g.Lifecycle, g.ReviewedBy = "", ""
		flow.Governance = &g
	}
	flow.Evidence = maps.Clone(flow.Evidence)
	if delete(flow.Evidence, "proposal"); len(flow.Evidence) == 0 {
		flow.Evidence = nil
	}
	return &flow
}

// nextVersion explains the version that a promotion makes: the one asked for, or the one that the change calls for.
func (c *change) nextVersion(e *entry, now content, asked string) (VersionBump, error) {
	bump, err := bumpIn(&c.Reader, c.tenant, e.Flow, now)
	if err != nil || asked == "" {
		return bump, err
	}
	version, err := flows.ParseVersion(asked)
	if err != nil {
		return bump, &flows.Error{Code: flows.CodeInvalid, Message: fmt.Sprintf("version %q is no semantic version such as 1.2.0", asked), Err: err,
			Details: []flows.ErrorDetail{{Pointer: "/version", Code: "invalid", Detail: "use MAJOR.MINOR.PATCH"}}}
	}
	rows, err := c.FlowVersions(c.tenant, e.Flow.Name)
	if err != nil {
		return bump, err
	}
	if slices.ContainsFunc(rows, func(row store.FlowVersionRow) bool { return row.Version == asked }) {
		return bump, flows.NewError(flows.CodeExists, fmt.Sprintf("flow %s has a version %s already; take a higher one", e.Flow.Name, asked))
	}
	if err := checkHigher(rows, version); err != nil {
		return bump, err
	}
	if asked != bump.To {
		bump.Reasons = append(bump.Reasons, fmt.Sprintf("the version was asked for; the change itself calls for %s", bump.To))
		bump.To = asked
	}
	return bump, nil
}

// checkHigher refuses a version that does not come after the active one: whoever reads the numbers would take it for the older
// of the two. Going back is a rollback, to a version that was reviewed.
func checkHigher(rows []store.FlowVersionRow, asked flows.Version) error {
	at := slices.IndexFunc(rows, func(row store.FlowVersionRow) bool { return row.Active })
	if at < 0 {
		return nil
	}
	name, served := rows[at].Name, rows[at].Version
	active, err := flows.ParseVersion(served)
	if err != nil {
		return fmt.Errorf("stored version of %s: %w", name, err)
	}
	if asked.Compare(active) > 0 {
		return nil
	}
	return flows.NewError(flows.CodeConflict, fmt.Sprintf("version %s does not come after %s, the active version of %s: take a higher one; "+
		"an earlier version comes back by a rollback (pave flows rollback %s)", asked, served, name, name),
		flows.ErrorDetail{Pointer: "/version", Code: "out_of_range", Detail: "higher than " + served})
}

func (c *change) insertVersion(v *FlowVersion, pins map[string]string, check *ReplayCheck) error {
	row, err := flowRow(v)
	if err != nil {
		return err
	}
	if err := c.InsertFlowVersion(c.tenant, row, pins); err != nil {
		if errors.Is(err, store.ErrExists) {
			return &flows.Error{Code: flows.CodeExists, Message: fmt.Sprintf("flow %s has a version %s already", row.Name, row.Version), Err: err}
		}
		return err
	}
	if check != nil {
		tests, err := encodeTests(check.Golden)
		if err != nil {
			return err
		}
		if err := c.InsertFlowTests(c.tenant, row.Name, row.Version, tests); err != nil {
			return err
		}
	}
	return c.SetActive(c.tenant, row.Name, store.Pointer(v.Rollout))
}

func flowRow(v *FlowVersion) (store.FlowVersionRow, error) {
	flow, err := json.Marshal(v.Flow)
	if err != nil {
		return store.FlowVersionRow{}, fmt.Errorf("encode flow: %w", err)
	}
	savings, err := json.Marshal(v.Savings)
	if err != nil {
		return store.FlowVersionRow{}, fmt.Errorf("encode savings: %w", err)
	}
	return store.FlowVersionRow{Name: v.Flow.Name, Version: v.Flow.Version, Digest: v.Digest, Status: string(v.Status),
		Revision: v.Revision, ProposalID: v.ProposalID, PromotedBy: v.PromotedBy, CreatedAt: v.CreatedAt, Reason: v.Reason, StatusAt: v.StatusAt, Flow: flow, Savings: savings}, nil
}
