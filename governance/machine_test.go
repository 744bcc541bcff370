package governance_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"pave/flows"
	"pave/governance"
)

// model is what must be true of one proposal, kept apart from the code under test.
type model struct {
	id        string
	digest    string
	author    string
	editors   []string
	approvals map[string]string // principal -> digest approved
	blocks    map[string]bool   // principals with an open request for changes
	needs     int
	tool, saw int // revision of the tool now, and as the valid approvals saw it
	closed    bool
	promoted  bool
	edits     int
	share     float64 // of the callers, once it is promoted
	drifted   bool    // its tool changed since
}

func (m *model) mayApprove(who string) bool {
	return who != m.author && !slices.Contains(m.editors, who)
}

func (m *model) valid() int {
	n := 0
	for who, digest := range m.approvals {
		if digest == m.digest && m.mayApprove(who) {
			n++
		}
	}
	return n
}

// reviewed notes that somebody looked at the tools as they are now.
func (m *model) reviewed() {
	if m.saw != m.tool {
		clear(m.approvals)
	}
	m.saw = m.tool
}

// refusal is the code that a promotion is refused with now, "" when it goes through.
func (m *model) refusal() flows.Code {
	switch {
	case m.closed:
		return flows.CodeConflict
	case len(m.blocks) > 0 || m.valid() < m.needs:
		return flows.CodeApprovalsMissing
	case m.saw != m.tool:
		return flows.CodeToolDrift
	}
	return ""
}

// getUserAs is a revision of get_user: each has another schema.
func getUserAs(revision int, effects flows.SideEffects) *flows.Tool {
	t := tool("get_user", "user_id", "name", effects)
	t.OutputSchema = raw(`{"type":"object","properties":{"name":{"type":"string"},"v%d":{"type":"string"}},"required":["name"]}`, revision)
	return t
}

// TestProposalStateMachine drives random commands of several principals, through two keys of each, against the model:
// nobody approves what they wrote, only the approved digest is promoted, with the tools that its approvers saw, exactly
// one of two racing promotions wins, decisions are final, and the audit chain stays whole.
func TestProposalStateMachine(t *testing.T) {
	shared := newBench(t)
	cases := 0
	rapid.Check(t, func(rt *rapid.T) {
		cases++
		own := *shared // every case has a tenant of its own
		b := &own
		b.t, b.admin.Tenant = rt, fmt.Sprintf("tenant%d", cases)
		effects := rapid.SampledFrom([]flows.SideEffects{flows.EffectRead, flows.EffectWrite}).Draw(rt, "effects")
		b.apply(findUser(), getUserAs(0, effects))
		people := []governance.Actor{}
		for _, name := range []string{"person:a", "person:b", "person:c", "person:d"} {
			who := actor(name, governance.ScopeRead, governance.ScopePropose, governance.ScopeReview, governance.ScopePromote)
			who.Tenant = b.admin.Tenant
			for _, who.Key = range []string{"key1", "key2"} {
				people = append(people, who)
			}
		}
		p, err := b.Submit(ctx, people[0], userFlow("f"))
		require.NoError(rt, err)
		m := &model{id: p.ID, digest: p.Digest, author: people[0].Principal, approvals: map[string]string{}, blocks: map[string]bool{},
			needs: map[flows.SideEffects]int{flows.EffectRead: 1, flows.EffectWrite: 2}[effects]}
		digests := []string{p.Digest}
		person := rapid.SampledFrom(people)

		expect := func(err error, want flows.Code) {
			if want == "" {
				require.NoError(rt, err)
				return
			}
			require.Equal(rt, want, flows.CodeOf(err), "%v", err)
		}
		review := func(verdict governance.Verdict, digest string, who governance.Actor) error {
			_, err := b.Review(ctx, who, m.id, governance.ReviewRequest{Verdict: verdict, Digest: digest, Comment: "x"})
			return err
		}
		rt.Repeat(map[string]func(*rapid.T){
			"approve": func(rt *rapid.T) {
				who, digest := person.Draw(rt, "who"), rapid.SampledFrom(digests).Draw(rt, "digest")
				err := review(governance.VerdictApprove, digest, who)
				switch {
				case m.closed:
					expect(err, flows.CodeConflict)
				case !m.mayApprove(who.Principal):
					expect(err, flows.CodeFourEyes)
				case digest != m.digest:
					expect(err, flows.CodeStale)
				default:
					expect(err, "")
					m.reviewed()
					m.approvals[who.Principal] = digest
					delete(m.blocks, who.Principal)
				}
			},
			"request changes": func(rt *rapid.T) {
				who := person.Draw(rt, "who")
				err := review(governance.VerdictRequestChanges, "", who)
				if m.closed {
					expect(err, flows.CodeConflict)
					return
				}
				expect(err, "")
				m.reviewed()
				m.blocks[who.Principal] = true
				delete(m.approvals, who.Principal)
			},
			"reject": func(rt *rapid.T) {
				if rapid.IntRange(0, 9).Draw(rt, "seldom") > 0 {
					rt.Skip()
				}
				err := review(governance.VerdictReject, "", person.Draw(rt, "who"))
				if m.closed {
					expect(err, flows.CodeConflict)
					return
				}
				expect(err, "")
				m.closed = true
			},
			"edit": func(rt *rapid.T) {
				who := person.Draw(rt, "who")
				m.edits++
				edited := userFlow("f")
				edited.Description = fmt.Sprintf("edit %d", m.edits)
				p, err := b.Edit(ctx, who, m.id, governance.EditRequest{Flow: edited})
				if m.closed {
					expect(err, flows.CodeConflict)
					return
				}
				expect(err, "")
				require.NotContains(rt, digests, p.Digest)
				m.digest = p.Digest
				digests = append(digests, p.Digest)
				m.editors = append(m.editors, who.Principal)
				clear(m.approvals)
				clear(m.blocks)
			},
			"promote": func(rt *rapid.T) {
				share := rapid.SampledFrom([]float64{0.1, 0.5, 1}).Draw(rt, "share")
				v, err := b.Promote(ctx, person.Draw(rt, "who"), m.id, governance.PromoteRequest{Rollout: share})
				expect(err, m.refusal())
				if err == nil {
					require.Equal(rt, m.digest, v.Digest)
					require.Equal(rt, m.digest, flows.Digest(v.Flow))
					require.Equal(rt, flows.SchemaHash(getUserAs(m.saw, effects)), v.Flow.ToolSchemaHashes["get_user"])
					m.closed, m.promoted, m.share = true, true, share
				}
			},
			"roll out": func(rt *rapid.T) {
				share := rapid.SampledFrom([]float64{0.2, 0.7, 1}).Draw(rt, "share")
				_, err := b.SetRollout(ctx, person.Draw(rt, "who"), "f", governance.RolloutRequest{Version: "1.0.0", Share: share})
				switch {
				case !m.promoted:
					expect(err, flows.CodeNotFound)
				case m.share == 1:
					expect(err, flows.CodeConflict)
				case m.drifted && share > m.share:
					expect(err, flows.CodeFlowStatus)
				default:
					expect(err, "")
					m.share = share
				}
			},
			"promote over an old revision": func(rt *rapid.T) {
				_, err := b.Promote(ctx, person.Draw(rt, "who"), m.id, governance.PromoteRequest{IfRevision: b.get(m.id).Revision + 1})
				expect(err, flows.CodeStale)
			},
			"change the tool": func(rt *rapid.T) {
				m.tool++
				m.drifted = m.promoted
				b.apply(getUserAs(m.tool, effects))
			},
			"change the policy": func(rt *rapid.T) {
				policy, revision, err := b.Policy(ctx, b.admin)
				require.NoError(rt, err)
				m.needs = rapid.IntRange(1, 3).Draw(rt, "needs")
				policy.Approvals[effects] = m.needs
				require.NoError(rt, b.SetPolicy(ctx, b.admin, policy, revision))
			},
			"withdraw": func(rt *rapid.T) {
				if rapid.IntRange(0, 9).Draw(rt, "seldom") > 0 {
					rt.Skip()
				}
				_, err := b.Withdraw(ctx, person.Draw(rt, "who"), m.id, "x", 0)
				if m.closed {
					expect(err, flows.CodeConflict)
					return
				}
				expect(err, "")
				m.closed = true
			},
			"race to promote": func(rt *rapid.T) {
				one, other := person.Draw(rt, "one"), person.Draw(rt, "other")
				var errs [2]error
				var wg sync.WaitGroup
				for i, who := range []governance.Actor{one, other} {
					wg.Go(func() { _, errs[i] = b.Promote(ctx, who, m.id, governance.PromoteRequest{}) })
				}
				wg.Wait()
				if want := m.refusal(); want != "" {
					expect(errs[0], want)
					expect(errs[1], want)
					return
				}
				require.True(rt, (errs[0] == nil) != (errs[1] == nil), "exactly one wins: %v, %v", errs[0], errs[1])
				require.Equal(rt, flows.CodeConflict, flows.CodeOf(errors.Join(errs[0], errs[1])))
				m.closed, m.promoted, m.share = true, true, 1
			},
			"bulk reject": func(rt *rapid.T) {
				if rapid.IntRange(0, 9).Draw(rt, "seldom") > 0 {
					rt.Skip()
				}
				out, err := b.BulkReject(ctx, person.Draw(rt, "who"), []governance.BulkItem{{ID: m.id}, {ID: m.id}}, "x")
				require.NoError(rt, err)
				require.Equal(rt, m.closed, out[0].Err != nil)
				require.Equal(rt, flows.CodeConflict, out[1].Err.Code, "rejected once")
				m.closed = true
			},
			"assign and comment": func(rt *rapid.T) {
				who := person.Draw(rt, "who")
				_, err := b.Edit(ctx, who, m.id, governance.EditRequest{Assignee: &who.Principal})
				if m.closed {
					expect(err, flows.CodeConflict)
				} else {
					expect(err, "")
				}
				_, err = b.Comment(ctx, who, m.id, governance.CommentRequest{Body: "x", Pointer: "/steps/0"})
				expect(err, "")
			},
			"": func(rt *rapid.T) {
				p := b.get(m.id)
				require.Equal(rt, m.digest, p.Digest)
				require.Equal(rt, !m.closed, p.Open())
				require.Equal(rt, m.promoted, p.State == governance.StatePromoted)
				if !m.closed {
					require.Equal(rt, m.valid(), p.Approvals)
					require.Equal(rt, len(m.blocks) == 0 && m.valid() >= m.needs, p.State == governance.StateApproved)
				}
			},
		})
		versions, err := b.Flows(ctx, people[0])
		require.NoError(rt, err)
		require.Equal(rt, m.promoted, len(versions) == 1, "nothing is a flow that was not promoted")
		if m.promoted {
			require.Equal(rt, governance.Rollout{Version: "1.0.0", Share: m.share}, versions[0].Rollout)
		}
		b.actions() // verifies the chain
	})
}
