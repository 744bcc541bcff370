package executor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"pave/flows"
)

// CheckpointVersion is the version of checkpoints; those of another major version cannot be resumed.
const CheckpointVersion = "1"

// Checkpointer keeps the last checkpoint of each run. A checkpoint holds true values: encrypt it, keep it where it is
// made, and let nobody read it but the engine. Save replaces the run's earlier checkpoint; it must not keep or change
// what the checkpoint points to. Implementations are safe for concurrent use.
type Checkpointer interface {
	Save(ctx context.Context, c *Checkpoint) error
	// Load returns nil when the run has no checkpoint.
	Load(ctx context.Context, runID string) (*Checkpoint, error)
	Delete(ctx context.Context, runID string) error
}

// Checkpoint is where a run can go on: after a step of a linear flow, after a level of a DAG, or before or within a
// level whose steps wait for approvals. Dynamic params are not in it, neither their keys of the context nor their
// values in the log.
type Checkpoint struct {
	SnapshotVersion   string                  `json:"snapshot_version"`
	RunID             string                  `json:"run_id"`
	TraceID           string                  `json:"trace_id"`
	FlowName          string                  `json:"flow_name"`
	FlowVersion       string                  `json:"flow_version"`
	FlowDigests       map[string]string       `json:"flow_digests"` // of the flow and those that it calls, by name@version
	ToolSchemaHashes  map[string]string       `json:"tool_schema_hashes"`
	InitialInput      map[string]any          `json:"initial_input"`
	StartedAt         time.Time               `json:"started_at"`
	DryRun            bool                    `json:"dry_run"`
	DryRunUnsupported string                  `json:"dry_run_unsupported"`
	Context           map[string]any          `json:"context"`
	ContextSize       int                     `json:"context_size"`
	DynamicKeys       []string                `json:"dynamic_keys"` // keys of the context that are asked for again
	ExecutionLog      []StepRecord            `json:"execution_log"`
	CompletedSteps    int                     `json:"completed_steps"`
	CompletedLevels   int                     `json:"completed_levels"`
	RuledOut          []int                   `json:"ruled_out"` // by branches: positions in order of execution
	Decided           int                     `json:"decided"`
	Level             map[int]*StepCheckpoint `json:"level,omitempty"` // of the level that waits, by position
}

// StepCheckpoint is how far a step of a level that waits has come: done (or failed) with its Record, or waiting within
// the flow that it calls, or within its elements.
type StepCheckpoint struct {
	Done     bool                    `json:"done"`
	Skips    bool                    `json:"skips,omitempty"` // an element whose failure on_error: skip covers
	Record   *StepRecord             `json:"record"`
	Flow     *Checkpoint             `json:"flow,omitempty"`
	Elements map[int]*StepCheckpoint `json:"elements,omitempty"`
}

// checkpoint is the run as it stands after some levels.
func (r *run) checkpoint(levels int) *Checkpoint {
	steps := 0
	if levels > 0 {
		steps = r.plan.levels[levels-1].to
	}
	c := &Checkpoint{SnapshotVersion: CheckpointVersion, RunID: r.runID, TraceID: r.result.TraceID, FlowName: r.plan.flow.Name, FlowVersion: r.plan.flow.Version,
		FlowDigests: r.plan.digests, ToolSchemaHashes: r.plan.hashes, InitialInput: r.result.InitialInput, StartedAt: r.result.StartedAt,
		DryRun: r.in.DryRun, DryRunUnsupported: r.in.DryRunUnsupported, Context: maps.Clone(r.vars.values), ContextSize: r.vars.size,
		ExecutionLog: r.result.ExecutionLog[:steps:steps], CompletedSteps: steps, CompletedLevels: levels, Decided: r.decided}
	for i, out := range r.skipped {
		if out {
			c.RuledOut = append(c.RuledOut, i)
		}
	}
	if len(r.dynamic) > 0 {
		for key := range r.dynamic {
			if r.vars.dynamic(key) {
				delete(c.Context, key)
				c.DynamicKeys = append(c.DynamicKeys, key)
			}
		}
		slices.Sort(c.DynamicKeys)
		c.ExecutionLog = newSecrets(r.dynamic).records(c.ExecutionLog)
	}
	return c
}

// save makes the run's state after a level durable, where checkpoints are kept. A flow that a step calls is part of
// its caller's checkpoint.
func (r *run) save(c *Checkpoint) {
	if !r.checkpointed() {
		return
	}
	if err := r.e.checkpoints.Save(context.WithoutCancel(r.ctx), c); err != nil {
		r.e.logger.Error("checkpoint not saved", logFlow, r.plan.flow.Name, logRun, r.runID, "error", err)
	}
}

func (r *run) checkpointed() bool {
	return r.e.checkpoints != nil && r.path == "" && !r.in.DryRun && r.replay == nil
}

// forget deletes the checkpoint of a run that has ended.
func (r *run) forget() {
	waits := r.result.Status == StatusAwaitingApproval
	kept := r.e.keepCheckpoints && (r.result.Status == StatusFailed || r.result.Status == StatusCancelled)
	if waits || kept || !r.checkpointed() {
		return
	}
	if err := r.e.checkpoints.Delete(context.WithoutCancel(r.ctx), r.runID); err != nil {
		r.e.logger.Error("checkpoint not deleted", logFlow, r.plan.flow.Name, logRun, r.runID, "error", err)
	}
}

// suspend ends the run's goroutine, not the run: a step of the level waits for an approval. Steps beside it that have
// ended keep their outcome.
func (r *run) suspend(level int, visits []visit) {
	r.result.ExecutionLog = r.result.ExecutionLog[:r.plan.levels[level].from]
	c := r.checkpoint(level)
	for i := range visits {
		v := &visits[i]
		r.awaiting = append(r.awaiting, v.awaiting...)
		for k := range v.elements {
			r.awaiting = append(r.awaiting, v.elements[k].awaiting...)
		}
		if s := v.state(); s != nil {
			if c.Level == nil {
				c.Level = map[int]*StepCheckpoint{}
			}
			c.Level[v.sp.index] = s
		}
	}
	r.result.Status, r.result.Awaiting, r.result.Checkpoint = StatusAwaitingApproval, r.awaiting, c
	r.save(c)
}

// state is how far the step has come, nil when it has not started.
func (v *visit) state() *StepCheckpoint {
	if !v.ran {
		return nil
	}
	rec := *v.rec
	s := &StepCheckpoint{Record: &rec, Flow: v.inner, Skips: v.skips}
	if v.f == nil || !v.f.pending {
		s.Done = true
		rec.Success = v.f == nil
		rec.StartedAt, rec.EndedAt = stamp(v.started), stamp(v.finished)
		if v.f != nil {
			v.fail(&rec)
		} else if !rec.Skipped {
			rec.Outputs = v.outputs
		}
		return s
	}
	for i := range v.elements {
		if e := v.elements[i].state(); e != nil {
			if s.Elements == nil {
				s.Elements = map[int]*StepCheckpoint{}
			}
			s.Elements[i] = e
		}
	}
	return s
}

// restoreStep puts a visit where its checkpoint was taken.
func (v *visit) restoreStep(s *StepCheckpoint) {
	if s == nil {
		return
	}
	if !s.Done {
		v.special().partial = s
		v.rec.RetryCount, v.rec.RetryErrors = s.Record.RetryCount, s.Record.RetryErrors
		v.sent = s.Record.RetryCount > 0 || s.Flow != nil // else it waited before its first call
		return
	}
	*v.rec = *s.Record
	v.sent = !s.Record.NotSent
	v.restored, v.ended, v.ran, v.skips = true, true, true, s.Skips
	v.started, v.finished = s.Record.StartedAt, s.Record.EndedAt
	v.name, v.tool = s.Record.ToolName, v.sp.primary
	if v.rec.Decision != nil {
		v.tool = v.sp.candidates[v.name]
	}
	v.outputs = s.Record.Outputs
	if _, size, err := snapshotObject(v.outputs); err == nil {
		v.size = size
	}
	if !s.Record.Success {
		v.f = failureOf(s.Record)
	}
}

// failureOf is the failure that a record tells of.
func failureOf(rec *StepRecord) *failure {
	f := &failure{class: ClassOther}
	if rec.ErrorCode != nil {
		f.cw.Code = *rec.ErrorCode
	}
	if rec.ErrorType != nil {
		f.cw.Class = *rec.ErrorType
	}
	if rec.ErrorMessage != nil {
		f.message, f.raw = *rec.ErrorMessage, *rec.ErrorMessage
	}
	return f
}

// Resume continues a run from its checkpoint with the plan that it was made with: the same flow version, the same tool
// schemas. What has run is not run again. in gives what a checkpoint does not hold: the dynamic params, the listener, the
// cache scope; its other fields do not count. total_duration_ms covers the resumed part. Errors are *flows.Error: they
// wrap flows.CWCheckpointVersion or CWCheckpointDrift, or say which dynamic param is missing.
func (e *Engine) Resume(ctx context.Context, plan *Plan, c *Checkpoint, in RunInput) (*RunResult, error) {
	if err := plan.fits(c); err != nil {
		return nil, err
	}
	for _, key := range c.DynamicKeys {
		if _, given := in.DynamicParams[key]; !given {
			return nil, flows.NewError(flows.CodeInvalid, fmt.Sprintf("dynamic param '%s' is not kept with the run; give it again", key))
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, e.limits.MaxRunTime, errRunTime)
	defer cancel()
	in = RunInput{RunID: c.RunID, TraceID: c.TraceID, DryRun: c.DryRun, DryRunUnsupported: c.DryRunUnsupported, DynamicParams: in.DynamicParams,
		CacheScope: in.CacheScope, OnEvent: redactEvents(in.OnEvent, in.DynamicParams), Input: c.InitialInput}
	r := e.newRun(ctx, plan, in)
	r.from = c
	r.start()
	return r.result, nil
}

// ResumeRun is Resume from the checkpoint that the engine's Checkpointer keeps; it also reports
// flows.CWCheckpointNotConfigured and CWCheckpointNotFound.
func (e *Engine) ResumeRun(ctx context.Context, plan *Plan, runID string, in RunInput) (*RunResult, error) {
	if e.checkpoints == nil {
		return nil, &flows.Error{Code: flows.CodeConflict, Message: "no checkpoints are kept here; configure a checkpointer to resume runs", Err: flows.CWCheckpointNotConfigured}
	}
	c, err := e.checkpoints.Load(ctx, runID)
	if err != nil {
		return nil, fmt.Errorf("load checkpoint of run %s: %w", runID, err)
	}
	if c == nil {
		return nil, &flows.Error{Code: flows.CodeNotFound, Message: fmt.Sprintf("run '%s' has no checkpoint: it has ended, or never started", runID), Err: flows.CWCheckpointNotFound}
	}
	return e.Resume(ctx, plan, c, in)
}

// fits checks that a checkpoint was made with this plan.
func (p *Plan) fits(c *Checkpoint) error {
	if major, _, _ := strings.Cut(c.SnapshotVersion, "."); major != CheckpointVersion {
		return &flows.Error{Code: flows.CodeConflict, Message: fmt.Sprintf("the checkpoint has version '%s', this engine resumes version %s", c.SnapshotVersion, CheckpointVersion), Err: flows.CWCheckpointVersion}
	}
	var changed []string
	for _, set := range []struct {
		what      string
		then, now map[string]string
	}{{"flow", c.FlowDigests, p.digests}, {"tool", c.ToolSchemaHashes, p.hashes}} {
		for _, name := range slices.Sorted(maps.Keys(set.then)) {
			if now, ok := set.now[name]; !ok {
				changed = append(changed, fmt.Sprintf("%s '%s' is gone", set.what, name))
			} else if now != set.then[name] {
				changed = append(changed, fmt.Sprintf("%s '%s' has changed", set.what, name))
			}
		}
	}
	if name := p.flow.Name + "@" + p.flow.Version; c.FlowName+"@"+c.FlowVersion != name || c.FlowDigests[name] == "" {
		changed = append(changed, fmt.Sprintf("the run is one of '%s@%s', not '%s'", c.FlowName, c.FlowVersion, name))
	}
	if changed == nil {
		return nil
	}
	return &flows.Error{Code: flows.CodeConflict, Message: "the run cannot go on, since its checkpoint: " + strings.Join(changed, "; "), Err: flows.CWCheckpointDrift}
}

// holds reports whether what a checkpoint says of levels and steps is possible with the plan: a damaged one is not
// resumed.
func (p *Plan) holds(c *Checkpoint) bool {
	if c == nil || c.CompletedLevels < 0 || c.CompletedLevels > len(p.levels) {
		return false
	}
	steps := 0
	if c.CompletedLevels > 0 {
		steps = p.levels[c.CompletedLevels-1].to
	}
	if c.CompletedSteps != steps || len(c.ExecutionLog) != steps {
		return false
	}
	for _, i := range c.RuledOut {
		if i < 0 || i >= len(p.steps) {
			return false
		}
	}
	for i, s := range c.Level {
		if i < 0 || i >= len(p.steps) || !p.steps[i].holds(s) {
			return false
		}
	}
	return true
}

func (sp *stepPlan) holds(s *StepCheckpoint) bool {
	if s == nil || s.Record == nil || s.Record.RetryCount < 0 || s.Flow != nil && (sp.sub == nil || sp.sub.plan == nil || !sp.sub.plan.holds(s.Flow)) {
		return false
	}
	for _, e := range s.Elements {
		if !sp.holds(e) {
			return false
		}
	}
	return true
}

// restore sets a run up as its checkpoint says, in place of begin.
func (r *run) restore(c *Checkpoint) bool {
	params, _, err := snapshotObject(r.dynamic)
	if err != nil || !r.plan.holds(c) {
		return r.endWith(StatusFailed, -1, c.InitialInput, &failure{cw: flows.CWCheckpointDrift, message: errors.Join(err, errors.New("the checkpoint does not fit the flow")).Error()})
	}
	r.dynamic = params
	r.result.StartedAt = c.StartedAt
	r.result.ExecutionLog = append(r.result.ExecutionLog, c.ExecutionLog...)
	r.vars = vars{values: maps.Clone(c.Context), size: c.ContextSize}
	if r.vars.values == nil {
		r.vars.values = map[string]any{}
	}
	for _, key := range c.DynamicKeys {
		r.vars.put(key, params[key])
	}
	for _, i := range c.RuledOut {
		if r.skipped == nil {
			r.skipped = make([]bool, len(r.plan.steps))
		}
		r.skipped[i] = true
	}
	r.decided, r.next = c.Decided, c.CompletedLevels
	for i := range c.ExecutionLog {
		r.count(&c.ExecutionLog[i])
	}
	return true
}
