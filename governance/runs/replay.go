package runs

import (
	"context"
	"fmt"
	"log/slog"

	"pave/executor"
	"pave/flows"
	"pave/governance"
)

// Modes of a replay.
const (
	ReplayVerify = "verify" // every tool is called again, and every outcome compared
	ReplayReuse  = "reuse"  // steps before a step take their outputs from the record
)

// ReplayRequest asks to run a stored run again. FromStep counts with ReplayReuse only. DynamicParams are those that the
// run had: they are not kept.
type ReplayRequest struct {
	Mode          string
	FromStep      int
	DynamicParams map[string]any
}

// Replay runs a stored run again, with the flow version that it ran and the tools as they are registered now, and
// compares redacted with redacted. Nothing is recorded. Tools that are not known to be read-only are refused; arguments
// that were redacted in the record reach the tools redacted.
func (s *Service) Replay(ctx context.Context, actor governance.Actor, id string, req ReplayRequest) (*executor.ReplayReport, error) {
	if err := governance.Permit(actor, governance.ActionRun); err != nil {
		return nil, err
	}
	o := executor.ReplayOptions{DynamicParams: req.DynamicParams, Redact: func(r *executor.RunResult) *executor.RunResult {
		return s.redacted(executor.Redact(r, req.DynamicParams))
	}}
	switch req.Mode {
	case "", ReplayVerify:
	case ReplayReuse:
		o.ReuseBefore = req.FromStep
	default:
		return nil, flows.NewError(flows.CodeInvalid, fmt.Sprintf("mode %q: use %s or %s", req.Mode, ReplayVerify, ReplayReuse))
	}
	run, err := s.Get(ctx, actor, id)
	if err != nil {
		return nil, err
	}
	if run.Result == nil || run.Ended.IsZero() {
		return nil, flows.NewError(flows.CodeConflict, fmt.Sprintf("run %s is %s and has no record to replay", id, run.State))
	}
	if !run.Erased.IsZero() {
		return nil, flows.NewError(flows.CodeConflict, fmt.Sprintf("the values of run %s were deleted with the session that it came from; it cannot be replayed", id))
	}
	versions := map[string]string{}
	calledVersions(run.Result.ExecutionLog, versions)
	compiled, err := s.compiled(ctx, actor, run.Flow, run.Version, versions)
	if err != nil {
		return nil, err
	}
	return s.engine.Replay(ctx, compiled.Plan, run.Result, o)
}

// calledVersions collects the versions of the flows that a run's steps called.
func calledVersions(log []executor.StepRecord, into map[string]string) {
	for i := range log {
		if sub := log[i].SubResult; sub != nil {
			into[sub.FlowName] = sub.FlowVersion
			calledVersions(sub.ExecutionLog, into)
		}
		calledVersions(log[i].Elements, into)
	}
}

// compiled compiles a registered flow version that must be able to start, see compile.
func (s *Service) compiled(ctx context.Context, actor governance.Actor, name, version string, versions map[string]string) (*Compiled, error) {
	v, err := s.catalogue.Flow(ctx, actor, name, version)
	if err != nil {
		return nil, err
	}
	compiled, err := s.compile(ctx, actor, v.Flow, versions)
	if err != nil {
		return nil, err
	}
	if compiled.Plan == nil {
		return nil, executor.CompileError(name, compiled.Diagnostics)
	}
	return compiled, nil
}

// redacted is a result as it is stored.
func (s *Service) redacted(result *executor.RunResult) *executor.RunResult {
	raw, err := executor.EncodeResult(result)
	if err == nil {
		var out *executor.RunResult
		if out, err = executor.DecodeResult(s.redactor.Redact(raw)); err == nil {
			return out
		}
	}
	s.log.Error("redact a run", "flow", result.FlowName, slog.Any("error", err))
	return result
}

// Explain says what a flow version will do, without running it.
func (s *Service) Explain(ctx context.Context, actor governance.Actor, name, version string) (*executor.Explanation, error) {
	compiled, err := s.compiled(ctx, actor, name, version, nil)
	if err != nil {
		return nil, err
	}
	return executor.Explain(compiled.Plan, compiled.Diagnostics), nil
}
