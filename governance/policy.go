package governance

import (
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
		MaxPending:         50,
		MaxPendingAnalyzer: 20,
	}
}

// levels is the scale of side effects from harmless to irreversible.
var levels = []flows.SideEffects{flows.EffectNone, flows.EffectRead, flows.EffectWrite, flows.EffectExternal, flows.EffectDestructive}

// check says what is wrong with a policy that someone wants to set.
func (p Policy) check() error {
	var details []flows.ErrorDetail
	for _, level := range slices.Sorted(maps.Keys(p.Approvals)) {
		if !slices.Contains(levels, level) {
			details = append(details, flows.ErrorDetail{Pointer: "/approvals/" + string(level), Code: "unknown_level",
				Detail: "use none, read, write, external or destructive"})
		} else if n := p.Approvals[level]; n < 1 || n > 10 {
			details = append(details, flows.ErrorDetail{Pointer: "/approvals/" + string(level), Code: "out_of_range", Detail: "use 1 to 10"})
		}
	}
	if p.MaxPending < 0 || p.MaxPendingAnalyzer < 0 {
		details = append(details, flows.ErrorDetail{Pointer: "/max_pending", Code: "out_of_range", Detail: "a cap is 0 or more"})
	}
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
// proposal is the proposal that the action is about, with its reviews, and nil for other actions. The order of
// refusals is: scope, state, four eyes, missing approvals.
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

func (p Policy) decidePromote(proposal *Proposal) Decision {
	if proposal.State == StateChanges {
		return Decision{Code: flows.CodeApprovalsMissing, Reason: "a reviewer requested changes; that review must be resolved first"}
	}
	t := p.tally(proposal)
	switch {
	case t.Approvals < t.Needs:
		return Decision{Code: flows.CodeApprovalsMissing, Reason: fmt.Sprintf(
			"%d of %d approvals for this digest (side effects: %s)", t.Approvals, t.Needs, proposal.Safety)}
	case t.OwnerMissing && proposal.owner() == "":
		return Decision{Code: flows.CodeApprovalsMissing, Reason: "a destructive flow needs a named owner, and the owner's approval"}
	case t.OwnerMissing:
		return Decision{Code: flows.CodeApprovalsMissing, Reason: "the approval of the flow's owner " + proposal.owner() + " is missing"}
	}
	return Decision{}
}

// tally counts approvals: one per principal, not dismissed, for the current digest, and not by an author unless
// solo mode is on.
type tally struct {
	Needs, Approvals int
	OwnerMissing     bool
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
	case t.Approvals >= t.Needs && !t.OwnerMissing:
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

// As is the actor acting as another principal of its tenant, which only admins may.
func (a Actor) As(principal string) (Actor, error) {
	if principal == "" || principal == a.Principal {
		return a, nil
	}
	if !a.Has(ScopeAdmin) {
		return Actor{}, flows.NewError(flows.CodeForbidden, "only an admin key may act as another principal")
	}
	if err := checkPrincipal(principal); err != nil {
		return Actor{}, err
	}
	return Actor{Tenant: a.Tenant, Principal: principal, Scopes: a.Scopes}, nil
}
