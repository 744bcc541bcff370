package governance_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/flows"
	"pave/governance"
)

// constants lists the string constants of a type that a file of this package declares.
func constants(t *testing.T, file, typeName string) (values []string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	require.NoError(t, err)
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if name, ok := spec.Type.(*ast.Ident); ok && name.Name == typeName {
			values = append(values, strings.Trim(spec.Values[0].(*ast.BasicLit).Value, `"`))
		}
		return true
	})
	require.NotEmpty(t, values)
	return values
}

// Every action wants exactly one scope, and no action is left out of this table.
func TestEveryActionNeedsExactlyItsScope(t *testing.T) {
	want := map[governance.Action]governance.Scope{
		governance.ActionRead: governance.ScopeRead, governance.ActionIngest: governance.ScopeIngest, governance.ActionPropose: governance.ScopePropose,
		governance.ActionAssign: governance.ScopePropose, governance.ActionComment: governance.ScopeReview,
		governance.ActionApprove: governance.ScopeReview, governance.ActionDisprove: governance.ScopeReview,
		governance.ActionWithdraw: governance.ScopePromote, governance.ActionPromote: governance.ScopePromote,
		governance.ActionSetStatus: governance.ScopePromote, governance.ActionRun: governance.ScopeRun, governance.ActionAdmin: governance.ScopeAdmin,
	}
	for _, name := range constants(t, "policy.go", "Action") {
		action := governance.Action(name)
		need, ok := want[action]
		require.True(t, ok, "%s is not in this table", action)
		for _, has := range governance.AllScopes {
			err := governance.Permit(actor("person:x", has), action)
			if has == need || has == governance.ScopeAdmin {
				require.NoError(t, err, "%s with %s", action, has)
			} else {
				refused(t, flows.CodeForbidden, err, string(need))
			}
		}
		refused(t, flows.CodeForbidden, governance.Permit(actor("person:x"), action), string(need))
	}
}

// Every setting of the policy turns a decision of the same case around; a new setting has to be here.
func TestEverySettingDecides(t *testing.T) {
	promoter := actor("person:x", governance.ScopePromote)
	approved := func(change func(*governance.Proposal)) *governance.Proposal {
		p := &governance.Proposal{ID: "p", State: governance.StateApproved, Author: "person:alice", Digest: "d", Safety: flows.EffectRead,
			Reviews: []governance.Review{{Principal: "person:bob", Verdict: governance.VerdictApprove, Digest: "d"}}}
		if change != nil {
			change(p)
		}
		return p
	}
	decisions := map[string]struct {
		proposal *governance.Proposal
		strict   func(*governance.Policy)
		code     flows.Code
	}{
		"Approvals":         {approved(nil), func(p *governance.Policy) { p.Approvals[flows.EffectRead] = 2 }, flows.CodeApprovalsMissing},
		"RequiredReviewers": {approved(nil), func(p *governance.Policy) { p.RequiredReviewers = []string{"person:carol"} }, flows.CodeApprovalsMissing},
		"Promoters":         {approved(nil), func(p *governance.Policy) { p.Promoters = []string{"person:carol"} }, flows.CodeForbidden},
		"MinReplayExact": {approved(func(p *governance.Proposal) { p.Check = &governance.ReplayCheck{Windows: 10, Exact: 8} }),
			func(p *governance.Policy) { p.MinReplayExact = 0.81 }, flows.CodeReplayDiverged},
		"RequireShadow": {approved(nil), func(p *governance.Policy) { p.RequireShadow = true }, flows.CodeShadow},
	}
	for field, tc := range decisions {
		policy := governance.DefaultPolicy()
		require.Empty(t, policy.Decide(promoter, governance.ActionPromote, tc.proposal).Code, field)
		tc.strict(&policy)
		require.Equal(t, tc.code, policy.Decide(promoter, governance.ActionPromote, tc.proposal).Code, field)
	}
	own := approved(nil)
	solo := governance.DefaultPolicy()
	require.Equal(t, flows.CodeFourEyes, solo.Decide(alice, governance.ActionApprove, own).Code)
	solo.Solo = true
	require.Equal(t, governance.Decision{Solo: true}, solo.Decide(alice, governance.ActionApprove, own))

	watched := map[string]func(*governance.Policy){
		"MaxFailureRate": func(p *governance.Policy) { p.MaxFailureRate = 0.1 },
		"MinRuns":        func(p *governance.Policy) { p.MinRuns = 2 },
		"MinConformance": func(p *governance.Policy) { p.MinConformance = 1 },
		"UnusedDays":     func(p *governance.Policy) { p.UnusedDays = 1 },
	}
	for field, strict := range watched {
		b := newBench(t)
		b.promoted()
		b.ended("succeeded", 18)
		b.ended("failed", 2) // a tenth of the last twenty, and both of the last two
		b.ended("succeeded", 1)
		b.ended("failed", 1)
		b.walked(49, 1)
		b.clock.advance(2 * 24 * time.Hour)
		require.Empty(t, b.watch(), field)
		policy := governance.DefaultPolicy()
		if field == "MinRuns" {
			policy.MaxFailureRate = 0.4
			require.NoError(t, b.SetPolicy(ctx, admin, policy, 0))
			require.Empty(t, b.watch(), field)
			strict(&policy)
			require.NoError(t, b.SetPolicy(ctx, admin, policy, 1))
		} else {
			strict(&policy)
			require.NoError(t, b.SetPolicy(ctx, admin, policy, 0))
		}
		require.Len(t, b.watch(), 1, field)
	}
	elsewhere := []string{"Solo", // above
		"MaxPending", "MaxPendingAnalyzer"} // TestQueuesHaveTheirOwnCaps
	settings := reflect.TypeFor[governance.Policy]()
	for i := range settings.NumField() {
		name := settings.Field(i).Name
		require.True(t, decisions[name].strict != nil || watched[name] != nil || strings.Contains(strings.Join(elsewhere, " "), name),
			"no case shows what the setting %s decides", name)
	}
}

// The same state, decided for every role: who may approve, reject, withdraw and promote what whom wrote.
func TestDecisionsOfEveryRole(t *testing.T) {
	roles := map[string]governance.Actor{
		"nobody":   actor("person:n"),
		"reader":   actor("person:r", governance.ScopeRead),
		"runner":   actor("service:r", governance.ScopeRun),
		"author":   actor("person:alice", governance.ScopePropose, governance.ScopeReview, governance.ScopePromote),
		"editor":   actor("person:ed", governance.ScopePropose, governance.ScopeReview, governance.ScopePromote),
		"reviewer": actor("person:carol", governance.ScopeReview),
		"promoter": actor("person:p", governance.ScopePromote),
		"admin":    admin,
	}
	p := &governance.Proposal{ID: "p", State: governance.StateApproved, Author: "person:alice", Editors: []string{"person:ed"}, Digest: "d", Safety: flows.EffectWrite,
		Reviews: []governance.Review{{Principal: "person:bob", Verdict: governance.VerdictApprove, Digest: "d"}, {Principal: "person:carol", Verdict: governance.VerdictApprove, Digest: "d"}}}
	const (
		ok   = ""
		no   = flows.CodeForbidden
		eyes = flows.CodeFourEyes
	)
	actions := []governance.Action{governance.ActionApprove, governance.ActionDisprove, governance.ActionComment, governance.ActionPropose, governance.ActionWithdraw, governance.ActionPromote}
	for role, want := range map[string][]flows.Code{
		"nobody":   {no, no, no, no, no, no},
		"reader":   {no, no, no, no, no, no},
		"runner":   {no, no, no, no, no, no},
		"author":   {eyes, ok, ok, ok, ok, ok},
		"editor":   {eyes, ok, ok, ok, ok, ok},
		"reviewer": {ok, ok, ok, no, no, no},
		"promoter": {no, no, no, no, ok, ok},
		"admin":    {ok, ok, ok, ok, ok, ok},
	} {
		for i, action := range actions {
			require.Equal(t, want[i], governance.DefaultPolicy().Decide(roles[role], action, p).Code, "%s: %s", role, action)
		}
	}
}
