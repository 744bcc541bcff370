package transcript

import (
	"fmt"

	"pave/ingest"
	"pave/ingest/rawjson"
)

// toolBench imports an answer file of ToolBench: the session is the file, its conversation the last snapshot of
// answer_generation.train_messages, in which calls have no ids. A result {"error": "...", "response": ...} with a text
// in error is a failed call.
func (s *sink) toolBench(in *input) error {
	return s.documents(in, rawjson.Auto, func(raw []byte, _, line int) error {
		var last []byte
		rawjson.Elements(rawjson.Get(rawjson.Get(raw, "answer_generation"), "train_messages"), func(snapshot []byte) bool { last = snapshot; return true })
		if rawjson.Kind(last) != '[' {
			return fmt.Errorf("%w: no answer_generation.train_messages", errRun)
		}
		d := s.session(in, stem(in), "file/toolbench")
		d.template.Metadata = in.provenance(line)
		if err := d.messages(last); err != nil {
			return err
		}
		for i := range d.events {
			if c := d.events[i].Call; c != nil {
				if reason := rawjson.Text(rawjson.Get(c.Result, "error")); reason != "" {
					c.Status, c.Error = ingest.StatusError, reason
				}
			}
		}
		return d.finish()
	})
}
