package transcript

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"pave/flows"
	"pave/ingest"
	"pave/ingest/rawjson"
)

// tauRun is one run of a tau-bench trajectory file.
type tauRun struct {
	TaskID json.RawMessage   `json:"task_id"`
	Trial  json.RawMessage   `json:"trial"`
	Reward json.RawMessage   `json:"reward"`
	Traj   []json.RawMessage `json:"traj"`
}

// tauBench imports a list of runs {task_id, trial, reward, info, traj: chat messages}. A session is a run of a file,
// "<file>/task<id>/trial<n>". A tool message that begins with "Error" is a failed call: the environment's convention.
func (s *sink) tauBench(in *input) error {
	stem := strings.TrimSuffix(in.name, filepath.Ext(in.name))
	stream := rawjson.NewStream(in.r, rawjson.Array, int(s.opts.Limits.Inflated))
	for index := 0; ; index++ {
		raw, line, err := stream.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		var events []ingest.Event
		if err == nil {
			events, err = tauEvents(stem, raw)
		}
		var broken *rawjson.Error
		if err != nil && !errors.As(err, &broken) && !errors.Is(err, rawjson.ErrRecordTooLarge) && !errors.Is(err, errRun) {
			return err
		}
		if err != nil {
			s.reject(ingest.RecordError{File: in.path, Index: index, Line: line, Code: flows.CodeInvalid, Message: err.Error()})
			continue
		}
		if err := s.add(events...); err != nil {
			return err
		}
	}
}

// errRun marks a run that has not the form of one.
var errRun = errors.New("not a run of a trajectory file")

func tauEvents(stem string, raw []byte) ([]ingest.Event, error) {
	raw = []byte(strings.ToValidUTF8(string(raw), "\uFFFD"))
	if err := rawjson.Valid(raw, rawjson.Limits{Tokens: 10 << 20}); err != nil {
		return nil, err
	}
	var run tauRun
	if err := json.Unmarshal(raw, &run); err != nil {
		return nil, fmt.Errorf("%w: %w", errRun, err)
	}
	if run.TaskID == nil {
		return nil, fmt.Errorf("%w: no task_id", errRun)
	}
	session := stem + "/task" + bare(run.TaskID) + "/trial" + bare(run.Trial)
	metadata := append(append([]byte(`{"task_id":`), run.TaskID...), '}')
	c := chat{
		template: ingest.Event{Origin: "session:" + session, SessionID: session, Source: "file/tau-bench", OriginKind: ingest.OriginAgent, Metadata: metadata},
		failed:   func(text string) bool { return strings.HasPrefix(text, "Error") },
	}
	for i, raw := range run.Traj {
		var m message
		if err := json.Unmarshal(raw, &m); err != nil {
			return nil, fmt.Errorf("%w: message %d: %w", errRun, i, err)
		}
		c.add(&m)
	}
	for i := range c.events {
		if call := c.events[i].Call; call != nil && call.Tool == "" {
			return nil, fmt.Errorf("%w: a tool call has no name", errRun)
		}
	}
	return c.events, nil
}

// bare is the text of a number or string.
func bare(raw json.RawMessage) string {
	if rawjson.Kind(raw) == '"' {
		return rawjson.Text(raw)
	}
	return string(raw)
}
