package governance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"pave/flows"
	"pave/governance/store"
	eventstore "pave/ingest/store"
)

// Bounds of a replay check.
const (
	DefaultReplaySessions = 200 // newest sessions that are read
	MaxReplaySessions     = 2000
	MaxReplayWindows      = 20 // windows that each list of a check shows; the counts are of all
	MaxGoldenTests        = 5
)

// Replayer lays a flow over recorded sessions: the newest ones that called its first tool, at most limit. tools are
// the declared ones that the flow reaches. It fills everything of the check but Digest, By, At and Problems. Errors
// of the event store are those of ingest/store.
type Replayer interface {
	Replay(ctx context.Context, tenant string, flow *flows.Flow, tools map[string]*flows.Tool, limit int) (*ReplayCheck, error)
}

// ReplayCheck says what a draft would have done in recorded sessions. A window is a place where an agent called the
// flow's tools in its order, without an error or a user's message between.
type ReplayCheck struct {
	Digest string
	By     string // principal
	At     time.Time
	// Problems are what keeps the draft from compiling; such a draft is not laid over sessions.
	Problems []flows.ErrorDetail
	// Note says why nothing could be compared, "" when it could.
	Note string

	Sessions int // read
	Windows  int
	Exact    int // windows in which every argument is what the flow passes, and the caller knew every input
	// Diverged are windows in which the flow would have passed something else, Blocked those that are exact but for
	// inputs that the caller could not know; each at most MaxReplayWindows, while the counts are of all.
	DivergedCount, BlockedCount int
	Diverged, Blocked           []ReplayWindow
	// DestructiveMismatches counts calls with side effects that diverging runs would have made.
	DestructiveMismatches int
	// Golden are exact windows that the executor reproduces from the recorded answers, at most MaxGoldenTests.
	Golden []GoldenTest
}

// ReplayWindow is one place of a session; Calls are positions among its recorded calls.
type ReplayWindow struct {
	SessionID string
	Calls     []int
	Faults    []ReplayFault
}

// ReplayFault is one difference. Step counts from 0; Arg is an argument of the step or an input of the flow, "" the
// length of a list. Reason is wrong, unmapped, unknown or text.
type ReplayFault struct {
	Step   int
	Arg    string
	Reason string
}

// GoldenTest is a recorded session that a flow version reproduces: with this input and these answers of the tools it
// makes exactly these calls and ends like this.
type GoldenTest struct {
	Name      string
	SessionID string
	Input     json.RawMessage
	Calls     []GoldenCall
	Status    string
	Output    json.RawMessage // null where the run ends without one
}

// GoldenCall is one recorded call.
type GoldenCall struct {
	Tool         string
	Args, Result json.RawMessage
}

// Share is the part of the windows that are exact, 1 where there are none.
func (c *ReplayCheck) Share() float64 {
	if c.Windows == 0 {
		return 1
	}
	return float64(c.Exact) / float64(c.Windows)
}

// CheckReplay compiles a proposal's draft and lays it over recorded sessions, at most limit (0 means
// DefaultReplaySessions). The outcome is kept with the draft's digest. CodeUnavailable: the event store is away.
func (s *Service) CheckReplay(ctx context.Context, actor Actor, ref string, limit int) (*ReplayCheck, error) {
	if limit < 0 || limit > MaxReplaySessions {
		return nil, flows.NewError(flows.CodeInvalid, fmt.Sprintf("limit %d: use 1 to %d sessions", limit, MaxReplaySessions),
			flows.ErrorDetail{Pointer: "/limit", Code: "out_of_range", Detail: fmt.Sprintf("1 to %d", MaxReplaySessions)})
	}
	if err := Permit(actor, ActionDisprove); err != nil { // whoever judges drafts may have them checked
		return nil, err
	}
	return s.checkReplay(ctx, actor, ref, limit)
}

// TryReplay compiles draft, a change of a proposal that somebody thinks about, and lays it over recorded sessions as
// CheckReplay does. It keeps nothing. A draft that does not compile is an outcome, not an error.
func (s *Service) TryReplay(ctx context.Context, actor Actor, ref string, draft *flows.Flow, limit int) (*ReplayCheck, error) {
	if err := Permit(actor, ActionDisprove); err != nil {
		return nil, err
	}
	_, check, err := s.layOver(ctx, actor, ref, draft, limit)
	if err != nil {
		return nil, err
	}
	check.At = s.now()
	return check, nil
}

// checkReplay does what CheckReplay does, for callers that were permitted what they do.
func (s *Service) checkReplay(ctx context.Context, actor Actor, ref string, limit int) (*ReplayCheck, error) {
	e, check, err := s.layOver(ctx, actor, ref, nil, limit)
	if err != nil {
		return nil, err
	}
	return check, s.keepCheck(ctx, actor, e, check)
}

// layOver compares draft, nil for the proposal's own, with recorded sessions.
func (s *Service) layOver(ctx context.Context, actor Actor, ref string, draft *flows.Flow, limit int) (*entry, *ReplayCheck, error) {
	if s.replayer == nil {
		return nil, nil, flows.NewError(flows.CodeUnavailable, "no event store is open, so there are no sessions to compare with")
	}
	var e *entry
	var now content
	err := s.db.View(ctx, func(r *store.Reader) (err error) {
		if e, err = find(r, tenantOf(actor), ref); err != nil {
			return err
		}
		if draft == nil {
			draft = e.Flow
		}
		tools, err := toolsIn(r, tenantOf(actor))
		if err == nil {
			now = tools.contentOf(draft)
		}
		return err
	})
	if err != nil {
		return nil, nil, visible(err)
	}
	if limit == 0 {
		limit = DefaultReplaySessions
	}
	check := &ReplayCheck{Problems: s.check(draft, now.tools, now.callable())}
	if len(check.Problems) == 0 || len(now.tools) < len(ToolNames(draft)) { // unknown tools do not compile, but were recorded
		found, err := s.replayer.Replay(ctx, tenantOf(actor), draft, now.tools, limit)
		if errors.Is(err, eventstore.ErrUnavailable) {
			return nil, nil, &flows.Error{Code: flows.CodeUnavailable, Message: "the event store does not answer now; check again later", Err: err}
		}
		if err != nil {
			return nil, nil, fmt.Errorf("replay check of %s: %w", e.ID, err)
		}
		found.Problems = check.Problems
		check = found
	}
	check.Digest, check.By = flows.Digest(draft), actor.Principal
	return e, check, nil
}

func (s *Service) keepCheck(ctx context.Context, actor Actor, e *entry, check *ReplayCheck) error {
	return s.transact(ctx, actor, func(c *change) error {
		check.At = c.at
		body, err := json.Marshal(check)
		if err != nil {
			return fmt.Errorf("encode replay check: %w", err)
		}
		if err := c.PutReplayCheck(c.tenant, e.ID, check.Digest, c.at, body); err != nil {
			return err
		}
		return c.audit("proposal.replay_check", "proposal/"+e.ID, map[string]any{"digest": check.Digest, "sessions": check.Sessions,
			"windows": check.Windows, "exact": check.Exact, "problems": len(check.Problems)})
	})
}

// ReplayCheck reads the newest check of a proposal's draft as it is now.
func (s *Service) ReplayCheck(ctx context.Context, actor Actor, ref string) (*ReplayCheck, error) {
	p, err := s.Proposal(ctx, actor, ref)
	if err != nil {
		return nil, err
	}
	if p.Check == nil {
		return nil, flows.NewError(flows.CodeNotFound, fmt.Sprintf("the draft of proposal %s was not checked yet; check it now", p.ID))
	}
	return p.Check, nil
}

// checkIn reads the check of a digest, nil when there is none.
func checkIn(r *store.Reader, tenant, id, digest string) (*ReplayCheck, error) {
	body, err := r.ReplayCheck(tenant, id, digest)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	check := new(ReplayCheck)
	return check, decode(body, check)
}

// FlowTests reads the golden tests of a flow version; version "" is the one that the active pointer names.
func (s *Service) FlowTests(ctx context.Context, actor Actor, name, version string) (v *FlowVersion, tests []GoldenTest, tools []*flows.Tool, err error) {
	err = s.view(ctx, actor, ActionRead, func(r *store.Reader, tenant string, _ Policy) error {
		row, err := flowRowIn(r, tenant, name, version)
		if err != nil {
			return err
		}
		if v, err = flowVersion(row); err != nil {
			return err
		}
		names := ToolNames(v.Flow)
		set, err := declaredIn(r, tenant, v.Flow, nil)
		if err != nil {
			return err
		}
		for _, name := range names {
			if t := set.declared(name); t != nil {
				tools = append(tools, t.Tool)
			}
		}
		tests, err = testsIn(r, tenant, name, row.Version)
		return err
	})
	return v, tests, tools, err
}

func testsIn(r *store.Reader, tenant, name, version string) ([]GoldenTest, error) {
	bodies, err := r.FlowTests(tenant, name, version)
	if err != nil {
		return nil, err
	}
	tests := make([]GoldenTest, len(bodies))
	for i, body := range bodies {
		if err := decode(body, &tests[i]); err != nil {
			return nil, err
		}
	}
	return tests, nil
}

func encodeTests(tests []GoldenTest) ([][]byte, error) {
	bodies := make([][]byte, len(tests))
	for i := range tests {
		var err error
		if bodies[i], err = json.Marshal(&tests[i]); err != nil {
			return nil, fmt.Errorf("encode golden test: %w", err)
		}
	}
	return bodies, nil
}
