package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"pave/api/gen"
	"pave/cmd/pave/internal/output"
)

// passes lists mining passes, the newest first.
func passes(e *env, cl *client) error {
	resp, err := check(cl.ListMiningRunsWithResponse(e.ctx, nil))
	if err != nil {
		return err
	}
	return e.print(resp.GetBody(), func(w io.Writer) error {
		t := output.NewTable(w, "PASS", "STATUS", "STARTED", "BY", "MODE", "CANDIDATES")
		t.Otherwise("no pass; pave mine makes one")
		for _, m := range resp.JSON200.Items {
			t.Row(m.ID, string(m.Status), when(m.StartedAt), m.StartedBy, dash(string(m.Mode)), fmt.Sprint(m.Candidates))
		}
		return t.Flush()
	})
}

// follow shows the events of a pass until it ends; with -o jsonl as lines.
func (c *mineCmd) follow(e *env, cl *client) error {
	resp, err := cl.StreamMiningRunEvents(e.ctx, c.Follow, nil)
	if err != nil {
		return requestError(err)
	}
	defer func() { _ = resp.Body.Close() }()
	return eachEvent(resp, func(data string) error {
		if e.g.Output == output.FormatLines {
			_, err := fmt.Fprintln(output.EscapeJSON(e.out), data)
			return err
		}
		var ev gen.MiningEvent
		if err := json.Unmarshal([]byte(data), &ev); err != nil {
			return fmt.Errorf("the server's event: %w", err)
		}
		switch ev.Kind {
		case gen.MiningEventKindPhase:
			fmt.Fprintln(e.err, output.Clean(ev.Phase))
		case gen.MiningEventKindProgress:
			fmt.Fprintf(e.err, "  %s: %d of %d\n", output.Clean(ev.Stage), ev.Done, ev.Total)
		case gen.MiningEventKindMiningRun:
			return e.printValue(ev.MiningRun, func(w io.Writer) error { return mineTable(w, ev.MiningRun) })
		}
		return nil
	})
}

// eachEvent calls fn with the data of each server-sent event.
func eachEvent(resp *http.Response, fn func(data string) error) error {
	if resp.StatusCode >= http.StatusBadRequest {
		raw, err := io.ReadAll(io.LimitReader(resp.Body, maxInput))
		return errors.Join(problemError(resp.StatusCode, raw), err)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxEventLine)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		if err := fn(data); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("the server's events: %w", err)
	}
	return nil
}
