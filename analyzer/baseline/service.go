package baseline

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"pave/flows"
)

// ServiceConfig are the thresholds of Service.
type ServiceConfig struct {
	AnalyzeOnToolChange      bool
	MinTraceOccurrences      int
	MinPatternLength         int // tools
	MinDeterminismScore      float64
	AutoApproveDeterministic bool // approve at once what has confidence 1
	MaxPendingProposals      int
}

// DefaultServiceConfig is the base system's.
func DefaultServiceConfig() ServiceConfig {
	return ServiceConfig{AnalyzeOnToolChange: true, MinTraceOccurrences: 3, MinPatternLength: 2, MinDeterminismScore: 0.8, MaxPendingProposals: 50}
}

// Sources of proposals.
const (
	SourceObserver = "observer"
	SourceAnalyzer = "analyzer"
)

// States of proposals.
const (
	ProposalPending  = "pending"
	ProposalApproved = "approved"
	ProposalRejected = "rejected"
)

// Proposal is a flow in the queue.
type Proposal struct {
	ID                       string
	Flow                     *flows.Flow
	Source                   string
	Occurrences              int
	Confidence               float64
	EstimatedLLMCallsAvoided int
	Status                   string
}

// Kinds of events.
const (
	EventToolRegistered    = "tool_registered"
	EventTraceRecorded     = "trace_recorded"
	EventAnalysisCompleted = "analysis_completed"
	EventProposalCreated   = "proposal_created"
	EventFlowPromoted      = "flow_promoted"
	EventProposalRejected  = "proposal_rejected"
)

// Event tells of one change. Only the fields of its kind are set.
type Event struct {
	Kind          string
	ToolName      string // tool_registered
	TracesTotal   int    // trace_recorded
	ProposalCount int    // analysis_completed: how many are new
	ProposalID    string // proposal_created, flow_promoted, proposal_rejected
	Source        string // proposal_created
	Flow          string // flow_promoted
}

// Metrics are totals since the start.
type Metrics struct {
	ToolsMonitored       int
	TracesRecorded       int
	PatternsDetected     int
	FlowsProposed        int
	FlowsPromoted        int
	TotalLLMCallsAvoided int
}

// Service watches tools and traces, queues a proposal for every flow that passes the thresholds, and registers the
// approved ones. It keeps everything in memory and is not safe for concurrent use.
type Service struct {
	config     ServiceConfig
	observer   *Observer
	notify     func(Event)
	tools      []*flows.Tool
	proposals  []*Proposal
	registered []*flows.Flow
	metrics    Metrics
}

// NewService uses the observer's traces. notify hears of every change, in order; nil hears nothing.
func NewService(config ServiceConfig, observer *Observer, notify func(Event)) *Service {
	if notify == nil {
		notify = func(Event) {}
	}
	return &Service{config: config, observer: observer, notify: notify}
}

// RegisterTool watches a tool; one of the same name is replaced.
func (s *Service) RegisterTool(t *flows.Tool) error {
	at := slices.IndexFunc(s.tools, func(known *flows.Tool) bool { return known.Name == t.Name })
	if at >= 0 {
		s.tools[at] = t
	} else {
		s.tools = append(s.tools, t)
	}
	s.metrics.ToolsMonitored = len(s.tools)
	s.notify(Event{Kind: EventToolRegistered, ToolName: t.Name})
	if !s.config.AnalyzeOnToolChange {
		return nil
	}
	_, err := s.Analyze()
	return err
}

// Record adds a call to the open trace.
func (s *Service) Record(step Step) { s.observer.Record(step) }

// EndTrace closes the open trace.
func (s *Service) EndTrace() error {
	if _, err := s.observer.EndTrace(); err != nil {
		return err
	}
	s.metrics.TracesRecorded++
	s.notify(Event{Kind: EventTraceRecorded, TracesTotal: s.metrics.TracesRecorded})
	return nil
}

// Analyze queues what the observer finds in the traces, then what the analyzer finds among the tools, and returns the new
// proposals.
func (s *Service) Analyze() ([]Proposal, error) {
	opts := DefaultObserverOptions()
	opts.MinOccurrences, opts.MinLength = s.config.MinTraceOccurrences, s.config.MinPatternLength
	found, err := s.observer.SuggestFlows(opts)
	if err != nil {
		return nil, err
	}
	var candidates []Proposal
	for _, f := range found {
		candidates = append(candidates, Proposal{Flow: f.Flow, Source: SourceObserver, Occurrences: f.Occurrences, Confidence: f.Confidence,
			EstimatedLLMCallsAvoided: f.EstimatedLLMCallsAvoided()})
	}
	if len(s.tools) >= s.config.MinPatternLength {
		analyzer, err := NewAnalyzer(s.tools)
		if err != nil {
			return nil, err
		}
		chains := DefaultChainOptions()
		chains.MinDepth = s.config.MinPatternLength
		suggested, err := analyzer.SuggestFlows(chains)
		if err != nil {
			return nil, err
		}
		for _, f := range suggested {
			candidates = append(candidates, Proposal{Flow: f, Source: SourceAnalyzer, Confidence: 1, EstimatedLLMCallsAvoided: len(f.Steps)})
		}
	}
	var created []Proposal
	for _, c := range candidates {
		p, err := s.queue(c)
		if err != nil {
			return nil, err
		}
		if p != nil {
			created = append(created, *p)
		}
	}
	s.notify(Event{Kind: EventAnalysisCompleted, ProposalCount: len(created)})
	return created, nil
}

// queue makes a proposal of a candidate, or nil: below the threshold, known by name, or no room.
func (s *Service) queue(c Proposal) (*Proposal, error) {
	s.metrics.PatternsDetected++
	pending := 0
	for _, p := range s.proposals {
		if p.Status != ProposalRejected && p.Flow.Name == c.Flow.Name {
			return nil, nil
		}
		if p.Status == ProposalPending {
			pending++
		}
	}
	known := slices.ContainsFunc(s.registered, func(f *flows.Flow) bool { return f.Name == c.Flow.Name })
	if c.Confidence < s.config.MinDeterminismScore || known || pending >= s.config.MaxPendingProposals {
		return nil, nil
	}
	p := &c
	p.ID, p.Status = fmt.Sprintf("proposal-%d", len(s.proposals)), ProposalPending
	s.proposals = append(s.proposals, p)
	s.metrics.FlowsProposed++
	s.notify(Event{Kind: EventProposalCreated, ProposalID: p.ID, Source: p.Source})
	if s.config.AutoApproveDeterministic && p.Confidence >= 1 {
		return p, s.Approve(p.ID)
	}
	return p, nil
}

// Approve registers the flow of a pending proposal unchanged. A flow that is registered already is not counted
// again.
func (s *Service) Approve(id string) error {
	p, err := s.pending(id)
	if err != nil {
		return err
	}
	exists := slices.ContainsFunc(s.registered, func(f *flows.Flow) bool { return f.Name == p.Flow.Name && f.Version == p.Flow.Version })
	if !exists {
		s.registered = append(s.registered, p.Flow)
		s.metrics.FlowsPromoted++
		s.metrics.TotalLLMCallsAvoided += p.EstimatedLLMCallsAvoided
	}
	p.Status = ProposalApproved
	s.notify(Event{Kind: EventFlowPromoted, ProposalID: id, Flow: p.Flow.Name})
	return nil
}

// Reject ends a pending proposal. The next analysis proposes its flow again.
func (s *Service) Reject(id string) error {
	p, err := s.pending(id)
	if err != nil {
		return err
	}
	p.Status = ProposalRejected
	s.notify(Event{Kind: EventProposalRejected, ProposalID: id})
	return nil
}

func (s *Service) pending(id string) (*Proposal, error) {
	at := slices.IndexFunc(s.proposals, func(p *Proposal) bool { return p.ID == id })
	if at < 0 {
		return nil, flows.NewError(flows.CodeNotFound, fmt.Sprintf("Unknown proposal id '%s'.", id))
	}
	if p := s.proposals[at]; p.Status != ProposalPending {
		return nil, invalid("Proposal '%s' is %s, not pending.", id, p.Status)
	}
	return s.proposals[at], nil
}

// Proposals lists the queue in the order of creation, decided ones included.
func (s *Service) Proposals() []Proposal {
	out := make([]Proposal, len(s.proposals))
	for i, p := range s.proposals {
		out[i] = *p
	}
	return out
}

// Registered lists the approved flows by name and version.
func (s *Service) Registered() []*flows.Flow {
	return slices.SortedFunc(slices.Values(s.registered), func(a, b *flows.Flow) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Version, b.Version))
	})
}

// Metrics are the totals so far.
func (s *Service) Metrics() Metrics { return s.metrics }
