package transcript

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"pave/ingest"
	"pave/ingest/rawjson"
)

// codexLine is a line of a Codex session log.
type codexLine struct {
	Timestamp json.RawMessage `json:"timestamp"`
	Ordinal   json.RawMessage `json:"ordinal"`
	Type      string          `json:"type"`
	Payload   json.RawMessage `json:"payload"`
}

// codexRun is what the client says of a command that it ran for a call.
type codexRun struct {
	exit     string
	duration time.Duration
}

// codex imports a Codex session log. Its response items are those of OpenAI's Responses; the events beside them tell the
// calls again, with exit code and duration: they say whether a command failed, and are not counted.
func (s *sink) codex(in *input) error {
	var r *itemReader
	runs := make(map[string]codexRun)
	perAnswer := false // token_usage_record is written after each answer; token_count then says the same again
	start := func(session string) {
		r = &itemReader{dialogue: s.session(in, session, "file/codex")}
	}
	err := s.documents(in, rawjson.Lines, func(raw []byte, _, line int) error {
		var l codexLine
		if err := json.Unmarshal(raw, &l); err != nil {
			return fmt.Errorf("%w: %w", errRun, err)
		}
		at := timeOf(l.Timestamp)
		if l.Type == "session_meta" && r == nil {
			start(cmp.Or(bare(rawjson.Get(l.Payload, "session_id")), bare(rawjson.Get(l.Payload, "id")), in.session))
			return nil
		}
		if r == nil {
			start(in.session)
		}
		r.template.Metadata = in.provenance(line)
		switch l.Type {
		case "turn_context":
			r.model = cmp.Or(rawjson.Text(rawjson.Get(l.Payload, "model")), r.model)
		case "response_item":
			var it item
			if err := json.Unmarshal(l.Payload, &it); err != nil {
				return fmt.Errorf("%w: %w", errRun, err)
			}
			before := len(r.events)
			r.item(&it, at)
			r.number(before, l.Ordinal)
			r.apply(runs, it.CallID)
		case "token_usage_record":
			perAnswer = true
			r.tokens(rawjson.Get(l.Payload, "usage"))
		case "event_msg":
			r.clientEvent(l.Payload, runs, perAnswer)
		}
		if err := r.settle(); err != nil {
			return err
		}
		return r.named()
	})
	if err == nil && r != nil {
		err = r.finish()
	}
	return err
}

// number gives the calls that a line added its place in the log.
func (r *itemReader) number(from int, ordinal []byte) {
	n, err := strconv.ParseInt(string(ordinal), 10, 64)
	if err != nil {
		return
	}
	for i := from; i < len(r.events); i++ {
		if r.events[i].Kind == ingest.KindToolCall {
			r.events[i].Seq, r.events[i].HasSeq = n, true
		}
	}
}

// tokens completes the model call of the current answer.
func (r *itemReader) tokens(usage []byte) {
	e := r.at(r.lastTurn)
	if e == nil || e.LLM == nil || usage == nil {
		return
	}
	l := usageOf(cmp.Or(e.LLM.Model, r.model), usage)
	e.LLM = &l
}

// clientEvent reads what the client tells of tokens and of commands.
func (r *itemReader) clientEvent(payload []byte, runs map[string]codexRun, perAnswer bool) {
	switch rawjson.Text(rawjson.Get(payload, "type")) {
	case "token_count":
		if !perAnswer {
			r.tokens(rawjson.Get(rawjson.Get(payload, "info"), "last_token_usage"))
		}
	case "exec_command_end": // older logs
		runs[rawjson.Text(rawjson.Get(payload, "call_id"))] = codexRunOf(payload)
		r.apply(runs, rawjson.Text(rawjson.Get(payload, "call_id")))
	case "item_completed":
		it := rawjson.Get(payload, "item")
		if rawjson.Text(rawjson.Get(it, "type")) == "CommandExecution" {
			id := rawjson.Text(rawjson.Get(it, "id"))
			runs[id] = codexRunOf(it)
			r.apply(runs, id)
		}
	}
}

func codexRunOf(raw []byte) codexRun {
	duration := rawjson.Get(raw, "duration")
	secs, nanos := count(rawjson.Get(duration, "secs")), count(rawjson.Get(duration, "nanos"))
	run := codexRun{exit: string(rawjson.Get(raw, "exit_code"))}
	if secs >= 0 && secs < 1e9 && nanos >= 0 && nanos < 1e9 {
		run.duration = time.Duration(secs)*time.Second + time.Duration(nanos)
	}
	return run
}

// apply completes the latest call of the id with what the client said of its command, before or after the result.
func (r *itemReader) apply(runs map[string]codexRun, id string) {
	run, known := runs[id]
	if !known || id == "" {
		return
	}
	for i := len(r.events) - 1; i >= 0; i-- {
		e := &r.events[i]
		if e.Call == nil || e.Call.CallID != id {
			continue
		}
		if run.duration > 0 {
			e.Duration = run.duration
		}
		if e.Call.Status != ingest.StatusUnknown && run.exit != "" && run.exit != "0" && run.exit != "null" {
			e.Call.Status, e.Call.Error = ingest.StatusError, "exit code "+run.exit
		}
		if e.Call.Status != ingest.StatusUnknown {
			delete(runs, id)
		}
		return
	}
}
