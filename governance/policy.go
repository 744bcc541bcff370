package governance

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"pave/flows"
)

// Policy says how many approvals a flow needs and how long the queue may get. It is one JSON setting of the
// state store.
type Policy struct {
	// Solo lets an author approve and one approval suffice, for an installation of one person. Every approval
	// given under it is marked.
	Solo bool `json:"solo"`
	// Approvals is the number of principals that must approve, by the merged side effects of the flow's tools.
	Approvals map[flows.SideEffects]int `json:"approvals"`
	// RequiredReviewers, when there are any, are principals of whom one must be among the approvers.
	RequiredReviewers []string `json:"required_reviewers"`
	// Promoters, when there are any, are the only principals who may promote, set the status of flows and roll back; they
	// need the scope as well.
	Promoters []string `json:"promoters"`
	// MinReplayExact is the share of windows of the draft's replay check that must be exact, 0..1; 0 asks for none. With
	// it, no diverging window may have had side effects. A draft whose path no session holds passes.
	MinReplayExact float64 `json:"min_replay_exact"`
	// RequireShadow lets only drafts be promoted whose live predictions passed (see ShadowResult.Passed).
	RequireShadow bool `json:"require_shadow"`
	// MaxFailureRate sends a flow version to needs_review when more of its last MinRuns runs failed; 0 turns it off.
	MaxFailureRate float64 `json:"max_failure_rate"`
	MinRuns        int     `json:"min_runs"`
	// MinConformance sends a flow version to needs_review when agents' last 50 walks of its path fit it less; 0 turns
	// it off.
	MinConformance float64 `json:"min_conformance"`
	// UnusedDays sends a flow version to needs_review that nobody ran for so long; 0 turns it off.
	UnusedDays int `json:"unused_days"`
	// MaxPending and MaxPendingAnalyzer cap the open proposals of the mined and of the analyzer's queue.
	MaxPending         int `json:"max_pending"`
	MaxPendingAnalyzer int `json:"max_pending_analyzer"`
}

// DefaultPolicy is the policy until one is set.
func DefaultPolicy() Policy {
	return Policy{
		Approvals: map[flows.SideEffects]int{
			flows.EffectNone: 1, flows.EffectRead: 1, flows.EffectWrite: 2, flows.EffectExternal: 2, flows.EffectDestructive: 2,
		},
		MinReplayExact:     0.8,
		MaxFailureRate:     0.5,
		MinRuns:            20,
		MinConformance:     0.9,
		UnusedDays:         90,
		MaxPending:         50,
		MaxPendingAnalyzer: 20,
	}
}

// levels is the scale of side effects from harmless to irreversible.
var levels = []flows.SideEffects{flows.EffectNone, flows.EffectRead, flows.EffectWrite, flows.EffectExternal, flows.EffectDestructive}

// Check says what is wrong with a policy that someone wants to set.
func (p Policy) Check() error {
	var details []flows.ErrorDetail
	for _, level := range slices.Sorted(maps.Keys(p.Approvals)) {
		if !slices.Contains(levels, level) {
			details = append(details, flows.ErrorDetail{Pointer: "/approvals/" + string(level), Code: "unknown_level",
				Detail: "use none, read, write, external or destructive"})
		} else if n := p.Approvals[level]; n < 1 || n > 10 {
			details = append(details, flows.ErrorDetail{Pointer: "/approvals/" + string(level), Code: "out_of_range", Detail: "use 1 to 10"})
		}
	}
	for field, n := range map[string]int{"max_pending": p.MaxPending, "max_pending_analyzer": p.MaxPendingAnalyzer, "min_runs": p.MinRuns,
		"unused_days": p.UnusedDays} {
		if n < 0 {
			details = append(details, flows.ErrorDetail{Pointer: "/" + field, Code: "out_of_range", Detail: "use 0 or more"})
		}
	}
	for field, share := range map[string]float64{"min_replay_exact": p.MinReplayExact, "max_failure_rate": p.MaxFailureRate,
		"min_conformance": p.MinConformance} {
		if !(share >= 0 && share <= 1) { // also refuses NaN
			details = append(details, flows.ErrorDetail{Pointer: "/" + field, Code: "out_of_range", Detail: "use 0 to 1"})
		}
	}
	for field, names := range map[string][]string{"required_reviewers": p.RequiredReviewers, "promoters": p.Promoters} {
		for i, name := range names {
			if checkPrincipal(name) != nil {
				details = append(details, flows.ErrorDetail{Pointer: fmt.Sprintf("/%s/%d", field, i), Code: "invalid",
					Detail: "person:NAME, service:NAME or local:NAME"})
			}
		}
	}
	slices.SortFunc(details, func(a, b flows.ErrorDetail) int { return strings.Compare(a.Pointer, b.Pointer) })
	if len(details) == 0 {
		return nil
	}
	return flows.NewError(flows.CodeInvalid, "the policy is not valid: "+details[0].Pointer+": "+details[0].Detail, details...)
}

// needs is the number of approvals that a flow of this safety level wants.
func (p Policy) needs(level flows.SideEffects) int {
	if p.Solo {
		return 1
	}
	if n, ok := p.Approvals[level]; ok && n > 0 {
		return n
	}
	return DefaultPolicy().Approvals[flows.EffectExternal]
}

// Action is something that a principal asks to do.
type Action string

const (
	ActionRead      Action = "read"
	ActionIngest    Action = "ingest"
	ActionPropose   Action = "propose" // mine, submit or edit a draft
	ActionAssign    Action = "assign"  // assignee and labels of a proposal
	ActionComment   Action = "comment"
	ActionApprove   Action = "approve"
	ActionDisprove  Action = "disprove" // reject or request changes
	ActionWithdraw  Action = "withdraw"
	ActionPromote   Action = "promote"
	ActionSetStatus Action = "set_status"
	ActionRun       Action = "run"
	ActionAdmin     Action = "admin" // tools, keys, policy, audit log
)

// scopeOf is the scope that an action wants.
var scopeOf = map[Action]Scope{
	ActionRead: ScopeRead, ActionIngest: ScopeIngest, ActionPropose: ScopePropose, ActionApprove: ScopeReview,
	ActionAssign: ScopePropose, ActionComment: ScopeReview,
	ActionDisprove: ScopeReview, ActionWithdraw: ScopePromote, ActionPromote: ScopePromote, ActionSetStatus: ScopePromote,
	ActionRun: ScopeRun, ActionAdmin: ScopeAdmin,
}

// Has says that the actor's key carries the scope. Admin includes every other scope; it lifts no other rule.
func (a Actor) Has(s Scope) bool {
	return slices.Contains(a.Scopes, s) || slices.Contains(a.Scopes, ScopeAdmin)
}

// Decision is the answer of Decide. Code "" means allowed.
type Decision struct {
	Code   flows.Code
	Reason string
	Solo   bool // allowed under solo mode: the approval is to be marked
}

// Err is the refusal as an error, nil when allowed.
func (d Decision) Err() error {
	if d.Code == "" {
		return nil
	}
	return flows.NewError(d.Code, d.Reason)
}

// Decide is the one place that says whether an actor may do something; every path to a mutation asks it.
// proposal is the proposal that the action is about, with its reviews, replay check and shadow result, and nil for other
// actions. The order of refusals is: scope, named promoters, state, four eyes, missing approvals, replay check, shadow.
func (p Policy) Decide(actor Actor, action Action, proposal *Proposal) Decision {
	want, ok := scopeOf[action]
	if !ok {
		return Decision{Code: flows.CodeForbidden, Reason: fmt.Sprintf("no such action %q", action)}
	}
	own := proposal != nil && proposal.wroteBy(actor.Principal)
	allowed := actor.Has(want) || action == ActionWithdraw && own && actor.Has(ScopePropose)
	if !allowed {
		return Decision{Code: flows.CodeForbidden,
			Reason: fmt.Sprintf("the key of %s lacks the scope %q that this needs", actor.Principal, want)}
	}
	promotes := action == ActionPromote || action == ActionSetStatus
	if promotes && len(p.Promoters) > 0 && !slices.Contains(p.Promoters, actor.Principal) {
		return Decision{Code: flows.CodeForbidden, Reason: fmt.Sprintf("the policy lets only %s promote, not %s", strings.Join(p.Promoters, ", "), actor.Principal)}
	}
	if proposal == nil {
		return Decision{}
	}
	if !proposal.Open() {
		return Decision{Code: flows.CodeConflict, Reason: fmt.Sprintf("proposal %s is %s already", proposal.ID, proposal.State)}
	}
	switch action {
	case ActionApprove:
		if own && !p.Solo {
			return Decision{Code: flows.CodeFourEyes, Reason: fmt.Sprintf(
				"%s wrote or edited this draft and may not approve it; another principal must (or set solo mode)", actor.Principal)}
		}
		return Decision{Solo: p.Solo}
	case ActionPromote:
		return p.decidePromote(proposal)
	}
	return Decision{}
}

// Permit says whether an actor's scopes allow an action that is about no proposal.
func Permit(actor Actor, action Action) error {
	return DefaultPolicy().Decide(actor, action, nil).Err()
}

// DecideAgain says whether what a promoted proposal was approved with suffices for the side effects that its tools have
// now. While they are no worse than then, it does: the policy of today is for what is promoted today.
func (p Policy) DecideAgain(promoted *Proposal, now flows.SideEffects) Decision {
	if !flows.Exceeds(now, promoted.Safety) {
		return Decision{}
	}
	worse := *promoted
	worse.Safety = now
	d := p.decideApprovals(&worse)
	if d.Code != "" {
		d.Reason = fmt.Sprintf("its side effects rose from %s to %s since it was approved: %s; propose it again, so that it is approved as what it is", promoted.Safety, now, d.Reason)
	}
	return d
}

func (p Policy) decidePromote(proposal *Proposal) Decision {
	if proposal.State == StateChanges {
		return Decision{Code: flows.CodeApprovalsMissing, Reason: "a reviewer requested changes; that review must be resolved first"}
	}
	if d := p.decideApprovals(proposal); d.Code != "" {
		return d
	}
	return p.decideEvidence(proposal)
}

// decideApprovals holds the approvals against the side effects.
func (p Policy) decideApprovals(proposal *Proposal) Decision {
	t := p.tally(proposal)
	switch {
	case t.Approvals < t.Needs:
		return Decision{Code: flows.CodeApprovalsMissing, Reason: fmt.Sprintf(
			"%d of %d approvals for this digest (side effects: %s)", t.Approvals, t.Needs, proposal.Safety)}
	case t.OwnerMissing && proposal.owner() == "":
		return Decision{Code: flows.CodeApprovalsMissing, Reason: "a destructive flow needs a named owner, and the owner's approval"}
	case t.OwnerMissing:
		return Decision{Code: flows.CodeApprovalsMissing, Reason: "the approval of the flow's owner " + proposal.owner() + " is missing"}
	case t.ReviewerMissing:
		return Decision{Code: flows.CodeApprovalsMissing, Reason: "the approval of one of " + strings.Join(p.RequiredReviewers, ", ") + " is missing"}
	}
	return Decision{}
}

// decideEvidence holds the recorded and the live sessions against what the policy asks of them.
func (p Policy) decideEvidence(proposal *Proposal) Decision {
	check := proposal.Check
	switch {
	case p.MinReplayExact == 0 || check == nil:
	case check.DestructiveMismatches > 0:
		return Decision{Code: flows.CodeReplayDiverged, Reason: fmt.Sprintf("in recorded sessions the flow would have made %d calls with side effects "+
			"that the agents did not make; mend the mapping (or set min_replay_exact to 0 in the policy)", check.DestructiveMismatches)}
	case check.Share() < p.MinReplayExact:
		return Decision{Code: flows.CodeReplayDiverged, Reason: fmt.Sprintf("the flow reproduces %d of %d recorded walks of its path (%.0f %%), the policy wants "+
			"%.0f %%; mend the mapping or lower min_replay_exact", check.Exact, check.Windows, 100*check.Share(), 100*p.MinReplayExact)}
	}
	if !p.RequireShadow {
		return Decision{}
	}
	if proposal.Shadow == nil {
		return Decision{Code: flows.CodeShadow, Reason: "the policy wants live predictions first, and no session came since the approval"}
	}
	if ok, reason := proposal.Shadow.Passed(); !ok {
		return Decision{Code: flows.CodeShadow, Reason: "the policy wants live predictions that hold: " + reason}
	}
	return Decision{}
}

// tally counts approvals: one per principal, not dismissed, for the current digest, and not by an author unless
// solo mode is on.
type tally struct {
	Needs, Approvals int
	OwnerMissing     bool
	ReviewerMissing  bool // none of the policy's required reviewers is among the approvers
	Approvers        []string
}

func (p Policy) tally(proposal *Proposal) tally {
	t := tally{Needs: p.needs(proposal.Safety)}
	for _, r := range proposal.Reviews {
		if r.Verdict != VerdictApprove || r.Dismissed || r.Digest != proposal.Digest {
			continue
		}
		if proposal.wroteBy(r.Principal) && !p.Solo || slices.Contains(t.Approvers, r.Principal) {
			continue
		}
		t.Approvers = append(t.Approvers, r.Principal)
	}
	t.Approvals = len(t.Approvers)
	t.OwnerMissing = proposal.Safety == flows.EffectDestructive && !p.Solo && !slices.Contains(t.Approvers, proposal.owner())
	t.ReviewerMissing = len(p.RequiredReviewers) > 0 && !p.Solo &&
		!slices.ContainsFunc(t.Approvers, func(name string) bool { return slices.Contains(p.RequiredReviewers, name) })
	return t
}

// state is where an open proposal stands after its valid reviews.
func (p Policy) state(proposal *Proposal) State {
	reviewed := false
	for _, r := range proposal.Reviews {
		if r.Dismissed {
			continue
		}
		reviewed = true
		if r.Verdict == VerdictRequestChanges {
			return StateChanges
		}
	}
	t := p.tally(proposal)
	switch {
	case t.Approvals >= t.Needs && !t.OwnerMissing && !t.ReviewerMissing:
		return StateApproved
	case reviewed:
		return StateInReview
	}
	return StateProposed
}

// wroteBy says that the principal made the draft what it is.
func (p *Proposal) wroteBy(principal string) bool {
	return p.Author == principal || slices.Contains(p.Editors, principal)
}

func (p *Proposal) owner() string {
	if p.Flow == nil || p.Flow.Governance == nil {
		return ""
	}
	return p.Flow.Governance.Owner
}

// checkPrincipal refuses names that are not "person:x", "service:x" or "local:x".
func checkPrincipal(name string) error {
	kind, rest, ok := strings.Cut(name, ":")
	valid := ok && (kind == "person" || kind == "service" || kind == "local") && rest != "" && len(name) <= 128
	for _, r := range rest {
		valid = valid && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_.@+-", r))
	}
	if valid {
		return nil
	}
	return flows.NewError(flows.CodeInvalid, fmt.Sprintf("principal %q: use person:NAME, service:NAME or local:NAME", name),
		flows.ErrorDetail{Pointer: "/principal", Code: "invalid", Detail: "person:NAME, service:NAME or local:NAME"})
}

// checkActing is checkPrincipal for one that a key or an admin is to act as. What pave does by itself nobody else signs.
func checkActing(name string) error {
	switch name {
	case SystemPrincipal, MinerPrincipal, RetentionPrincipal:
		return flows.NewError(flows.CodeInvalid, fmt.Sprintf("principal %q is pave itself, which acts without a key; take another name", name),
			flows.ErrorDetail{Pointer: "/principal", Code: "reserved", Detail: "not " + name})
	}
	return checkPrincipal(name)
}

// As is the actor acting as another principal of its tenant, which only admins may; the audit log shows both.
func (a Actor) As(principal string) (Actor, error) {
	if principal == "" || principal == a.Principal {
		return a, nil
	}
	if !a.Has(ScopeAdmin) {
		return Actor{}, flows.NewError(flows.CodeForbidden, "only an admin key may act as another principal")
	}
	if err := checkActing(principal); err != nil {
		return Actor{}, err
	}
	return Actor{Tenant: a.Tenant, Principal: principal, Scopes: a.Scopes, Via: cmp.Or(a.Via, a.Principal)}, nil
}
