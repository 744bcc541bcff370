package runs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"pave/executor"
	"pave/flows"
	"pave/flows/value"
	"pave/governance"
	"pave/governance/store"
)

// DefaultApprovalExpiry is how long a run waits for an approval.
const DefaultApprovalExpiry = 24 * time.Hour

// fallbackStep marks the approval of a step's fallback tool.
const fallbackStep = ".fallback"

// Approval is a call of a run that waits for a person, or was decided by one. Inputs are the call's arguments, redacted.
type Approval struct {
	Step        string // place in the run: "1", of an element "1:0", in a called flow "1/0", of a fallback "1.fallback"
	Decision    string // executor.Pending, Approve or Deny
	ToolName    string
	FlowName    string
	StepID      string
	SideEffects flows.SideEffects
	Why         string // the tool's approval reason
	Inputs      map[string]any
	RequestedAt time.Time
	ExpiresAt   time.Time
	DecidedAt   time.Time // zero while it is pending
	DecidedBy   string
	Reason      string // of the decision
}

// systemPrincipal decides what nobody decided in time.
const systemPrincipal = "system:pave"

func stepOf(a executor.ApprovalRequest) string {
	if a.Fallback {
		return a.Path + fallbackStep
	}
	return a.Path
}

// approver answers the engine with what has been decided for exactly these arguments.
type approver struct{ s *Service }

var _ executor.Approver = approver{}

// Approve implements executor.Approver.
func (a approver) Approve(ctx context.Context, req executor.ApprovalRequest) (executor.ApprovalDecision, error) {
	l := liveOf(ctx)
	if l == nil || l.run.ID != req.RunID {
		return executor.ApprovalDecision{Decision: executor.Deny, Reason: "a flow that map_list or filter_list calls cannot wait for an approval; call it from a step with for_each, which can"}, nil
	}
	var row store.ApprovalRow
	err := a.s.db.View(ctx, func(r *store.Reader) (err error) {
		row, err = r.Approval(l.tenant, req.RunID, stepOf(req))
		return err
	})
	switch {
	case errors.Is(err, store.ErrNotFound):
		return executor.ApprovalDecision{Decision: executor.Pending}, nil
	case err != nil:
		return executor.ApprovalDecision{}, fmt.Errorf("read the approval: %w", err)
	case row.Decision != executor.Deny && !bytes.Equal(row.InputsMAC, a.s.inputsMAC(req)): // it was given for other arguments
		return executor.ApprovalDecision{Decision: executor.Pending}, nil
	}
	return executor.ApprovalDecision{Decision: row.Decision, Reason: row.Reason}, nil
}

func (s *Service) inputsMAC(req executor.ApprovalRequest) []byte {
	return s.vault.mac(value.Canonical(map[string]any{"run": req.RunID, "step": stepOf(req), "tool": req.ToolName, "inputs": req.Inputs}))
}

// asked is the row of an approval that a run waits for now.
func (s *Service) asked(l *live, req executor.ApprovalRequest) (store.ApprovalRow, error) {
	row := store.ApprovalRow{RunID: req.RunID, Step: stepOf(req), Decision: executor.Pending, InputsMAC: s.inputsMAC(req),
		RequestedAt: s.now().UTC(), ExpiresAt: s.now().Add(s.approvalExpiry).UTC()}
	shown, err := s.redactParts(l.params, executor.StepRecord{Inputs: req.Inputs})
	if err != nil {
		return row, err
	}
	req.Inputs = shown.Inputs
	row.Body, err = json.Marshal(req)
	return row, err
}

// putAsked stores what a run waits for. What it has been waiting for keeps its time.
func putAsked(tx *store.Tx, tenant string, rows []store.ApprovalRow) error {
	for _, row := range rows {
		old, err := tx.Approval(tenant, row.RunID, row.Step)
		if err == nil && old.Decision == executor.Pending && bytes.Equal(old.InputsMAC, row.InputsMAC) {
			continue
		}
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if err := tx.PutApproval(tenant, row); err != nil {
			return err
		}
	}
	return nil
}

func approvalOf(row store.ApprovalRow) (Approval, error) {
	var req executor.ApprovalRequest
	d := json.NewDecoder(bytes.NewReader(row.Body))
	d.UseNumber()
	if err := d.Decode(&req); err != nil {
		return Approval{}, fmt.Errorf("stored approval of run %s: %w", row.RunID, err)
	}
	return Approval{Step: row.Step, Decision: row.Decision, ToolName: req.ToolName, FlowName: req.FlowName, StepID: req.StepID, SideEffects: req.SideEffects,
		Why: req.Reason, Inputs: req.Inputs, RequestedAt: row.RequestedAt, ExpiresAt: row.ExpiresAt, DecidedAt: row.DecidedAt, DecidedBy: row.DecidedBy,
		Reason: row.Reason}, nil
}

func approvalsIn(r *store.Reader, tenant, runID string) ([]Approval, error) {
	rows, err := r.Approvals(tenant, runID)
	if err != nil {
		return nil, err
	}
	out := make([]Approval, len(rows))
	for i, row := range rows {
		if out[i], err = approvalOf(row); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// DecisionRequest decides one call of a run that waits. Step "" is the only one that is pending. IfRevision is the
// run's revision that was read.
type DecisionRequest struct {
	Step       string
	Decision   string // executor.Approve or Deny
	Reason     string
	IfRevision int64
	// Wait is how long to wait for the run to end, or to wait again, before it is answered as it stands.
	Wait time.Duration
}

func (d *DecisionRequest) check() error {
	if d.Decision != executor.Approve && d.Decision != executor.Deny {
		return flows.NewError(flows.CodeInvalid, fmt.Sprintf("decision %q: use %s or %s", d.Decision, executor.Approve, executor.Deny),
			flows.ErrorDetail{Pointer: "/decision", Code: "invalid", Detail: "approve or deny"})
	}
	return nil
}

// Decide records a decision on a call and, when none is pending any more or one was denied, lets the run go on. Whoever
// started a run does not approve its calls, except in solo mode. The decision is durable before the run goes on.
func (s *Service) Decide(ctx context.Context, actor governance.Actor, id string, req DecisionRequest) (*Run, error) {
	if err := governance.Permit(actor, governance.ActionApprove); err != nil {
		return nil, err
	}
	if err := req.check(); err != nil {
		return nil, err
	}
	policy, _, err := s.gate.Policy(ctx, s.system(tenant(actor)))
	if err != nil {
		return nil, err
	}
	var row store.RunRow
	goesOn := false
	err = s.change(ctx, func(tx *store.Tx) error {
		goesOn = false
		if row, err = runIn(&tx.Reader, tenant(actor), id); err != nil {
			return err
		}
		if row.State != executor.StatusAwaitingApproval {
			return flows.NewError(flows.CodeConflict, fmt.Sprintf("run %s is %s and waits for no approval", id, row.State))
		}
		if err := sameRevision(row, req.IfRevision); err != nil {
			return err
		}
		if row.Caller == actor.Principal && !policy.Solo && req.Decision == executor.Approve {
			return flows.NewError(flows.CodeFourEyes, fmt.Sprintf("%s started this run and may not approve its calls; another principal must (or set solo mode)", actor.Principal))
		}
		goesOn, err = s.decide(tx, actor, &row, req)
		return err
	})
	if err != nil {
		return nil, err
	}
	if goesOn {
		if _, err := s.await(ctx, s.goOn(tenant(actor), row), req.Wait); err != nil {
			return nil, err
		}
	}
	return s.read(context.WithoutCancel(ctx), tenant(actor), id) // redacted: whoever decides is not the run's caller
}

// decide stores a decision; true when the run was claimed to go on.
func (s *Service) decide(tx *store.Tx, by governance.Actor, row *store.RunRow, req DecisionRequest) (goesOn bool, err error) {
	all, err := tx.Approvals(tenant(by), row.ID)
	if err != nil {
		return false, err
	}
	pending := slices.DeleteFunc(all, func(a store.ApprovalRow) bool { return a.Decision != executor.Pending })
	at := slices.IndexFunc(pending, func(a store.ApprovalRow) bool {
		return a.Step == req.Step || req.Step == "" && len(pending) == 1
	})
	if at < 0 {
		steps := make([]string, len(pending))
		for i := range pending {
			steps[i] = pending[i].Step
		}
		return false, flows.NewError(flows.CodeInvalid, fmt.Sprintf("step %q waits for no approval; pending: %s", req.Step, strings.Join(steps, ", ")),
			flows.ErrorDetail{Pointer: "/step", Code: "invalid", Detail: "name a step that is pending"})
	}
	decided := pending[at]
	if by.Principal != systemPrincipal && !s.now().Before(decided.ExpiresAt) {
		return false, flows.NewError(flows.CodeConflict, fmt.Sprintf("the time to decide step %s of run %s has passed", decided.Step, row.ID))
	}
	decided.Decision, decided.DecidedAt, decided.DecidedBy, decided.Reason = req.Decision, s.now().UTC(), by.Principal, req.Reason
	if err := tx.PutApproval(tenant(by), decided); err != nil {
		return false, err
	}
	if err := s.audit(tx, by, "run."+req.Decision, row.ID, map[string]any{"step": decided.Step, "reason": req.Reason}); err != nil {
		return false, err
	}
	if len(pending) == 1 || req.Decision == executor.Deny {
		row.State, goesOn = StateRunning, true
	}
	return goesOn, s.put(tx, tenant(by), row)
}

// ExpireApprovals denies what nobody decided in time; the runs end, or are handed back, as after any denial. It also
// drops checkpoints of ended runs that were kept until now.
func (s *Service) ExpireApprovals(ctx context.Context, tenant string) error {
	var claimed []store.RunRow
	err := s.change(ctx, func(tx *store.Tx) error {
		claimed = nil
		now := s.now()
		if err := tx.DropCheckpoints(now); err != nil {
			return err
		}
		expired, err := tx.ExpiredApprovals(tenant, now, exportBatch)
		if err != nil {
			return err
		}
		for _, a := range expired {
			row, err := runIn(&tx.Reader, tenant, a.RunID)
			if err != nil {
				return err
			}
			if row.State != executor.StatusAwaitingApproval { // another expired with it, and the run goes on
				continue
			}
			goesOn, err := s.decide(tx, s.system(tenant), &row, DecisionRequest{Step: a.Step, Decision: executor.Deny,
				Reason: "nobody decided until " + a.ExpiresAt.Format(time.RFC3339)})
			if err != nil {
				return err
			}
			if goesOn {
				claimed = append(claimed, row)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, row := range claimed {
		s.goOn(tenant, row)
	}
	return nil
}
