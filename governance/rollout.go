package governance

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"pave/flows"
	"pave/governance/store"
)

// Rollout says which versions of a flow serve the callers who name none. Version, the active one, serves Share of them,
// 0 < Share <= 1. Rest is the version that serves the others: the one that served all before; with "" there is none, and
// they go on by hand.
//
// A caller is whatever text it is known by, a session as a rule, and stays with a version for as long as the rollout
// does: it belongs to the share when the first 53 bits of SHA-256("NAME@VERSION" + NUL + caller), read as a fraction, are
// below Share. So a higher share keeps those whom a lower one had, every promotion begins with others, and nothing about
// callers is stored. A version that was taken out of service serves nobody: its callers get Rest, while that is in service.
type Rollout struct {
	Version string
	Share   float64
	Rest    string
}

// Partial says that the active version does not serve all.
func (r Rollout) Partial() bool { return r.Share < 1 }

// includes says whether a caller of the flow belongs to the share.
func (r Rollout) includes(name, caller string) bool {
	sum := sha256.Sum256([]byte(name + "@" + r.Version + "\x00" + caller))
	return float64(binary.BigEndian.Uint64(sum[:])>>11)/(1<<53) < r.Share
}

// percent is the share for people.
func (r Rollout) percent() string {
	return strconv.FormatFloat(100*r.Share, 'g', 4, 64) + " %"
}

// Share is the part of the callers who name no version that this version serves, 0..1.
func (v *FlowVersion) Share() float64 {
	switch {
	case v.Active:
		return v.Rollout.Share
	case v.Rollout.Rest == v.Flow.Version:
		return math.Round((1-v.Rollout.Share)*1e9) / 1e9 // 1-0.9 is 0.1
	}
	return 0
}

// Offered selects of all versions, as Service.Flows lists them, the one of each flow that a caller who is not known yet
// may count on: of those in service the one that a rollout moves away from, so that what is offered changes when the
// rollout is complete, else the active one. A rollout lets callers use the new version as they use the one before.
func Offered(versions []FlowVersion) []FlowVersion {
	var out []FlowVersion
	for _, v := range versions {
		rest := v.Rollout.Rest == v.Flow.Version
		if v.Status != flows.StatusActive || !v.Active && !rest {
			continue
		}
		if at := len(out) - 1; at >= 0 && out[at].Flow.Name == v.Flow.Name {
			if rest {
				out[at] = v
			}
			continue
		}
		out = append(out, v)
	}
	return out
}

// servingIn is the version that serves a caller who names none.
func servingIn(r *store.Reader, tenant, name, caller string) (store.FlowVersionRow, error) {
	row, err := flowRowIn(r, tenant, name, "")
	if err != nil {
		return row, err
	}
	rollout := Rollout(row.Pointer)
	if !rollout.Partial() {
		return row, nil
	}
	included := rollout.includes(name, caller)
	if included && row.Status == string(flows.StatusActive) {
		return row, nil
	}
	others := "no other version serves the others"
	if rollout.Rest != "" {
		rest, err := flowRowIn(r, tenant, name, rollout.Rest)
		if err != nil || rest.Status == string(flows.StatusActive) {
			return rest, err
		}
		others = fmt.Sprintf("%s, which serves the others, is %s", rest.Version, rest.Status)
	}
	if included {
		return row, nil // whoever admits it says what is the matter
	}
	v, err := flowVersion(row)
	if err != nil {
		return row, err
	}
	return row, flows.NewError(flows.CodeOutsideRollout, fmt.Sprintf(
		"flow %s@%s is rolled out to %s of its callers and this one is not among them; %s: go on by hand (%s)",
		name, row.Version, rollout.percent(), others, strings.Join(stepNames(v.Flow), ", ")))
}

// stepNames are what the steps call, in order.
func stepNames(f *flows.Flow) []string {
	names := make([]string, len(f.Steps))
	for i := range f.Steps {
		names[i] = f.Steps[i].Name()
	}
	return names
}

// calledIn is the version of a flow that flows get which call it: the one that they name, else the active one, or while
// that is being rolled out the one that serves the others. For a flow there is no going on by hand, so it stays with what
// served all until a rollout is complete.
func calledIn(r *store.Reader, tenant, name, version string) (store.FlowVersionRow, error) {
	row, err := flowRowIn(r, tenant, name, version)
	if version != "" || err != nil || row.Pointer.Rest == "" {
		return row, err
	}
	return flowRowIn(r, tenant, name, row.Pointer.Rest)
}

// checkShare refuses what is no share of callers, NaN too.
func checkShare(share float64) error {
	if share > 0 && share <= 1 {
		return nil
	}
	return flows.NewError(flows.CodeInvalid, fmt.Sprintf("rollout %v: use a share of the callers above 0 and up to 1; to serve nobody set the status to disabled", share),
		flows.ErrorDetail{Pointer: "/rollout", Code: "out_of_range", Detail: "above 0, up to 1"})
}

// rollOut is what serves a flow when a new version is promoted to a share of its callers: the others stay with the version
// that serves all, or did before a rollout that is under way. The tool that agents are offered stays that one's until the
// rollout is complete, so the new version must take the calls that are made for it.
func (c *change) rollOut(flow *flows.Flow, now content, share float64) (Rollout, error) {
	out := Rollout{Version: flow.Version, Share: share}
	if share == 1 {
		return out, nil
	}
	row, err := c.FlowVersion(c.tenant, flow.Name, "")
	if errors.Is(err, store.ErrNotFound) {
		return out, nil
	}
	if err != nil {
		return out, err
	}
	if Rollout(row.Pointer).Partial() {
		if row.Pointer.Rest == "" { // nothing ever served all
			return out, nil
		}
		if row, err = flowRowIn(&c.Reader, c.tenant, flow.Name, row.Pointer.Rest); err != nil {
			return out, err
		}
	}
	rest, err := flowVersion(row)
	if err != nil {
		return out, err
	}
	reasons, err := c.incompatible(rest.Flow, flow, now)
	if err != nil {
		return out, err
	}
	if len(reasons) > 0 {
		e := flows.NewError(flows.CodeConflict, fmt.Sprintf("a part of the callers cannot get this version while the others stay with %s@%s, because %s; "+
			"promote it to all, or under another name", flow.Name, row.Version, strings.Join(reasons, "; ")))
		for _, reason := range reasons {
			e.Details = append(e.Details, flows.ErrorDetail{Pointer: "/rollout", Code: "incompatible", Detail: reason})
		}
		return out, e
	}
	out.Rest = row.Version
	return out, nil
}

// incompatible lists what keeps callers of one version from being served by another without knowing.
func (c *change) incompatible(was, is *flows.Flow, now content) ([]string, error) {
	reasons := breaks(was, is)
	for _, param := range is.DynamicParams {
		if !slices.Contains(was.DynamicParams, param) {
			reasons = append(reasons, fmt.Sprintf("it needs the dynamic param %q", param))
		}
	}
	tools, err := toolsIn(&c.Reader, c.tenant)
	if err != nil {
		return nil, err
	}
	if before := tools.contentOf(was).safety; flows.Exceeds(now.safety, before) {
		reasons = append(reasons, fmt.Sprintf("its side effects rise from %s to %s", before, now.safety))
	}
	return reasons, nil
}

// RolloutRequest changes the share of the callers that the active version of a flow serves. Version is that version, so
// that a change which was meant for another one is refused. IfRevision 0 means that none was given.
type RolloutRequest struct {
	Version    string
	Share      float64
	Reason     string
	IfRevision int64
}

// SetRollout changes the share of a rollout that is under way; 1 completes it, and the version before serves nobody then
// who does not name it. Runs in flight finish on their plan. Who may promote may do this.
func (s *Service) SetRollout(ctx context.Context, actor Actor, name string, req RolloutRequest) (*FlowVersion, error) {
	if err := checkShare(req.Share); err != nil {
		return nil, err
	}
	var v *FlowVersion
	err := s.update(ctx, actor, ActionSetStatus, func(c *change) error {
		row, err := flowRowIn(&c.Reader, c.tenant, name, "")
		if err != nil {
			return err
		}
		if req.Version != row.Version {
			return flows.NewError(flows.CodeStale, fmt.Sprintf("the active version of flow %s is %s, not %q; read it again", name, row.Version, req.Version))
		}
		if err := checkRevision("flow "+name+"@"+row.Version, req.IfRevision, row.Revision); err != nil {
			return err
		}
		if v, err = flowVersion(row); err != nil {
			return err
		}
		if err := v.mayRollOut(req.Share); err != nil {
			return err
		}
		was, revision := v.Rollout.Share, row.Revision
		if v.Rollout.Share = req.Share; !v.Rollout.Partial() {
			v.Rollout.Rest = ""
		}
		if row.Revision, err = c.NextFlowRevision(c.tenant, name); err != nil {
			return err
		}
		if err := c.UpdateFlowVersion(c.tenant, row, nil, revision); err != nil {
			return err
		}
		v.Revision = row.Revision
		if err := c.SetActive(c.tenant, name, store.Pointer(v.Rollout)); err != nil {
			return err
		}
		return c.audit("flow.rollout", "flow/"+name+"@"+row.Version, map[string]any{"from": was, "to": req.Share, "rest": row.Pointer.Rest, "reason": req.Reason})
	})
	if err != nil {
		return nil, err
	}
	return v, nil
}

// mayRollOut says whether the share of the active version may be changed.
func (v *FlowVersion) mayRollOut(share float64) error {
	switch {
	case !v.Rollout.Partial():
		return flows.NewError(flows.CodeConflict, fmt.Sprintf("%s@%s serves all callers already; a rollout begins with a promotion, and a rollback ends it",
			v.Flow.Name, v.Flow.Version))
	case v.Status != flows.StatusActive && share > v.Rollout.Share:
		return flows.NewError(flows.CodeFlowStatus, fmt.Sprintf("flow %s@%s is %s and serves nobody; activate it first, or roll back", v.Flow.Name, v.Flow.Version, v.Status))
	}
	return nil
}
