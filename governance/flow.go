package governance

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"

	"pave/flows"
	"pave/governance/store"
)

func flowVersion(row store.FlowVersionRow) (*FlowVersion, error) {
	flow := new(flows.Flow)
	if err := decode(row.Flow, flow); err != nil {
		return nil, err
	}
	return versionOf(row, flow)
}

func versionOf(row store.FlowVersionRow, flow *flows.Flow) (*FlowVersion, error) {
	v := &FlowVersion{Digest: row.Digest, Status: flows.Status(row.Status), Active: row.Active, Rollout: Rollout(row.Pointer), Revision: row.Revision,
		ProposalID: row.ProposalID, PromotedBy: row.PromotedBy, CreatedAt: row.CreatedAt, Reason: row.Reason, StatusAt: row.StatusAt, Flow: flow}
	return v, decode(row.Savings, &v.Savings)
}

// decodedFlows keeps flows as they were decoded, for admissions, of which there are many between two changes of a flow.
// What it gives is shared, so nobody may change it. It is safe for concurrent use.
type decodedFlows struct {
	mu   sync.RWMutex
	kept map[string]*flows.Flow // by their JSON
}

// maxDecoded bounds the flows kept; past it all are forgotten.
const maxDecoded = 500

func (d *decodedFlows) of(raw []byte) (*flows.Flow, error) {
	d.mu.RLock()
	flow := d.kept[string(raw)]
	d.mu.RUnlock()
	if flow != nil {
		return flow, nil
	}
	flow = new(flows.Flow)
	if err := decode(raw, flow); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.kept == nil || len(d.kept) >= maxDecoded {
		d.kept = map[string]*flows.Flow{}
	}
	d.kept[string(raw)] = flow
	return flow, nil
}

// Flows lists every version of every flow, by name, oldest version first.
func (s *Service) Flows(ctx context.Context, actor Actor) ([]FlowVersion, error) {
	return s.FlowVersions(ctx, actor, "")
}

// FlowVersions lists the versions of one flow, oldest first; name "" lists those of all.
func (s *Service) FlowVersions(ctx context.Context, actor Actor, name string) (out []FlowVersion, err error) {
	err = s.view(ctx, actor, ActionRead, func(r *store.Reader, tenant string, _ Policy) error {
		if out, err = versionsIn(r, tenant, name); err == nil && name != "" && len(out) == 0 {
			return notFound(store.ErrNotFound, "there is no flow %q", name)
		}
		return err
	})
	return out, err
}

// versionsIn reads the versions of a flow, of all with name "", by name, oldest first.
func versionsIn(r *store.Reader, tenant, name string) ([]FlowVersion, error) {
	rows, err := r.FlowVersions(tenant, name)
	if err != nil {
		return nil, err
	}
	out := make([]FlowVersion, 0, len(rows))
	for _, row := range rows {
		v, err := flowVersion(row)
		if err != nil {
			return nil, err
		}
		out = append(out, *v)
	}
	return out, nil
}

// Flow reads one version; "" is the one that the active pointer names.
func (s *Service) Flow(ctx context.Context, actor Actor, name, version string) (v *FlowVersion, err error) {
	err = s.view(ctx, actor, ActionRead, func(r *store.Reader, tenant string, _ Policy) error {
		row, err := flowRowIn(r, tenant, name, version)
		if err != nil {
			return err
		}
		if v, err = flowVersion(row); err != nil {
			return err
		}
		v.Shadow, err = shadowIn(r, tenant, shadowOfVersion(row.Name, row.Version), row.Digest)
		return err
	})
	return v, err
}

func flowRowIn(r *store.Reader, tenant, name, version string) (store.FlowVersionRow, error) {
	row, err := r.FlowVersion(tenant, name, version)
	if version != "" {
		return row, notFound(err, "there is no version %s of a flow %q", version, name)
	}
	return row, notFound(err, "there is no flow %q", name)
}

// StatusRequest changes the execution gate of a version. Activating a version whose tools changed since its
// promotion needs AcceptDrift, which pins the tools as they are now. IfRevision 0 means that none was given.
type StatusRequest struct {
	Status      flows.Status
	Reason      string
	AcceptDrift bool
	IfRevision  int64
}

// SetFlowStatus opens or closes the execution gate of one flow version. Only what would run can become active.
func (s *Service) SetFlowStatus(ctx context.Context, actor Actor, name, version string, req StatusRequest) (*FlowVersion, error) {
	switch req.Status {
	case flows.StatusActive, flows.StatusNeedsReview, flows.StatusDisabled:
	default:
		return nil, flows.NewError(flows.CodeInvalid, fmt.Sprintf("status %q: use active, needs_review or disabled", req.Status),
			flows.ErrorDetail{Pointer: "/status", Code: "invalid", Detail: "active, needs_review or disabled"})
	}
	var v *FlowVersion
	err := s.update(ctx, actor, ActionSetStatus, func(c *change) error {
		row, err := flowRowIn(&c.Reader, c.tenant, name, version)
		if err != nil {
			return err
		}
		if err := checkRevision("flow "+name+"@"+row.Version, req.IfRevision, row.Revision); err != nil {
			return err
		}
		if v, err = flowVersion(row); err != nil {
			return err
		}
		var pins map[string]string
		if req.Status == flows.StatusActive {
			if pins, err = c.activate(v, req.AcceptDrift); err != nil {
				return err
			}
		}
		return c.setStatus(v, req.Status, pins, "flow.status", req.Reason, map[string]any{"accept_drift": req.AcceptDrift})
	})
	if err != nil {
		return nil, err
	}
	return v, nil
}

// activate checks that a version may run again and returns new pins when drift is accepted, else nil.
func (c *change) activate(v *FlowVersion, acceptDrift bool) (map[string]string, error) {
	flow := v.Flow
	tools, err := toolsIn(&c.Reader, c.tenant)
	if err != nil {
		return nil, err
	}
	now := tools.contentOf(flow)
	if err := c.checkRunnable(flow, now); err != nil {
		return nil, err
	}
	row, err := c.Proposal(c.tenant, v.ProposalID)
	if err != nil {
		return nil, notFound(err, "the proposal %q that flow %s@%s was approved as is gone; propose it again", v.ProposalID, flow.Name, flow.Version)
	}
	approved, err := load(&c.Reader, c.tenant, row)
	if err != nil {
		return nil, err
	}
	if err := c.policy.DecideAgain(&approved.Proposal, now.safety).Err(); err != nil {
		return nil, err
	}
	if drift := drifted(flow.ToolSchemaHashes, now.hashes); len(drift) > 0 && !acceptDrift {
		return nil, driftError("tools changed since the promotion: accept the drift to pin them as they are now", drift)
	}
	if acceptDrift {
		return now.hashes, nil
	}
	return nil, nil
}

// drifted lists pinned tools that are gone or have another schema, in the order of their names.
func drifted(pins, now map[string]string) []string {
	gone := make(map[string]string, len(pins))
	for name := range pins {
		gone[name] = now[name] // "" when it is gone, which differs from every hash
	}
	return changedTools(pins, gone)
}

// setStatus stores a status (and pins, unless nil) with its reason and its audit event.
func (c *change) setStatus(v *FlowVersion, status flows.Status, pins map[string]string, action, reason string, detail map[string]any) error {
	flow := *v.Flow
	flow.Status = status
	if pins != nil {
		flow.ToolSchemaHashes = pins
	}
	detail["from"], detail["to"], detail["reason"] = v.Status, status, reason
	was := v.Revision
	v.Flow, v.Status, v.Reason, v.StatusAt = &flow, status, reason, c.at
	if status == flows.StatusActive { // what was observed before is not held against it again
		if err := c.DropShadow(c.tenant, shadowOfVersion(flow.Name, flow.Version)); err != nil {
			return err
		}
	}
	var err error
	if v.Revision, err = c.NextFlowRevision(c.tenant, flow.Name); err != nil {
		return err
	}
	row, err := flowRow(v)
	if err != nil {
		return err
	}
	if err := c.UpdateFlowVersion(c.tenant, row, pins, was); err != nil {
		return err
	}
	return c.audit(action, "flow/"+flow.Name+"@"+flow.Version, detail)
}

// Admission is a flow version that may run now, with the tools and flows it reaches.
type Admission struct {
	Version FlowVersion
	Tools   map[string]*flows.Tool
	Flows   map[string]*flows.Flow // that steps call, by the reference that they write
	// Key names exactly this content: flow, version, digest, called flows and tool definitions. Equal keys compile to
	// equal plans.
	Key string
}

// Admit says whether the actor may run a flow now: a version whose status is active, whose tools are as they
// were pinned, and bound, and so for the flows that it calls. version "" takes the one that flows get that call it: the
// active one, or while that is rolled out to some callers the one that serves the others.
func (s *Service) Admit(ctx context.Context, actor Actor, name, version string) (a *Admission, err error) {
	return s.Readmit(ctx, actor, name, version, nil, false)
}

// AdmitForced is Admit of a version that need not be in service, which must be named, for those who could open its gate:
// they run what they look into without opening it for all. What it calls must be in service.
func (s *Service) AdmitForced(ctx context.Context, actor Actor, name, version string) (a *Admission, err error) {
	if version == "" {
		return nil, flows.NewError(flows.CodeInvalid, "name the version of "+name+" that is to run although it may not be active",
			flows.ErrorDetail{Pointer: "/version", Code: "missing", Detail: "the version to force"})
	}
	err = s.view(ctx, actor, ActionSetStatus, func(*store.Reader, string, Policy) error { return nil })
	if err != nil {
		return nil, err
	}
	return s.Readmit(ctx, actor, name, version, nil, true)
}

// AdmitCaller is Admit of a caller who names no version and gets the one that the flow's rollout gives them. Equal callers
// get the same version while nobody changes the rollout; see Rollout. Errors: CodeOutsideRollout when none serves them.
func (s *Service) AdmitCaller(ctx context.Context, actor Actor, name, caller string) (a *Admission, err error) {
	// A few rows are read by their keys: watching for a caller who goes meanwhile would cost more.
	err = s.view(context.WithoutCancel(ctx), actor, ActionRun, func(r *store.Reader, tenant string, _ Policy) error {
		row, err := servingIn(r, tenant, name, caller)
		if err != nil {
			return err
		}
		a, err = s.admit(r, tenant, row, nil)
		return err
	})
	return a, err
}

// Readmit is Admit for a run that goes on: flows that steps call without a version have the versions that they had, by
// name, in place of those that they would get now. A run that was forced goes on whatever the status of its version.
func (s *Service) Readmit(ctx context.Context, actor Actor, name, version string, called map[string]string, forced bool) (a *Admission, err error) {
	err = s.view(ctx, actor, ActionRun, func(r *store.Reader, tenant string, _ Policy) error {
		row, err := calledIn(r, tenant, name, version)
		if err != nil {
			return err
		}
		if forced {
			row.Status = string(flows.StatusActive)
		}
		a, err = s.admit(r, tenant, row, called)
		return err
	})
	return a, err
}

func (s *Service) admit(r *store.Reader, tenant string, row store.FlowVersionRow, called map[string]string) (*Admission, error) {
	if row.Status != string(flows.StatusActive) {
		return nil, flows.NewError(flows.CodeFlowStatus, fmt.Sprintf("flow %s@%s is %s; only active versions run", row.Name, row.Version, row.Status))
	}
	decoded, err := s.decoded.of(row.Flow)
	if err != nil {
		return nil, err
	}
	flow := *decoded
	flow.Status = flows.Status(row.Status) // the engine asks the flow, too
	v, err := versionOf(row, &flow)
	if err != nil {
		return nil, err
	}
	lib, err := declaredIn(r, tenant, v.Flow, called)
	if err != nil {
		return nil, err
	}
	now := lib.contentOf(v.Flow)
	if err := lib.checkCallable(v, now.called); err != nil {
		return nil, err
	}
	if len(now.unbound) > 0 {
		return nil, unboundError(now)
	}
	key, err := admissionKey(v, now.called, lib.toolset)
	if err != nil {
		return nil, err
	}
	return &Admission{Version: *v, Tools: now.tools, Flows: now.callable(), Key: key}, nil
}

// checkCallable holds a flow and those that it calls against the tools that each was approved with, and the gates of
// the called ones.
func (l *library) checkCallable(v *FlowVersion, called map[string]*FlowVersion) error {
	for _, ref := range slices.Sorted(maps.Keys(called)) {
		if sub := called[ref]; sub.Status != flows.StatusActive {
			return flows.NewError(flows.CodeFlowStatus, fmt.Sprintf("flow %s@%s calls %s@%s, which is %s; only active versions run",
				v.Flow.Name, v.Flow.Version, sub.Flow.Name, sub.Flow.Version, sub.Status))
		}
	}
	for _, v := range append([]*FlowVersion{v}, slices.Collect(maps.Values(called))...) {
		now := make(map[string]string, len(v.Flow.ToolSchemaHashes))
		for name := range v.Flow.ToolSchemaHashes {
			if t := l.declared(name); t != nil {
				now[name] = t.SchemaHash
			}
		}
		if drift := drifted(v.Flow.ToolSchemaHashes, now); len(drift) > 0 {
			return driftError(fmt.Sprintf("flow %s@%s was approved with other tools", v.Flow.Name, v.Flow.Version), drift)
		}
	}
	return nil
}

// admissionKey lists what a plan is made of. Tools enter by revision, which changes with anything in them.
func admissionKey(v *FlowVersion, called map[string]*FlowVersion, tools toolset) (string, error) {
	parts := []string{v.Flow.Name, v.Flow.Version, v.Digest}
	for _, ref := range slices.Sorted(maps.Keys(called)) {
		parts = append(parts, ref, called[ref].Flow.Version, called[ref].Digest)
	}
	for _, name := range slices.Sorted(maps.Keys(tools)) {
		parts = append(parts, fmt.Sprintf("%s#%d", name, tools[name].Revision))
	}
	raw, err := json.Marshal(parts)
	if err != nil {
		return "", fmt.Errorf("plan key: %w", err)
	}
	return string(raw), nil
}
