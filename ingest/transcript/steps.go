package transcript

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"pave/flows"
	"pave/ingest"
	"pave/ingest/python"
	"pave/ingest/rawjson"
)

// agentAction is how Python writes a step of a LangChain agent: (AgentAction(tool=.., tool_input=.., log=..), observation).
const agentAction = "AgentAction("

// steps imports a CSV whose rows hold LangChain's intermediate_steps as Python writes them, alone or in the dict that an
// agent returns. A session is a row. Rows without steps that can be read are reported; names of tools that the agent
// made up are calls, and failed.
func (s *sink) steps(in *input) error {
	r := csv.NewReader(in.r)
	r.FieldsPerRecord, r.LazyQuotes, r.ReuseRecord = -1, true, true
	for row := 0; ; row++ {
		fields, err := r.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		line, _ := r.FieldPos(0)
		var syntax *csv.ParseError
		if err != nil && !errors.As(err, &syntax) {
			return err
		}
		if err == nil && row == 0 && !strings.Contains(strings.Join(fields, ""), agentAction) {
			continue // the header
		}
		if err == nil {
			err = s.stepsRow(in, fields, row, line)
		}
		if s.stopped != nil {
			return s.stopped
		}
		if err != nil {
			s.reject(ingest.RecordError{File: in.path, Index: row, Line: line, Code: flows.CodeInvalid, Message: err.Error()})
		}
	}
}

func (s *sink) stepsRow(in *input, fields []string, row, line int) error {
	for _, field := range fields {
		if !strings.Contains(field, agentAction) {
			continue
		}
		raw, err := python.JSON(strings.ToValidUTF8(field, "\uFFFD"))
		if err != nil {
			return fmt.Errorf("row %d: %w", row, err)
		}
		d := s.session(in, stem(in)+"/row"+strconv.Itoa(row), "file/intermediate-steps")
		d.template.Metadata = in.provenance(line)
		list := raw
		if rawjson.Kind(raw) == '{' {
			list = rawjson.Get(raw, "intermediate_steps")
			if said := rawjson.Text(rawjson.Get(raw, "input")); said != "" {
				d.user(said, time.Time{})
			}
		}
		d.steps(list)
		if err := d.named(); err != nil {
			return err
		}
		return d.finish()
	}
	return fmt.Errorf("%w: row %d holds no steps of an agent", errRun, row)
}

func (d *dialogue) steps(list []byte) {
	rawjson.Elements(list, func(step []byte) bool {
		var parts [][]byte
		rawjson.Elements(step, func(part []byte) bool { parts = append(parts, part); return true })
		if len(parts) == 0 {
			return true
		}
		action := parts[0]
		tool := rawjson.Text(rawjson.Get(action, "tool"))
		d.answer(unknownUsage(), time.Time{})
		id := rawjson.Text(rawjson.Get(action, "tool_call_id"))
		d.call(id, tool, rawjson.Get(action, "tool_input"), time.Time{})
		if len(parts) > 1 {
			said := rawjson.Text(parts[1])
			invented := strings.HasPrefix(said, tool+" is not a valid tool")
			d.result(id, outcome{result: resultContent(parts[1]), failed: invented})
		}
		return true
	})
}
