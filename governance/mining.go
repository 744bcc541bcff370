package governance

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"pave/analyzer"
	"pave/governance/store"
	"pave/observer"
)

// SystemPrincipal acts where pave itself does something, such as making the first key.
const SystemPrincipal = "service:pave"

// RetentionPrincipal deletes what is older than it is to be kept.
const RetentionPrincipal = "service:retention"

// MiningState is where a mining pass stands.
type MiningState string

const (
	MiningRunning     MiningState = "running"
	MiningDone        MiningState = "done"
	MiningFailed      MiningState = "failed"
	MiningInterrupted MiningState = "interrupted" // the process ended under it
)

// MiningRequest selects the recorded calls of a pass by the time of their session, [From, To), zero leaves a
// side open, and sets thresholds; zero takes the miner's default.
type MiningRequest struct {
	From, To    time.Time
	MinSessions int
	MaxLength   int
	// Incremental asks for a pass that counts the days that changed only, where that is enough; it cannot have a window or
	// thresholds of its own.
	Incremental bool `json:",omitempty"`
}

// MiningTrigger says why a pass began.
type MiningTrigger string

const (
	TriggerRequest  MiningTrigger = "request"  // somebody asked for it
	TriggerSessions MiningTrigger = "sessions" // enough new sessions
	TriggerTools    MiningTrigger = "tools"    // a declared tool changed
	TriggerInterval MiningTrigger = "interval" // long enough since the last, and something new
)

// MiningMode says what a pass did.
type MiningMode string

const (
	ModeFull        MiningMode = "full"        // read, counted and examined everything
	ModeIncremental MiningMode = "incremental" // counted the days that changed; patterns and mappings stayed
)

// MiningRun is one pass of observe, analyse and propose.
type MiningRun struct {
	ID      string
	State   MiningState
	Request MiningRequest
	By      string        // principal
	Trigger MiningTrigger `json:",omitempty"`
	Mode    MiningMode    `json:",omitempty"`
	// Increment is what an incremental count found, also where a full pass followed because of it.
	Increment *observer.Increment `json:",omitempty"`
	Started   time.Time
	Ended     time.Time // zero while it runs
	// Phase says what a running pass does: assemble, observe, infer, analyse, propose.
	Phase string
	// Result holds the patterns and the blocked paths once they are found.
	Result *observer.Result
	// Dropped are patterns that made no candidate although nothing blocks them in the recorded values.
	Dropped    []DroppedPattern `json:",omitempty"`
	Candidates int
	Report     ProposeReport
	Error      string // of a failed pass
}

// DroppedPattern says why the analyzer makes no flow of a pattern.
type DroppedPattern struct {
	Tools   []string
	Code    analyzer.DroppedCode `json:",omitempty"`
	Reason  string               // a clause
	Unblock string               `json:",omitempty"` // a sentence
}

// NotPaved is the list "why not paved": the blocked paths of the pass, then the patterns that made no candidate. Chains of
// schemas alone are no paths that anybody walked, and what another order of steps paves is paved: both are not in it.
func (r *MiningRun) NotPaved() []observer.Blocked {
	if r.Result == nil {
		return nil
	}
	out := slices.Clone(r.Result.Blocked)
	for _, d := range r.Dropped {
		if d.Code == analyzer.DroppedChain || d.Code == analyzer.DroppedOrder || slices.ContainsFunc(out, func(b observer.Blocked) bool { return slices.Equal(b.Tools, d.Tools) }) {
			continue
		}
		b := observer.Blocked{Tools: d.Tools, Reason: string(cmp.Or(d.Code, analyzer.DroppedNoFlow)), Step: -1, Unblock: d.Unblock,
			Detail: "No flow is made of it: " + d.Reason + "."}
		if i := slices.IndexFunc(r.Result.Patterns, func(p observer.Pattern) bool { return slices.Equal(p.Tools, d.Tools) }); i >= 0 {
			p := &r.Result.Patterns[i]
			b.Occurrences, b.Sessions = p.Occurrences, p.Sessions
		}
		out = append(out, b)
	}
	return out
}

// PatternID names a path in addresses.
func PatternID(tools []string) string {
	sum := sha256.Sum256([]byte(strings.Join(tools, "\x00")))
	return hex.EncodeToString(sum[:8])
}

// Pattern finds a pattern of the pass by its id; nil when there is none.
func (r *MiningRun) Pattern(id string) *observer.Pattern {
	if r.Result == nil {
		return nil
	}
	i := slices.IndexFunc(r.Result.Patterns, func(p observer.Pattern) bool { return PatternID(p.Tools) == id })
	if i < 0 {
		return nil
	}
	return &r.Result.Patterns[i]
}

func miningRun(row store.MiningRow) (*MiningRun, error) {
	run := new(MiningRun)
	if err := decode(row.Body, run); err != nil {
		return nil, err
	}
	run.ID, run.State, run.Started, run.Ended = row.ID, MiningState(row.State), row.Started, row.Ended
	return run, nil
}

// PutMiningRun keeps the state of a pass, given an id when it has none. The first and the last state of a pass
// are audited.
func (s *Service) PutMiningRun(ctx context.Context, actor Actor, run *MiningRun) error {
	return s.update(ctx, actor, ActionPropose, func(c *change) error {
		first := run.ID == ""
		if first {
			run.ID, run.By, run.Started = s.newID(), actor.Principal, c.at
		}
		if run.State != MiningRunning {
			run.Ended = c.at
		}
		body, err := json.Marshal(run)
		if err != nil {
			return fmt.Errorf("encode mining run: %w", err)
		}
		row := store.MiningRow{ID: run.ID, State: string(run.State), Started: run.Started, Ended: run.Ended, Body: body}
		if err := c.Tx.PutMiningRun(c.tenant, row); err != nil {
			return err
		}
		if !first && run.State == MiningRunning {
			return nil
		}
		return c.audit("mining."+string(run.State), "mining-run/"+run.ID, map[string]any{
			"trigger": run.Trigger, "mode": run.Mode, "candidates": run.Candidates, "error": run.Error})
	})
}

// MiningRun reads one pass; id "" is the newest that is done.
func (s *Service) MiningRun(ctx context.Context, actor Actor, id string) (run *MiningRun, err error) {
	err = s.view(ctx, actor, ActionRead, func(r *store.Reader, tenant string, _ Policy) error {
		var row store.MiningRow
		if id == "" {
			row, err = r.LastMiningRun(tenant, string(MiningDone))
			err = notFound(err, "no mining pass is done yet; run pave mine")
		} else {
			row, err = r.MiningRun(tenant, id)
			err = notFound(err, "there is no mining run %q", id)
		}
		if err != nil {
			return err
		}
		run, err = miningRun(row)
		return err
	})
	return run, err
}

// MiningRuns lists passes, newest first, with everything but their patterns.
func (s *Service) MiningRuns(ctx context.Context, actor Actor, limit int, cursor string) (page Page[MiningRun], err error) {
	err = s.view(ctx, actor, ActionRead, func(r *store.Reader, tenant string, _ Policy) error {
		rows, err := r.MiningRuns(tenant, limit, cursor)
		if err != nil {
			return err
		}
		page.Next = rows.Next
		for _, row := range rows.Items {
			run, err := miningRun(row)
			if err != nil {
				return err
			}
			run.Result = nil
			page.Items = append(page.Items, *run)
		}
		return nil
	})
	return page, err
}

// Start is called once when the process opens the state store: it marks mining passes that an earlier process
// left running, frees idempotency keys of requests that ended with it, and judges the open proposals by the policy in
// force, since the solo setting may have changed.
func (s *Service) Start(ctx context.Context, tenant string) error {
	system := Actor{Tenant: tenant, Principal: SystemPrincipal, Scopes: []Scope{ScopeAdmin}}
	return s.update(ctx, system, ActionAdmin, func(c *change) error {
		n, err := c.AbandonMiningRuns(c.tenant, string(MiningRunning), string(MiningInterrupted))
		if err != nil {
			return err
		}
		if n > 0 {
			if err := c.audit("mining.interrupted", "mining-runs", map[string]any{"passes": n}); err != nil {
				return err
			}
		}
		if err := c.DropAnswers(c.at.Add(-answersAge), true); err != nil { // nobody is at work on them any more
			return err
		}
		return c.rejudge(nil)
	})
}
