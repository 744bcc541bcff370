package executor

import (
	"encoding/json"
	"fmt"

	"pave/flows/value"
)

// The JSON forms of checkpoints and results hold values exactly: integers of any size stay integers, and numbers that
// are no integers stay so even without a fraction (1.0).

// object is a JSON object of exact values.
type object map[string]any

// MarshalJSON implements json.Marshaler.
func (o object) MarshalJSON() ([]byte, error) {
	if o == nil {
		return []byte("null"), nil
	}
	return value.Encode(map[string]any(o)), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (o *object) UnmarshalJSON(data []byte) error {
	v, err := value.Decode(data)
	if err != nil {
		return err
	}
	switch v := v.(type) {
	case nil:
		*o = nil
	case map[string]any:
		*o = v
	default:
		return fmt.Errorf("want an object, got %T", v)
	}
	return nil
}

// The documents below are the types of the same name with exact objects in place of their maps: the outer fields hide
// the embedded ones.
type recordDoc struct {
	StepRecord
	Inputs    object      `json:"inputs"`
	Outputs   object      `json:"outputs"`
	SubResult *resultDoc  `json:"sub_result"`
	Elements  []recordDoc `json:"elements,omitempty"`
}

type resultDoc struct {
	RunResult
	FinalOutput  object       `json:"final_output"`
	ExecutionLog []recordDoc  `json:"execution_log"`
	InitialInput object       `json:"initial_input"`
	HandBack     *handBackDoc `json:"hand_back"`
}

type handBackDoc struct {
	HandBack
	Inputs object `json:"inputs"`
}

type checkpointDoc struct {
	checkpointFields
	InitialInput object                `json:"initial_input"`
	Context      object                `json:"context"`
	ExecutionLog []recordDoc           `json:"execution_log"`
	Level        map[int]*stepStateDoc `json:"level,omitempty"`
}

// checkpointFields has the fields of a Checkpoint without its methods.
type checkpointFields Checkpoint

type stepStateDoc struct {
	StepCheckpoint
	Record   *recordDoc            `json:"record"`
	Elements map[int]*stepStateDoc `json:"elements,omitempty"`
}

func recordsToDoc(log []StepRecord) []recordDoc {
	if log == nil {
		return nil
	}
	out := make([]recordDoc, len(log))
	for i := range log {
		out[i] = *recordToDoc(&log[i])
	}
	return out
}

func recordToDoc(rec *StepRecord) *recordDoc {
	if rec == nil {
		return nil
	}
	return &recordDoc{StepRecord: *rec, Inputs: rec.Inputs, Outputs: rec.Outputs, SubResult: resultToDoc(rec.SubResult), Elements: recordsToDoc(rec.Elements)}
}

func resultToDoc(r *RunResult) *resultDoc {
	if r == nil {
		return nil
	}
	out := &resultDoc{RunResult: *r, FinalOutput: r.FinalOutput, ExecutionLog: recordsToDoc(r.ExecutionLog), InitialInput: r.InitialInput}
	if r.HandBack != nil {
		out.HandBack = &handBackDoc{*r.HandBack, r.HandBack.Inputs}
	}
	return out
}

func (d *recordDoc) record() *StepRecord {
	if d == nil {
		return nil
	}
	rec := d.StepRecord
	rec.Inputs, rec.Outputs, rec.SubResult, rec.Elements = d.Inputs, d.Outputs, d.SubResult.result(), recordsOf(d.Elements)
	return &rec
}

func recordsOf(docs []recordDoc) []StepRecord {
	if docs == nil {
		return nil
	}
	out := make([]StepRecord, len(docs))
	for i := range docs {
		out[i] = *docs[i].record()
	}
	return out
}

func (d *resultDoc) result() *RunResult {
	if d == nil {
		return nil
	}
	r := d.RunResult
	r.FinalOutput, r.InitialInput, r.ExecutionLog = d.FinalOutput, d.InitialInput, recordsOf(d.ExecutionLog)
	if d.HandBack != nil {
		r.HandBack = &d.HandBack.HandBack
		r.HandBack.Inputs = d.HandBack.Inputs
	}
	return &r
}

// EncodeResult writes a result as JSON with exact values.
func EncodeResult(r *RunResult) ([]byte, error) { return json.Marshal(resultToDoc(r)) }

// DecodeResult reads a result, of this version or of the base system's records ("1.1"): error codes that are missing
// there are derived from their types.
func DecodeResult(data []byte) (*RunResult, error) {
	var d *resultDoc
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, fmt.Errorf("run result: %w", err)
	}
	if d == nil {
		return nil, fmt.Errorf("run result: null is none")
	}
	r := d.result()
	r.upgrade()
	return r, nil
}

// MarshalJSON implements json.Marshaler.
func (c *Checkpoint) MarshalJSON() ([]byte, error) {
	return json.Marshal(checkpointDoc{checkpointFields: checkpointFields(*c), InitialInput: c.InitialInput, Context: c.Context,
		ExecutionLog: recordsToDoc(c.ExecutionLog), Level: statesToDoc(c.Level)})
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *Checkpoint) UnmarshalJSON(data []byte) error {
	var d checkpointDoc
	if err := json.Unmarshal(data, &d); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	*c = Checkpoint(d.checkpointFields)
	c.InitialInput, c.Context, c.ExecutionLog, c.Level = d.InitialInput, d.Context, recordsOf(d.ExecutionLog), statesOf(d.Level)
	return nil
}

func statesToDoc(states map[int]*StepCheckpoint) map[int]*stepStateDoc {
	if states == nil {
		return nil
	}
	out := make(map[int]*stepStateDoc, len(states))
	for i, s := range states {
		out[i] = &stepStateDoc{StepCheckpoint: *s, Record: recordToDoc(s.Record), Elements: statesToDoc(s.Elements)}
	}
	return out
}

func statesOf(docs map[int]*stepStateDoc) map[int]*StepCheckpoint {
	if docs == nil {
		return nil
	}
	out := make(map[int]*StepCheckpoint, len(docs))
	for i, d := range docs {
		s := d.StepCheckpoint
		s.Record, s.Elements = d.Record.record(), statesOf(d.Elements)
		out[i] = &s
	}
	return out
}
