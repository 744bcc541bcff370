package transcript

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"pave/ingest"
	"pave/ingest/rawjson"
)

// sweAgent imports a trajectory of SWE-agent; the session is the file. Where the agent called functions, its history is a
// conversation; else an action is a line of text, whose first word is the tool.
func (s *sink) sweAgent(in *input) error {
	return s.documents(in, rawjson.Auto, func(raw []byte, _, line int) error {
		d := s.session(in, stem(in), "file/swe-agent")
		d.template.Metadata = in.provenance(line)
		history, trajectory := rawjson.Get(raw, "history"), rawjson.Get(raw, "trajectory")
		var err error
		switch {
		case calledFunctions(history):
			err = d.messages(withoutDemonstrations(history))
			d.durations(trajectory)
		case rawjson.Kind(trajectory) == '[':
			d.actions(trajectory)
		case rawjson.Kind(history) == '[':
			err = d.messages(withoutDemonstrations(history))
		default:
			err = fmt.Errorf("%w: neither trajectory nor history", errRun)
		}
		if err != nil {
			return err
		}
		return d.finish()
	})
}

func calledFunctions(history []byte) (called bool) {
	rawjson.Elements(history, func(m []byte) bool {
		called = rawjson.Kind(rawjson.Get(m, "tool_calls")) == '['
		return !called
	})
	return called
}

// withoutDemonstrations leaves out messages that show the agent how it is done.
func withoutDemonstrations(history []byte) []byte {
	var kept []json.RawMessage
	rawjson.Elements(history, func(m []byte) bool {
		if rawjson.Kind(rawjson.Get(m, "is_demo")) != 't' {
			kept = append(kept, m)
		}
		return true
	})
	list, _ := json.Marshal(kept) // of valid JSON
	return list
}

// durations takes the times of execution over where every call has a step of the trajectory.
func (d *dialogue) durations(trajectory []byte) {
	var times []time.Duration
	rawjson.Elements(trajectory, func(step []byte) bool { times = append(times, executionTime(step)); return true })
	var calls []*ingest.Event
	for i := range d.events {
		if d.events[i].Call != nil {
			calls = append(calls, &d.events[i])
		}
	}
	if len(calls) != len(times) {
		return
	}
	for i, e := range calls {
		e.Duration = times[i]
	}
}

func executionTime(step []byte) time.Duration {
	seconds, err := strconv.ParseFloat(string(rawjson.Get(step, "execution_time")), 64)
	if err != nil || seconds <= 0 || seconds > 1e8 {
		return 0
	}
	return time.Duration(seconds * float64(time.Second)).Round(time.Microsecond)
}

// actions reads {action, observation} steps: "edit 1:1\n..." is a call of edit with the rest as its input.
func (d *dialogue) actions(trajectory []byte) {
	rawjson.Elements(trajectory, func(step []byte) bool {
		action := strings.TrimSpace(rawjson.Text(rawjson.Get(step, "action")))
		d.answer(unknownUsage(), time.Time{})
		if action == "" {
			return true
		}
		tool, rest := action, ""
		if i := strings.IndexAny(action, " \t\n"); i >= 0 {
			tool, rest = action[:i], strings.TrimLeft(action[i:], " \t")
		}
		args := []byte("{}")
		if rest != "" {
			args = append(rawjson.AppendString([]byte(`{"input":`), strings.TrimPrefix(rest, "\n")), '}')
		}
		place := d.call("", tool, args, time.Time{})
		if observation := rawjson.Get(step, "observation"); rawjson.Kind(observation) == '"' {
			d.result("", outcome{result: resultContent(observation)})
		}
		if e := d.at(place); e != nil {
			e.Duration = executionTime(step)
		}
		return true
	})
}
