package transcript

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"pave/flows"
	"pave/ingest"
	"pave/ingest/rawjson"
)

// tauBench imports a list of runs {task_id, trial, reward, info, traj: chat messages}. A session is a run of a file,
// "<file>/task<id>/trial<n>". A tool message that begins with "Error" is a failed call: the environment's convention.
func (s *sink) tauBench(in *input) error {
	return s.documents(in, rawjson.Array, func(raw []byte, _, _ int) error {
		task := rawjson.Get(raw, "task_id")
		if task == nil {
			return fmt.Errorf("%w: no task_id", errRun)
		}
		d := s.session(in, stem(in)+"/task"+bare(task)+"/trial"+bare(rawjson.Get(raw, "trial")), "file/tau-bench")
		d.template.Metadata = append(append([]byte(`{"task_id":`), task...), '}')
		d.failed = func(text string) bool { return strings.HasPrefix(text, "Error") }
		traj := rawjson.Get(raw, "traj")
		if rawjson.Kind(traj) != '[' {
			return fmt.Errorf("%w: no list of messages in traj", errRun)
		}
		if err := d.messages(traj); err != nil {
			return err
		}
		return d.finish()
	})
}

// tau2Bench imports {tasks, simulations: [{id, task_id, trial, messages}]}. A session is a simulation. Calls that the
// simulated user makes on its own devices are no calls of an agent: they are left out and counted as filtered.
func (s *sink) tau2Bench(in *input) error {
	return s.elements(in, "simulations", func(raw []byte, index int) error {
		id := bare(rawjson.Get(raw, "id"))
		if id == "" {
			return fmt.Errorf("%w: simulation %d has no id", errRun, index)
		}
		messages := rawjson.Get(raw, "messages")
		if rawjson.Kind(messages) != '[' {
			if rawjson.Get(raw, "ticks") != nil {
				return fmt.Errorf("%w: simulation %s is a voice run, which has ticks in the place of messages", errRun, id)
			}
			return fmt.Errorf("%w: simulation %s has no messages", errRun, id)
		}
		d := s.session(in, id, "file/tau2-bench")
		d.template.Metadata = in.taskMetadata(raw)
		if err := s.tau2Messages(d, messages); err != nil {
			return err
		}
		return d.finish()
	})
}

func (in *input) taskMetadata(raw []byte) json.RawMessage {
	if task := rawjson.Get(raw, "task_id"); task != nil {
		return append(append([]byte(`{"task_id":`), task...), '}')
	}
	return nil
}

func (s *sink) tau2Messages(d *dialogue, list []byte) (err error) {
	rawjson.Elements(list, func(raw []byte) bool {
		var m message
		if err = json.Unmarshal(raw, &m); err != nil {
			err = fmt.Errorf("%w: %w", errRun, err)
			return false
		}
		if m.Requestor == "user" || m.Role == "user" && len(m.ToolCalls) > 0 {
			s.report.Filtered++
			return true
		}
		if m.Role == "tool" && m.ToolCallID == "" {
			m.ToolCallID = m.ID
		}
		d.message(&m)
		return true
	})
	if err == nil {
		err = d.named()
	}
	return err
}

// elements streams the list that is a member of the file's object: files of simulations are too large to be read at
// once. An element may have Limits.Inflated bytes.
func (s *sink) elements(in *input, member string, fn func(raw []byte, index int) error) error {
	bounded := &boundedReader{r: in.r, most: s.opts.Limits.Inflated}
	dec := json.NewDecoder(bounded)
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return fmt.Errorf("%w: the file is no object with %q", errRun, member)
	}
	found := false
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return err
		}
		bounded.left = bounded.most
		if key != member {
			var skipped json.RawMessage
			if err := dec.Decode(&skipped); err != nil {
				return err
			}
			continue
		}
		found = true
		if t, err := dec.Token(); err != nil || t != json.Delim('[') {
			return fmt.Errorf("%w: %q is no list", errRun, member)
		}
		for index := 0; dec.More(); index++ {
			bounded.left = bounded.most
			var raw json.RawMessage
			if err := dec.Decode(&raw); err != nil {
				return err
			}
			raw = []byte(strings.ToValidUTF8(string(raw), "\uFFFD"))
			err := rawjson.Valid(raw, rawjson.Limits{Depth: maxFileDepth, Tokens: 10 << 20})
			if err == nil {
				err = fn(raw, index)
			}
			if s.stopped != nil {
				return s.stopped
			}
			if err != nil {
				s.reject(rejected(in, index, 0, err))
			}
		}
		if _, err := dec.Token(); err != nil {
			return err
		}
	}
	if !found {
		return fmt.Errorf("%w: the file has no %q", errRun, member)
	}
	return nil
}

// boundedReader fails when more than most bytes are read without left being set anew.
type boundedReader struct {
	r          io.Reader
	left, most int64
	started    bool
}

var errElementTooLarge = errors.New("a part of the file is larger than the limit")

func (b *boundedReader) Read(p []byte) (int, error) {
	if !b.started {
		b.started, b.left = true, b.most
	}
	if b.left <= 0 {
		return 0, errElementTooLarge
	}
	n, err := b.r.Read(p)
	b.left -= int64(n)
	return n, err
}

// rejected is the report of a part of a file that was not taken.
func rejected(in *input, index, line int, err error) ingest.RecordError {
	return ingest.RecordError{File: in.path, Index: index, Line: line, Code: flows.CodeInvalid, Message: err.Error()}
}
