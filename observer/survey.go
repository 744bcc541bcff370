package observer

import (
	"cmp"
	"context"
	"slices"

	"pave/ingest"
	"pave/ingest/store"
)

// Bounds of a survey, so that a log of any shape is answered in bounded memory.
const (
	maxSurveyPairs  = 1 << 20 // pairs of tools that are counted; calls of further pairs are in Survey.Left
	maxActiveAgents = 1000    // agents that are told apart; the others are one
)

// SurveySource is what a survey reads.
type SurveySource interface {
	Sequences(ctx context.Context, filter store.SequenceFilter, fn func(*ingest.Sequence) error) error
	ToolNames(ctx context.Context) ([]string, error)
}

// Survey is where agents walk: the directly-follows graph of their own tool calls. Calls of flows and exact repeats of the
// call before are left out of the graph.
type Survey struct {
	Sessions int64
	Calls    int64
	Tools    []SurveyTool // by calls, most first
	Edges    []SurveyEdge // by count, most first
	Left     int64        // steps between tools that were not counted, because there were too many different ones
}

// SurveyTool is a node: how often a tool was called, and how often a stretch began or ended with it.
type SurveyTool struct {
	Name                string
	Calls, Starts, Ends int64
}

// SurveyEdge counts how often To was called directly after From in one stretch. Confidence is Count divided by the
// calls of From.
type SurveyEdge struct {
	From, To   string
	Count      int64
	Confidence float64
}

type surveyor struct {
	survey Survey
	tools  []SurveyTool      // by tool id
	pairs  map[uint64]*int64 // looked up once a step
}

// Look surveys the sequences that the filter takes, in one pass over them. Its memory grows with the number of
// different tools and pairs of tools, not with calls.
func Look(ctx context.Context, src SurveySource, filter store.SequenceFilter) (*Survey, error) {
	s := &surveyor{pairs: make(map[uint64]*int64)}
	if err := s.look(ctx, src, filter); err != nil {
		return nil, err
	}
	names, err := src.ToolNames(ctx)
	if err != nil {
		return nil, err
	}
	return s.result(names), nil
}

func (s *surveyor) look(ctx context.Context, src SurveySource, filter store.SequenceFilter) error {
	return src.Sequences(ctx, filter, func(seq *ingest.Sequence) error {
		s.add(seq)
		return ctx.Err()
	})
}

func (s *surveyor) add(seq *ingest.Sequence) {
	own := int64(0)
	last := -1 // the tool before in this stretch, -1 at its beginning
	for i, tool := range seq.Tools {
		flags := seq.Flags[i]
		if last >= 0 && flags&(ingest.FlagBreak|ingest.FlagNotAgent) != 0 {
			s.tools[last].Ends++
			last = -1
		}
		if flags&ingest.FlagNotAgent != 0 {
			continue
		}
		own++
		for int(tool) >= len(s.tools) {
			s.tools = append(s.tools, SurveyTool{})
		}
		if flags&ingest.FlagRepeat != 0 && last == int(tool) {
			continue
		}
		s.tools[tool].Calls++
		if last < 0 {
			s.tools[tool].Starts++
		} else {
			s.follow(uint32(last), tool)
		}
		last = int(tool)
	}
	if last >= 0 {
		s.tools[last].Ends++
	}
	s.survey.Calls += own
	if own > 0 && seq.RunIndex == 0 {
		s.survey.Sessions++
	}
}

func (s *surveyor) follow(from, to uint32) {
	pair := uint64(from)<<32 | uint64(to)
	count := s.pairs[pair]
	if count == nil {
		if len(s.pairs) >= maxSurveyPairs {
			s.survey.Left++
			return
		}
		count = new(int64)
		s.pairs[pair] = count
	}
	*count++
}

func (s *surveyor) result(names []string) *Survey {
	out := &s.survey
	for id, t := range s.tools {
		if t.Calls > 0 {
			t.Name = names[id]
			out.Tools = append(out.Tools, t)
		}
	}
	slices.SortFunc(out.Tools, func(a, b SurveyTool) int {
		return cmp.Or(cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.Name, b.Name))
	})
	for pair, count := range s.pairs {
		from := s.tools[pair>>32]
		out.Edges = append(out.Edges, SurveyEdge{From: names[pair>>32], To: names[uint32(pair)], Count: *count,
			Confidence: float64(*count) / float64(from.Calls)})
	}
	slices.SortFunc(out.Edges, func(a, b SurveyEdge) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
	return out
}
