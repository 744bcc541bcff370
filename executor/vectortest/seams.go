package vectortest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"pave/executor"
)

// seams sets the callbacks that a vector configures: decisions, approvals, guardrails, the step cache.
func (v *Vector) seams(opts *executor.Options, now func() time.Time) error {
	var config struct {
		Cache    bool `json:"step_cache"`
		Approval *approver
		Decision *struct {
			decider
			Policy struct {
				Timeout   float64 `json:"timeout_s"`
				Max       int     `json:"max_decisions_per_flow"`
				OnTimeout string  `json:"on_timeout"`
			}
		}
		Guardrail *guardrail
	}
	data, err := json.Marshal(v.Executor)
	if err == nil {
		err = json.Unmarshal(data, &config)
	}
	if err != nil {
		return fmt.Errorf("executor: %w", err)
	}
	if config.Cache {
		opts.Cache = executor.NewMemoryCache(executor.CacheLimits{}, now)
	}
	if config.Approval != nil {
		opts.Approver = config.Approval
	}
	if d := config.Decision; d != nil {
		opts.Decider = &d.decider
		opts.Decisions = executor.DecisionPolicy{Timeout: time.Duration(d.Policy.Timeout * float64(time.Second)), MaxPerFlow: d.Policy.Max, OnTimeout: d.Policy.OnTimeout}
	}
	if config.Guardrail != nil {
		opts.Guardrail = config.Guardrail
	}
	return nil
}

// approver answers as its mode says: approve, deny, raise, or anything else, which no approver may answer.
type approver struct{ Mode string }

func (a *approver) Approve(context.Context, executor.ApprovalRequest) (executor.ApprovalDecision, error) {
	if a.Mode == "raise" {
		return executor.ApprovalDecision{}, &executor.ToolError{Type: "RuntimeError", Message: "approver down"}
	}
	return executor.ApprovalDecision{Decision: a.Mode}, nil
}

// decider chooses a fixed tool, raises, or takes longer than anybody waits.
type decider struct {
	Mode   string
	Choose string
	Millis int64 `json:"ms"`
}

func (d *decider) Decide(ctx context.Context, _ executor.DecisionRequest) (string, error) {
	switch d.Mode {
	case "raise":
		return "", &executor.ToolError{Type: "RuntimeError", Message: "router down"}
	case "slow":
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(time.Duration(d.Millis) * time.Millisecond):
		}
	}
	return d.Choose, nil
}

// guardrail blocks the calls of some tools.
type guardrail struct {
	BlockTools []string `json:"block_tools"`
}

func (g *guardrail) Check(_ context.Context, c executor.GuardrailCall) error {
	if c.Stage == executor.GuardrailInput && slices.Contains(g.BlockTools, c.ToolName) {
		return &executor.ToolError{Type: "ValueError", Message: "tool is blocked"}
	}
	return nil
}
