package governance

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"pave/analyzer"
	"pave/flows"
	"pave/governance/store"
)

// proposalBody is the part of a proposal that is kept as JSON.
type proposalBody struct {
	Flow       *flows.Flow
	Editors    []string `json:",omitempty"`
	Evidence   analyzer.Evidence
	Savings    analyzer.Savings
	Safety     flows.SideEffects
	Warnings   []string          `json:",omitempty"`
	Returned   string            `json:",omitempty"`
	Changed    string            `json:",omitempty"`
	Labels     []string          `json:",omitempty"`
	Closed     *Closing          `json:",omitempty"`
	ToolHashes map[string]string `json:",omitempty"`
	Reserved   *Reservation      `json:",omitempty"`
}

// decode reads JSON so that numbers keep their exact text.
func decode(raw []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("stored row: %w", err)
	}
	return nil
}

// entry is a proposal being worked on, with the row it came from.
type entry struct {
	Proposal
	row store.ProposalRow
}

// load turns a row with its reviews into a proposal.
func load(r *store.Reader, tenant string, row store.ProposalRow) (*entry, error) {
	var body proposalBody
	if err := decode(row.Body, &body); err != nil {
		return nil, err
	}
	reviews, err := r.Reviews(tenant, row.ID)
	if err != nil {
		return nil, err
	}
	e := &entry{row: row, Proposal: Proposal{
		ID: row.ID, Tenant: tenant, State: State(row.State), Source: analyzer.Source(row.Source), PatternKey: row.PatternKey,
		Digest: row.Digest, Revision: row.Revision, Flow: body.Flow, Author: row.Author, Editors: body.Editors,
		Evidence: body.Evidence, Savings: body.Savings, Safety: body.Safety, Warnings: body.Warnings, Rank: row.Rank,
		Score: row.Score, CreatedAt: row.CreatedAt, UpdatedAt: row.UpdatedAt, PromotedAs: row.PromotedAs,
		Returned: body.Returned, Changed: body.Changed, Assignee: row.Assignee, Labels: body.Labels, Closed: body.Closed,
		ToolHashes: body.ToolHashes, Reserved: body.Reserved,
	}}
	for _, v := range reviews {
		e.Reviews = append(e.Reviews, Review{ID: v.ID, Principal: v.Principal, Verdict: Verdict(v.Verdict), Feedback: Feedback(v.Feedback), Digest: v.Digest,
			Comment: v.Comment, Solo: v.Solo, Dismissed: v.Dismissed, At: v.At})
	}
	return e, nil
}

// toRow writes the proposal's current content over its row.
func (e *entry) toRow() (store.ProposalRow, error) {
	body, err := json.Marshal(proposalBody{Flow: e.Flow, Editors: e.Editors, Evidence: e.Evidence, Savings: e.Savings, Safety: e.Safety,
		Warnings: e.Warnings, Returned: e.Returned, Changed: e.Changed, Labels: e.Labels, Closed: e.Closed,
		ToolHashes: e.ToolHashes, Reserved: e.Reserved})
	if err != nil {
		return store.ProposalRow{}, fmt.Errorf("encode proposal: %w", err)
	}
	row := e.row
	row.ID, row.State, row.Source, row.PatternKey, row.Author = e.ID, string(e.State), string(e.Source), e.PatternKey, e.Author
	row.FlowName, row.Digest, row.Revision, row.Rank, row.Score = e.Flow.Name, e.Digest, e.Revision, e.Rank, e.Score
	row.CreatedAt, row.UpdatedAt, row.PromotedAs, row.Assignee, row.Body = e.CreatedAt, e.UpdatedAt, e.PromotedAs, e.Assignee, body
	row.Savings = e.Savings.LLMCallsPerRun.Mean * e.Savings.PerWeek
	return row, nil
}

// save stores a changed proposal under the next revision.
func (c *change) save(e *entry) error {
	was := e.row.Revision
	e.Revision, e.UpdatedAt = was+1, c.at
	row, err := e.toRow()
	if err != nil {
		return err
	}
	if err := c.UpdateProposal(c.tenant, row, was); err != nil {
		return err
	}
	e.row = row
	return nil
}

// toolset are the current tool definitions of a tenant: the declared one of a name, else the inferred one.
type toolset map[string]ToolVersion

// library is what flows are made of: tools, and the flows that steps call, which are read when they are looked up.
type library struct {
	toolset
	r      *store.Reader
	tenant string
	found  func() ([]DiscoveredTool, error) // what MCP servers listed, read once
	pins   map[string]string                // versions of called flows, in place of those that serve callers
}

func newLibrary(set toolset, r *store.Reader, tenant string) *library {
	return &library{toolset: set, r: r, tenant: tenant,
		found: sync.OnceValues(func() ([]DiscoveredTool, error) { return discoveredIn(r, tenant, "") })}
}

// toolsIn reads the toolset.
func toolsIn(r *store.Reader, tenant string) (*library, error) {
	rows, err := r.Tools(tenant)
	if err != nil {
		return nil, err
	}
	set := make(toolset, len(rows))
	for _, row := range rows {
		if _, declared := set[row.Name]; declared { // the declared definition comes first
			continue
		}
		t, err := toolVersion(row)
		if err != nil {
			return nil, err
		}
		set[row.Name] = *t
	}
	return newLibrary(set, r, tenant), nil
}

// declaredIn reads the declared ones of the tools that a flow, and those that it calls, reach. pins are the versions of
// called flows in place of the active ones.
func declaredIn(r *store.Reader, tenant string, flow *flows.Flow, pins map[string]string) (*library, error) {
	lib := newLibrary(toolset{}, r, tenant)
	lib.pins = pins
	names := ToolNames(flow)
	for _, called := range lib.called(flow) {
		names = append(names, ToolNames(called.Flow)...)
	}
	set := lib.toolset
	for _, name := range names {
		row, err := r.Tool(tenant, name, false)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		t, err := toolVersion(row)
		if err != nil {
			return nil, err
		}
		set[name] = *t
	}
	return lib, nil
}

// called looks up the flows that a flow calls, directly or through others, by the reference that the step writes: the
// version that it names, else the one that serves callers (see calledIn). What cannot be read is left out, so that compiling says that it is missing.
func (l *library) called(f *flows.Flow) map[string]*FlowVersion {
	found := map[string]*FlowVersion{}
	var walk func(*flows.Flow)
	walk = func(f *flows.Flow) {
		for i := range f.Steps {
			ref := f.Steps[i].FlowName
			if ref == "" || found[ref] != nil {
				continue
			}
			name, version, _ := strings.Cut(ref, "@")
			row, err := calledIn(l.r, l.tenant, name, cmp.Or(version, l.pins[name]))
			if err != nil {
				continue
			}
			if v, err := flowVersion(row); err == nil {
				found[ref] = v
				walk(v.Flow)
			}
		}
	}
	walk(f)
	return found
}

func toolVersion(row store.ToolRow) (*ToolVersion, error) {
	var tool flows.Tool
	if err := decode(row.Body, &tool); err != nil {
		return nil, err
	}
	if row.Inferred {
		tool.Origin = flows.ToolInferred
	}
	return &ToolVersion{Tool: &tool, Revision: row.Revision, SchemaHash: row.SchemaHash, DefinitionDigest: row.DefinitionDigest,
		UpdatedBy: row.UpdatedBy, UpdatedAt: row.UpdatedAt}, nil
}

// declared is the definition that may run, nil when the tool is unknown or only inferred.
func (ts toolset) declared(name string) *ToolVersion {
	if t, ok := ts[name]; ok && t.Tool.Origin != flows.ToolInferred {
		return &t
	}
	return nil
}

// ToolNames lists the tools that a run of the flow may reach, each once, in the order of the steps: steps,
// fallbacks and decision candidates.
func ToolNames(f *flows.Flow) []string {
	var names []string
	add := func(name string) {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for i := range f.Steps {
		step := &f.Steps[i]
		add(step.ToolName)
		if fallback, ok := strings.CutPrefix(step.OnError, "fallback:"); ok {
			add(fallback)
		}
		for _, name := range step.DecisionCandidates {
			add(name)
		}
	}
	return names
}

// content is what the current tools and flows say of a flow. Safety, unbound and tools are also those of the flows that
// it calls; these pin their tools themselves.
type content struct {
	safety  flows.SideEffects
	unbound []string
	tools   map[string]*flows.Tool  // declared ones
	hashes  map[string]string       // of the declared ones of the flow's own steps
	binders map[string]string       // what would bind an unbound one
	called  map[string]*FlowVersion // by the reference of the step
}

// contentOf looks up the tools of a flow and of those that it calls. A tool whose safety is not known counts as external.
func (l *library) contentOf(f *flows.Flow) content {
	c := content{safety: flows.EffectNone, tools: map[string]*flows.Tool{}, hashes: map[string]string{}, called: l.called(f)}
	for _, name := range ToolNames(f) {
		if t := l.addTool(&c, name); t != nil {
			c.hashes[name] = t.SchemaHash
		}
	}
	for _, ref := range slices.Sorted(maps.Keys(c.called)) {
		for _, name := range ToolNames(c.called[ref].Flow) {
			l.addTool(&c, name)
		}
	}
	c.binders = l.binders(c.unbound)
	return c
}

// addTool counts a tool into the content; nil when there is no declared one.
func (l *library) addTool(c *content, name string) *ToolVersion {
	t := l.declared(name)
	level := flows.EffectExternal
	if t != nil {
		c.tools[name] = t.Tool
		level = flows.Effects(t.Tool.Safety)
	}
	if flows.Exceeds(level, c.safety) {
		c.safety = level
	}
	if (t == nil || t.Tool.Binding == nil) && !slices.Contains(c.unbound, name) {
		c.unbound = append(c.unbound, name)
	}
	return t
}

// callable are the called flows as a compiler sees them: with the status that their gate has.
func (c *content) callable() map[string]*flows.Flow {
	out := make(map[string]*flows.Flow, len(c.called))
	for ref, v := range c.called {
		out[ref] = v.Flow
	}
	return out
}

// changedTools lists the tools whose schema hash is in both maps and differs, sorted.
func changedTools(before, now map[string]string) []string {
	var out []string
	for name, hash := range before {
		if h, ok := now[name]; ok && h != hash {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// judge refreshes what depends on tools, policy and reviews: safety, unbound tools, counts and the state of an
// open proposal. What was decided stays as it was decided.
func (p Policy) judge(proposal *Proposal, c content) {
	proposal.Unbound, proposal.Binders = c.unbound, c.binders
	if proposal.Open() {
		proposal.Safety = c.safety
		proposal.State = p.state(proposal)
	}
	t := p.tally(proposal)
	proposal.Needs, proposal.Approvals = t.Needs, t.Approvals
}

// rejudge stores the new state and safety of open proposals after tools or the policy changed; names nil means
// all of them, else those that use one of the tools.
func (c *change) rejudge(names []string) error { return c.rejudgeBut("", names) }

// rejudgeBut leaves out the proposal that is being changed.
func (c *change) rejudgeBut(id string, names []string) error {
	rows, err := c.ProposalsInStates(c.tenant, openStates...)
	if err != nil {
		return err
	}
	tools, err := toolsIn(&c.Reader, c.tenant)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if row.ID == id {
			continue
		}
		e, err := load(&c.Reader, c.tenant, row)
		if err != nil {
			return err
		}
		uses := func(name string) bool { return slices.Contains(names, name) }
		if names != nil && !slices.ContainsFunc(ToolNames(e.Flow), uses) {
			continue
		}
		state, safety := e.State, e.Safety
		c.policy.judge(&e.Proposal, tools.contentOf(e.Flow))
		if e.State == state && e.Safety == safety {
			continue
		}
		if err := c.save(e); err != nil {
			return err
		}
		if err := c.audit("proposal.rejudge", "proposal/"+e.ID, map[string]any{"state": e.State, "safety": e.Safety}); err != nil {
			return err
		}
	}
	return nil
}

var openStates = []string{string(StateProposed), string(StateInReview), string(StateChanges), string(StateApproved)}

// find loads a proposal by its id, a unique prefix of it (four characters or more), or the name of its flow,
// where an open proposal goes before decided ones and newer before older.
func find(r *store.Reader, tenant, ref string) (*entry, error) {
	row, err := r.Proposal(tenant, ref)
	if errors.Is(err, store.ErrNotFound) {
		row, err = findLike(r, tenant, ref)
	}
	if err != nil {
		return nil, notFound(err, "there is no proposal %q", ref)
	}
	return load(r, tenant, row)
}

func findLike(r *store.Reader, tenant, ref string) (store.ProposalRow, error) {
	rows, err := r.ProposalsLike(tenant, ref)
	if err != nil {
		return store.ProposalRow{}, err
	}
	var named, prefixed []store.ProposalRow
	for _, row := range rows {
		if row.FlowName == ref {
			named = append(named, row)
		} else if len(ref) >= 4 {
			prefixed = append(prefixed, row)
		}
	}
	if i := slices.IndexFunc(named, func(row store.ProposalRow) bool { return slices.Contains(openStates, row.State) }); i >= 0 {
		return named[i], nil
	}
	switch {
	case len(named) > 0:
		return named[0], nil
	case len(prefixed) == 1:
		return prefixed[0], nil
	case len(prefixed) > 1:
		return store.ProposalRow{}, flows.NewError(flows.CodeInvalid, fmt.Sprintf("%q names %d proposals; give more of the id", ref, len(prefixed)))
	}
	return store.ProposalRow{}, store.ErrNotFound
}
