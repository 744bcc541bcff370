package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"pave/api/gen"
	"pave/cmd/pave/internal/output"
	"pave/executor"
)

// maxEventLine bounds one line of a stream, which may hold a whole run.
const maxEventLine = 64 << 20

// stream runs the flow and shows its events as they come: on standard error for people, with -o jsonl as lines. It
// returns the run, which the last event carries.
func (c *runCmd) stream(e *env, cl *client, name string, body gen.RunRequest) (*gen.Run, error) {
	resp, err := cl.RunFlow(e.ctx, name, &gen.RunFlowParams{IdempotencyKey: c.IdempotencyKey, Stream: true, Wait: c.Wait}, body)
	if err != nil {
		return nil, requestError(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode >= http.StatusBadRequest {
		raw, err := io.ReadAll(io.LimitReader(resp.Body, maxInput))
		return nil, errors.Join(problemError(resp.StatusCode, raw), err)
	}
	var run *gen.Run
	out := output.EscapeJSON(e.out)
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxEventLine)
	for lines.Scan() {
		var ev gen.RunEvent
		if err := json.Unmarshal(lines.Bytes(), &ev); err != nil {
			return nil, fmt.Errorf("the server's event: %w", err)
		}
		if ev.Kind == gen.RunEventKindRun {
			run = &ev.Run
		}
		if e.g.Output == output.FormatLines {
			if _, err := fmt.Fprintf(out, "%s\n", lines.Bytes()); err != nil {
				return nil, err
			}
			continue
		}
		showEvent(e.err, &ev)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("the server's events: %w", err)
	}
	if run == nil {
		return nil, errors.New("the stream ended before the run did")
	}
	return run, nil
}

func showEvent(w io.Writer, ev *gen.RunEvent) {
	switch ev.Kind {
	case gen.RunEventKindFlowStart:
		fmt.Fprintf(w, "%s: %d steps\n", output.Clean(ev.FlowName), ev.TotalSteps)
	case gen.RunEventKindStepStart:
		fmt.Fprintf(w, "  %d %s %s\n", *ev.StepIndex, output.Clean(ev.ToolName), output.Clean(output.Short(string(ev.Inputs), 100)))
	case gen.RunEventKindStepEnd:
		var record executor.StepRecord
		if json.Unmarshal(ev.StepRecord, &record) == nil {
			fmt.Fprintf(w, "  %d %s %s, %.1f ms\n", *ev.StepIndex, output.Clean(ev.ToolName), stepResult(&record), record.DurationMS)
		}
	case gen.RunEventKindFlowEnd:
		fmt.Fprintf(w, "%s: %s\n", output.Clean(ev.FlowName), ev.Status)
	case gen.RunEventKindDropped:
		fmt.Fprintf(w, "  (%d events were lost)\n", ev.Count)
	}
}
