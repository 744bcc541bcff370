package transcript

import (
	"cmp"
	"encoding/json"
	"fmt"

	"pave/ingest/rawjson"
)

// atifTrajectory is a trajectory in the Agent Trajectory Interchange Format, any version 1.
type atifTrajectory struct {
	SessionID string `json:"session_id"`
	Agent     struct {
		Name  string `json:"name"`
		Model string `json:"model_name"`
	} `json:"agent"`
	Steps []atifStep `json:"steps"`
}

type atifStep struct {
	Timestamp json.RawMessage `json:"timestamp"`
	Source    string          `json:"source"`
	Model     string          `json:"model_name"`
	Message   json.RawMessage `json:"message"`
	ToolCalls []struct {
		ID       string          `json:"tool_call_id"`
		Function string          `json:"function_name"`
		Name     string          `json:"name"`
		Args     json.RawMessage `json:"arguments"`
	} `json:"tool_calls"`
	Observation struct {
		Results []struct {
			CallID  string          `json:"source_call_id"`
			Content json.RawMessage `json:"content"`
			IsError bool            `json:"is_error"`
		} `json:"results"`
	} `json:"observation"`
	Metrics json.RawMessage `json:"metrics"`
}

// atif imports trajectories: one object, or one a line. A step of the agent is an answer of the model; its observation
// holds the results.
func (s *sink) atif(in *input) error {
	return s.documents(in, rawjson.Auto, func(raw []byte, _, line int) error {
		var t atifTrajectory
		if err := json.Unmarshal(raw, &t); err != nil {
			return fmt.Errorf("%w: %w", errRun, err)
		}
		if t.Steps == nil {
			return fmt.Errorf("%w: a trajectory has steps", errRun)
		}
		d := s.session(in, cmp.Or(t.SessionID, in.session), "file/atif")
		d.template.Agent, d.template.Metadata = t.Agent.Name, in.provenance(line)
		for i := range t.Steps {
			d.atif(&t.Steps[i], t.Agent.Model)
		}
		if err := d.named(); err != nil {
			return err
		}
		return d.finish()
	})
}

func (d *dialogue) atif(step *atifStep, model string) {
	at := timeOf(step.Timestamp)
	switch step.Source {
	case "user":
		d.user(text(step.Message), at)
	case "agent":
		l := usageOf(cmp.Or(step.Model, model), step.Metrics)
		if cost := rawjson.Get(step.Metrics, "cost_usd"); rawjson.Kind(cost) == '0' {
			l.HasCost = json.Unmarshal(cost, &l.CostUSD) == nil
		}
		d.answer(l, at)
		for _, c := range step.ToolCalls {
			d.call(c.ID, cmp.Or(c.Function, c.Name), c.Args, at)
		}
	}
	for i := range step.Observation.Results {
		r := &step.Observation.Results[i]
		d.result(r.CallID, outcome{result: resultContent(r.Content), failed: r.IsError})
	}
}
