package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"pave/executor"
	"pave/flows"
	"pave/flows/value"
	"pave/ingest"
)

// watcher stands between the engine and the tools and notes every call that reaches one, attempts and fallbacks
// included, in the log of the run that the context belongs to.
type watcher struct {
	next executor.Invoker
	now  func() time.Time
}

var (
	_ executor.PromptInvoker = (*watcher)(nil)
	_ executor.Previewer     = (*watcher)(nil)
)

// callLog collects the calls of one run. Calls that end after close are abandoned ones, whose results count
// nowhere.
type callLog struct {
	mu     sync.Mutex
	calls  []call
	closed bool
}

type call struct {
	tool     string
	info     executor.CallInfo
	args     json.RawMessage
	result   json.RawMessage
	err      error
	start    time.Time
	duration time.Duration
}

func (l *callLog) close() []call {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	return l.calls
}

// Invoke implements executor.Invoker.
func (w *watcher) Invoke(ctx context.Context, tool *flows.Tool, input map[string]any, info executor.CallInfo) (any, error) {
	l := liveOf(ctx)
	if l == nil {
		return w.next.Invoke(ctx, tool, input, info)
	}
	log := l.log
	c := call{tool: tool.Name, info: info, args: value.Encode(input), start: w.now()}
	out, err := w.next.Invoke(ctx, tool, input, info)
	c.duration, c.err = w.now().Sub(c.start), err
	if err == nil {
		// What a tool returns is encoded here, before anyone else holds it; a value that is no JSON fails its
		// step in the engine and is recorded without a result.
		if raw, encErr := json.Marshal(out); encErr == nil {
			c.result = raw
		}
	}
	log.mu.Lock()
	defer log.mu.Unlock()
	if !log.closed {
		log.calls = append(log.calls, c)
	}
	return out, err
}

// Prompt implements executor.PromptInvoker by what the watched invoker says.
func (w *watcher) Prompt(tool *flows.Tool) bool {
	p, ok := w.next.(executor.PromptInvoker)
	return ok && p.Prompt(tool)
}

// Previews implements executor.Previewer by what the watched invoker says.
func (w *watcher) Previews(tool *flows.Tool) bool {
	p, ok := w.next.(executor.Previewer)
	return ok && p.Previews(tool)
}

// Preview implements executor.Previewer. A preview has no effect, and is no call to record.
func (w *watcher) Preview(ctx context.Context, tool *flows.Tool, input map[string]any, info executor.CallInfo) (any, error) {
	p, ok := w.next.(executor.Previewer)
	if !ok {
		return nil, &executor.ToolError{Class: executor.ClassOther, Code: string(flows.CodeUnbound), Message: fmt.Sprintf("tool '%s' has no preview", tool.Name)}
	}
	return p.Preview(ctx, tool, input, info)
}

// hide takes the dynamic params of a run out of its calls.
func (s *Service) hide(calls []call, params map[string]any) error {
	if len(params) == 0 {
		return nil
	}
	for i := range calls {
		c := &calls[i]
		parts := executor.StepRecord{Inputs: map[string]any{}, Outputs: map[string]any{}}
		for raw, into := range map[*json.RawMessage]map[string]any{&c.args: parts.Inputs, &c.result: parts.Outputs} {
			if *raw == nil {
				continue
			}
			v, err := value.Decode(*raw)
			if err != nil {
				return fmt.Errorf("call of %s: %w", c.tool, err)
			}
			into["v"] = v
		}
		if c.err != nil {
			text := c.err.Error()
			parts.ErrorMessage = &text
		}
		hidden := executor.Redact(&executor.RunResult{ExecutionLog: []executor.StepRecord{parts}}, params).ExecutionLog[0]
		if c.args != nil {
			c.args = value.Encode(hidden.Inputs["v"])
		}
		if c.result != nil {
			c.result = value.Encode(hidden.Outputs["v"])
		}
		if hidden.ErrorMessage != nil {
			c.err = errors.New(*hidden.ErrorMessage)
		}
	}
	return nil
}

// agentName is the agent under which executed steps are recorded.
const agentName = "pave"

// events are the calls of a run as observed tool calls of a session of their own, in the order in which they ended.
func events(run *Run, calls []call) []ingest.Event {
	session := sessionPrefix + run.ID
	meta, err := json.Marshal(map[string]string{"flow": run.Flow, "version": run.Version})
	if err != nil {
		panic(fmt.Sprintf("encode strings: %v", err))
	}
	out := make([]ingest.Event, len(calls))
	for i, c := range calls {
		tc := &ingest.ToolCall{Tool: c.tool, CallID: fmt.Sprintf("%s.%d", c.info.Path, c.info.Attempt), Args: c.args, Result: c.result,
			Status: ingest.StatusOK}
		if c.info.Fallback {
			tc.CallID += ".fallback"
		}
		if c.err != nil {
			tc.Status, tc.Error = ingest.StatusError, c.err.Error()
		}
		out[i] = ingest.Event{Kind: ingest.KindToolCall, Origin: "session:" + session, SessionID: session, RunID: run.ID, Agent: agentName,
			Source: "pave/run", OriginKind: ingest.OriginFlow, Seq: int64(run.calls + i), HasSeq: true, Start: c.start, Duration: c.duration,
			Metadata: meta, Call: tc}
	}
	return out
}
