package observer

import (
	"context"

	"pave/ingest"
	"pave/ingest/store"
)

// Source is where a mining pass reads from, for one tenant. An event store with an assembling session loader
// fulfils it, and so does Memory.
type Source interface {
	// Sequences calls fn with every sequence that the filter takes. The slices are valid until fn returns.
	Sequences(ctx context.Context, filter store.SequenceFilter, fn func(*ingest.Sequence) error) error
	// ToolNames returns the names of the tool ids that Sequences gave so far; index = id.
	ToolNames(ctx context.Context) ([]string, error)
	// Sessions calls fn once with each of the sessions, assembled and with payloads, in any order. Sessions that
	// are gone are skipped. fn may keep the session, but not change it; neither may the source.
	Sessions(ctx context.Context, ids []string, fn func(*ingest.Session) error) error
}

// Memory is a Source over assembled sessions that are all in memory. It is read-only once made and safe for
// concurrent use.
type Memory struct {
	sessions []ingest.Session
	byID     map[string]int
	names    []string
	ids      map[string]uint32
}

// NewMemory returns a Memory over the sessions, which must not change afterwards.
func NewMemory(sessions []ingest.Session) *Memory {
	m := &Memory{sessions: sessions, byID: make(map[string]int, len(sessions)), ids: make(map[string]uint32)}
	for i := range sessions {
		m.byID[sessions[i].ID] = i
		for r := range sessions[i].Runs {
			for c := range sessions[i].Runs[r].Calls {
				m.intern(sessions[i].Runs[r].Calls[c].Tool)
			}
		}
	}
	return m
}

func (m *Memory) intern(tool string) {
	if _, ok := m.ids[tool]; !ok {
		m.ids[tool] = uint32(len(m.names))
		m.names = append(m.names, tool)
	}
}

// Sequences implements Source.
func (m *Memory) Sequences(ctx context.Context, filter store.SequenceFilter, fn func(*ingest.Sequence) error) error {
	var seq ingest.Sequence
	for i := range m.sessions {
		if err := ctx.Err(); err != nil {
			return err
		}
		for r := range m.sessions[i].Runs {
			run := &m.sessions[i].Runs[r]
			m.sequence(&seq, m.sessions[i].ID, r, run)
			if len(seq.Tools) == 0 || !takes(filter, &seq) {
				continue
			}
			if err := fn(&seq); err != nil {
				return err
			}
		}
	}
	return nil
}

// sequence fills seq from a run, reusing its slices.
func (m *Memory) sequence(seq *ingest.Sequence, id string, index int, run *ingest.AgentRun) {
	*seq = ingest.Sequence{SessionID: id, RunIndex: index, Agent: run.Agent,
		Tools: seq.Tools[:0], Turns: seq.Turns[:0], Flags: seq.Flags[:0]}
	for c := range run.Calls {
		call := &run.Calls[c]
		if c == 0 {
			seq.Start = call.Start
		}
		seq.Tools = append(seq.Tools, m.ids[call.Tool])
		seq.Turns = append(seq.Turns, call.Turn)
		seq.Flags = append(seq.Flags, call.Flags)
	}
}

func takes(filter store.SequenceFilter, seq *ingest.Sequence) bool {
	if filter.Agent != "" && filter.Agent != seq.Agent {
		return false
	}
	if filter.From.IsZero() && filter.To.IsZero() {
		return true
	}
	return !seq.Start.IsZero() && !seq.Start.Before(filter.From) && (filter.To.IsZero() || seq.Start.Before(filter.To))
}

// ToolNames implements Source.
func (m *Memory) ToolNames(context.Context) ([]string, error) { return m.names, nil }

// Sessions implements Source.
func (m *Memory) Sessions(ctx context.Context, ids []string, fn func(*ingest.Session) error) error {
	for _, id := range ids {
		if err := ctx.Err(); err != nil {
			return err
		}
		if i, ok := m.byID[id]; ok {
			if err := fn(&m.sessions[i]); err != nil {
				return err
			}
		}
	}
	return nil
}
