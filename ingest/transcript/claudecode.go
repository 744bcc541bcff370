package transcript

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"pave/ingest"
	"pave/ingest/rawjson"
)

// claudeLine is a line of a Claude Code session log.
type claudeLine struct {
	Type        string          `json:"type"`
	UUID        string          `json:"uuid"`
	ParentUUID  string          `json:"parentUuid"`
	SessionID   string          `json:"sessionId"`
	AgentID     string          `json:"agentId"`
	IsSidechain bool            `json:"isSidechain"`
	IsMeta      bool            `json:"isMeta"`
	IsSummary   bool            `json:"isCompactSummary"`
	Timestamp   json.RawMessage `json:"timestamp"`
	Message     struct {
		ID      string          `json:"id"`
		Role    string          `json:"role"`
		Model   string          `json:"model"`
		Content json.RawMessage `json:"content"`
		Usage   json.RawMessage `json:"usage"`
	} `json:"message"`
}

// claudeRun is the conversation of one agent of a session.
type claudeRun struct {
	*dialogue
	message string // id of the current answer: each of its blocks has a line of its own
}

// claudeLog reads the lines of one file.
type claudeLog struct {
	s     *sink
	in    *input
	runs  map[string]*claudeRun // by session and agent
	order []*claudeRun
	chain map[string]string // line -> agent of its sidechain
	seen  map[string]int    // call of a session -> its place: replays and partial lines tell it again
	lines map[string]bool   // user lines by uuid
}

// claudeCode imports a Claude Code session log. Sidechains are runs of their own. A call is its tool_use id: a line that
// tells it again, as streams, replays and compaction do, completes it and makes no other.
func (s *sink) claudeCode(in *input) error {
	log := &claudeLog{s: s, in: in, runs: make(map[string]*claudeRun), chain: make(map[string]string), seen: make(map[string]int), lines: make(map[string]bool)}
	err := s.documents(in, rawjson.Lines, func(raw []byte, _, line int) error {
		var l claudeLine
		if err := json.Unmarshal(raw, &l); err != nil {
			return fmt.Errorf("%w: %w", errRun, err)
		}
		return log.line(&l, line)
	})
	for _, r := range log.order {
		if err == nil {
			err = r.finish()
		}
	}
	return err
}

func (log *claudeLog) line(l *claudeLine, number int) error {
	if l.Type != "user" && l.Type != "assistant" {
		if parent, ok := log.chain[l.ParentUUID]; ok && l.UUID != "" {
			log.chain[l.UUID] = parent
		}
		return nil // titles, summaries, snapshots, progress
	}
	r := log.run(l)
	r.template.Metadata = log.in.provenance(number)
	at := timeOf(l.Timestamp)
	if l.Type == "assistant" {
		log.answer(r, l, at)
	} else {
		log.user(r, l, at)
	}
	if err := r.settle(); err != nil {
		return err
	}
	return r.named()
}

// run is the conversation that the line belongs to.
func (log *claudeLog) run(l *claudeLine) *claudeRun {
	session := cmp.Or(l.SessionID, log.in.session)
	agent := "main"
	if l.IsSidechain {
		agent = l.AgentID
		if agent == "" {
			agent = cmp.Or(log.chain[l.ParentUUID], "sidechain:"+l.UUID)
		}
		log.chain[l.UUID] = agent
	}
	key := session + "\x00" + agent
	r := log.runs[key]
	if r == nil {
		r = &claudeRun{dialogue: log.s.session(log.in, session, "file/claude-code")}
		r.template.RunID = agent
		log.runs[key] = r
		log.order = append(log.order, r)
	}
	return r
}

func (log *claudeLog) answer(r *claudeRun, l *claudeLine, at time.Time) {
	uses, results := blocks(l.Message.Content)
	usage := usageOf(l.Message.Model, l.Message.Usage)
	known := r.template.SessionID + "\x00" + l.Message.ID
	place, told := log.seen["message\x00"+known]
	switch {
	case l.Message.ID != "" && r.message == l.Message.ID, told:
		if e := r.at(place); told && e != nil && e.LLM != nil && usage.OutputTokens >= e.LLM.OutputTokens {
			e.LLM = &usage // the last line knows all tokens
		}
	default:
		place = r.dialogue.answer(usage, at)
		r.events[len(r.events)-1].Identity = ingest.DeriveIdentity("file", r.template.Origin, "answer", cmp.Or(l.Message.ID, l.UUID))
		r.message = l.Message.ID
		if l.Message.ID != "" {
			log.seen["message\x00"+known] = place
		}
	}
	for _, use := range uses {
		key := r.template.SessionID + "\x00" + use.ID
		if place, told := log.seen[key]; told && use.ID != "" {
			if e := r.at(place); e != nil && e.Call != nil {
				e.Call.Args = ingest.NormaliseArgs(use.Input) // the last one is complete
			}
			continue
		}
		place := r.call(use.ID, use.Name, use.Input, at)
		if e := r.at(place); e != nil && use.ID != "" {
			e.Identity = ingest.DeriveIdentity("file", r.template.Origin, "call", use.ID)
			log.seen[key] = place
		}
	}
	for i := range results {
		r.result(results[i].ToolUseID, results[i].outcome(at))
	}
}

func (log *claudeLog) user(r *claudeRun, l *claudeLine, at time.Time) {
	if l.UUID != "" {
		if log.lines[l.UUID] {
			return
		}
		log.lines[l.UUID] = true
	}
	_, results := blocks(l.Message.Content)
	for i := range results {
		r.result(results[i].ToolUseID, results[i].outcome(at))
	}
	said := text(l.Message.Content)
	if len(results) > 0 && said == "" || l.IsMeta || l.IsSummary {
		return
	}
	r.user(said, at)
	if l.UUID != "" {
		r.events[len(r.events)-1].Identity = ingest.DeriveIdentity("file", r.template.Origin, "user", l.UUID)
	}
}
