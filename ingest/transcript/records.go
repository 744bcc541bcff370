package transcript

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"hash/fnv"
	"os"
	"path/filepath"
	"strconv"

	"pave/flows"
	"pave/ingest"
	"pave/ingest/rawjson"
)

// sourceRecords is the Source of events from files of records that name none.
const sourceRecords = "file/jsonl"

// defaultSession is the session of a ChainWeaver record whose session id is empty.
const defaultSession = "__default__"

// records imports the JSON API's records, one a line or as an array, and recorded sessions, which are the same with
// the user's text in "context" and totals per session in a sessions.jsonl beside the file.
func (s *sink) records(in *input) error { return s.readRecords(in, false) }

// chainWeaver imports the records of ChainWeaver's two shapes: an empty session id is its default session, and where
// there is none the trace id is the session.
func (s *sink) chainWeaver(in *input) error { return s.readRecords(in, true) }

func (s *sink) readRecords(in *input, chainWeaver bool) error {
	totals := s.sidecar(in)
	place := places{file: in.session, next: make(map[string]int)}
	opts := ingest.DecodeOptions{Limits: s.opts.Limits, NoBatchLimit: true, Source: sourceRecords, Context: true}
	for e, err := range ingest.DecodeRecords(in.r, opts) {
		var rejected *ingest.RecordError
		if errors.As(err, &rejected) {
			rejected.File = in.path
			s.reject(*rejected)
			continue
		}
		if err != nil {
			return err
		}
		if chainWeaver && e.SessionID == "" {
			e.SessionID, e.TraceID = cmp.Or(e.TraceID, defaultSession), ""
			e.Origin = "session:" + e.SessionID
		}
		place.identify(&e)
		if total, ok := totals[e.SessionID]; ok {
			delete(totals, e.SessionID)
			if err := s.add(total.event(&e)); err != nil {
				return err
			}
		}
		if err := s.add(e); err != nil {
			return err
		}
	}
	return nil
}

// places numbers the events of each session, for those that have no ids.
type places struct {
	file string // the session of events that name none
	next map[string]int
}

func (p *places) identify(e *ingest.Event) {
	if e.SessionID == "" && e.TraceID == "" {
		e.SessionID = p.file
		e.Origin = "session:" + p.file
	}
	place := ""
	switch {
	case e.Identity != "", e.TraceID != "" && e.SpanID != "", e.Call != nil && e.Call.CallID != "", e.Kind == ingest.KindSessionEnd:
		return
	case e.HasSeq:
		e.Identity = ingest.PlaceIdentity(e)
		return
	default:
		key := e.Origin + "\x00" + strconv.Itoa(int(e.Kind))
		place = strconv.Itoa(p.next[key])
		p.next[key]++
	}
	e.Identity = ingest.DeriveIdentity("file", e.Origin, strconv.Itoa(int(e.Kind)), place)
}

// fileSession names the session of what names none itself: the file's name and a hash of its first line, so that a file
// which grows keeps its session.
func fileSession(name string, head []byte) string {
	line, _, _ := bytes.Cut(head[:min(len(head), 4<<10)], []byte("\n"))
	h := fnv.New32a()
	_, _ = h.Write(line)
	return "file:" + name + ":" + hex.EncodeToString(h.Sum(nil))
}

// sidecarName is the file of totals beside recorded sessions.
const sidecarName = "sessions.jsonl"

// sidecar is what sessions.jsonl says of a folder's sessions.
type sidecar map[string]sessionTotal

// sessionTotal is a line of sessions.jsonl.
type sessionTotal struct {
	SessionID string   `json:"session_id"`
	LLMCalls  int32    `json:"llm_calls"`
	AgentCost *float64 `json:"agent_cost"`
	File      string   `json:"file"`
}

// sidecar loads the totals of the file's sessions. Lines that cannot be read are reported.
func (s *sink) sidecar(in *input) sidecar {
	folder := filepath.Dir(in.path)
	all, loaded := s.sidecars[folder]
	if !loaded {
		all = s.loadSidecar(filepath.Join(folder, sidecarName))
		s.sidecars[folder] = all
	}
	own := make(sidecar)
	stem := in.name[:len(in.name)-len(filepath.Ext(in.name))]
	for id, total := range all {
		if total.File == "" || total.File == stem {
			own[id] = total
		}
	}
	return own
}

func (s *sink) loadSidecar(path string) sidecar {
	all := make(sidecar)
	f, err := os.Open(path)
	if err != nil {
		return all // most folders have none
	}
	defer func() { _ = f.Close() }() // only read
	stream := rawjson.NewStream(bufio.NewReader(f), rawjson.Lines, 64<<10)
	for {
		raw, line, err := stream.Next()
		var total sessionTotal
		switch {
		case err == nil:
			err = json.Unmarshal(raw, &total)
		case !errors.Is(err, rawjson.ErrRecordTooLarge):
			return all
		}
		if err != nil {
			s.reject(ingest.RecordError{File: path, Line: line, Code: flows.CodeInvalid, Message: err.Error()})
		} else if total.SessionID != "" && total.LLMCalls > 0 {
			all[total.SessionID] = total
		}
	}
}

// event is the total as one model call that stands for all; first is the session's first event.
func (t sessionTotal) event(first *ingest.Event) ingest.Event {
	e := ingest.Event{
		Kind: ingest.KindLLMCall, Origin: first.Origin, SessionID: first.SessionID, TraceID: first.TraceID,
		Source: ingest.SourceTotals, OriginKind: ingest.OriginAgent,
		LLM: &ingest.LLMCall{Count: t.LLMCalls, InputTokens: -1, OutputTokens: -1, CachedTokens: -1},
	}
	e.Identity = ingest.PlaceIdentity(&e)
	if t.AgentCost != nil {
		e.LLM.CostUSD, e.LLM.HasCost = *t.AgentCost, true
	}
	if t.LLMCalls == 1 {
		e.Turn, e.HasTurn = first.Turn, first.HasTurn // the only one has a place
	}
	return e
}
