package governance

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"pave/governance/store"
	"pave/observer"
)

// ErasedRuns says what was taken out of flow runs.
type ErasedRuns struct {
	Runs int64 // whose values were deleted
	Open int64 // that go on or wait, and were left alone
	// Sessions are those under which the calls of the runs were recorded, also of runs that were erased before.
	Sessions []string
}

// Derived counts what was made of deleted sessions, and went with them.
type Derived struct {
	GoldenTests  int64 // of flow versions
	Proposals    int64 // whose evidence cited one
	ReplayChecks int64
	MiningRuns   int64
	Runs         int64 // flow runs whose values were deleted
	RunsOpen     int64 // flow runs of the sessions that go on or wait: their values are still there
}

// citation is a place of the state store that holds something of a session.
type citation struct {
	kind   citing
	id     string // of a proposal or a mining pass, or the name of a flow
	digest string // of a replay check, or the version of a flow
	n      int    // of a golden test
	older  bool   // of a mining pass that is not the newest: nobody reads its patterns any more
}

type citing uint8

const (
	citingTest citing = iota
	citingCheck
	citingProposal
	citingMining
)

// citations are the places that hold something of each session, and under "" those that are emptied in any case: the
// patterns of all mining passes but the newest, which would have to be searched at every deletion.
type citations map[string][]citation

func (c citations) add(place citation, sessions []string) {
	slices.Sort(sessions)
	for _, id := range slices.Compact(sessions) {
		c[id] = append(c[id], place)
	}
}

// citationsIn reads what the state store has of sessions.
func citationsIn(r *store.Reader, tenant string) (citations, error) {
	found := citations{}
	if err := r.EachFlowTest(tenant, func(row store.FlowTestRow) error {
		var test struct{ SessionID string }
		if err := decode(row.Body, &test); err != nil {
			return err
		}
		found.add(citation{kind: citingTest, id: row.Flow, digest: row.Version, n: row.N}, []string{test.SessionID})
		return nil
	}); err != nil {
		return nil, err
	}
	if err := r.EachReplayCheck(tenant, func(row store.CheckRow) error {
		var check ReplayCheck
		if err := decode(row.Body, &check); err != nil {
			return err
		}
		found.add(citation{kind: citingCheck, id: row.ProposalID, digest: row.Digest}, check.sessions())
		return nil
	}); err != nil {
		return nil, err
	}
	if err := r.EachProposalBody(tenant, func(id string, raw []byte) error {
		var body struct {
			Evidence struct{ Pattern *observer.Pattern }
		}
		if err := decode(raw, &body); err != nil || body.Evidence.Pattern == nil {
			return err
		}
		found.add(citation{kind: citingProposal, id: id}, patternSessions(body.Evidence.Pattern))
		return nil
	}); err != nil {
		return nil, err
	}
	newest, err := r.LastMiningRun(tenant, string(MiningDone))
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	return found, r.EachMiningBody(tenant, func(id string, raw []byte) error {
		var body struct {
			Result *struct{ Patterns []observer.Pattern }
		}
		if err := decode(raw, &body); err != nil || body.Result == nil {
			return err
		}
		var sessions []string
		for i := range body.Result.Patterns {
			sessions = append(sessions, patternSessions(&body.Result.Patterns[i])...)
		}
		switch {
		case id == newest.ID:
			found.add(citation{kind: citingMining, id: id}, sessions)
		case len(sessions) > 0:
			found[""] = append(found[""], citation{kind: citingMining, id: id, older: true})
		}
		return nil
	})
}

func (c *ReplayCheck) sessions() (ids []string) {
	for i := range c.Golden {
		ids = append(ids, c.Golden[i].SessionID)
	}
	for _, w := range slices.Concat(c.Diverged, c.Blocked) {
		ids = append(ids, w.SessionID)
	}
	return ids
}

func patternSessions(p *observer.Pattern) (ids []string) {
	for i := range p.Examples {
		ids = append(ids, p.Examples[i].SessionID)
	}
	if p.DataFlow == nil {
		return ids
	}
	eachEvidence(p.DataFlow, func(e *observer.Evidence) { ids = append(append(ids, e.Supporting...), e.Contradicting...) })
	for i := range p.DataFlow.Inputs {
		ids = append(ids, p.DataFlow.Inputs[i].ExampleSessions...)
	}
	return ids
}

func eachEvidence(f *observer.DataFlow, fn func(*observer.Evidence)) {
	for k := range f.Steps {
		if each := f.Steps[k].Each; each != nil {
			fn(&each.Evidence)
		}
		for i := range f.Steps[k].Args {
			fn(&f.Steps[k].Args[i].Evidence)
		}
	}
}

// strip takes what is of the sessions out of the places that hold it.
func (c *change) strip(places []citation, gone map[string]bool, count *Derived) error {
	for _, at := range places {
		var err error
		switch at.kind {
		case citingTest:
			count.GoldenTests++
			err = c.DeleteFlowTest(c.tenant, at.id, at.digest, at.n)
		case citingCheck:
			count.ReplayChecks++
			err = c.stripCheck(at, gone)
		case citingProposal:
			count.Proposals++
			err = c.stripProposal(at.id, gone)
		case citingMining:
			if !at.older {
				count.MiningRuns++
			}
			err = c.stripMining(at, gone)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *change) stripCheck(at citation, gone map[string]bool) error {
	raw, err := c.ReplayCheck(c.tenant, at.id, at.digest)
	if err != nil {
		return err
	}
	var check ReplayCheck
	if err := decode(raw, &check); err != nil {
		return err
	}
	check.Golden = slices.DeleteFunc(check.Golden, func(g GoldenTest) bool { return gone[g.SessionID] })
	window := func(w ReplayWindow) bool { return gone[w.SessionID] }
	check.Diverged, check.Blocked = slices.DeleteFunc(check.Diverged, window), slices.DeleteFunc(check.Blocked, window)
	body, err := json.Marshal(&check)
	if err != nil {
		return fmt.Errorf("encode replay check: %w", err)
	}
	return c.RewriteReplayCheck(c.tenant, at.id, at.digest, body)
}

func (c *change) stripProposal(id string, gone map[string]bool) error {
	row, err := c.Proposal(c.tenant, id)
	if err != nil {
		return err
	}
	var body proposalBody
	if err := decode(row.Body, &body); err != nil {
		return err
	}
	if body.Evidence.Pattern != nil {
		StripPattern(body.Evidence.Pattern, gone)
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode proposal: %w", err)
	}
	return c.RewriteProposal(c.tenant, id, raw)
}

func (c *change) stripMining(at citation, gone map[string]bool) error {
	row, err := c.MiningRun(c.tenant, at.id)
	if err != nil {
		return err
	}
	run, err := miningRun(row)
	if err != nil {
		return err
	}
	for i := range run.Result.Patterns {
		if p := &run.Result.Patterns[i]; at.older {
			p.Examples, p.DataFlow = nil, nil
		} else {
			StripPattern(p, gone)
		}
	}
	raw, err := json.Marshal(run)
	if err != nil {
		return fmt.Errorf("encode mining run: %w", err)
	}
	return c.RewriteMiningRun(c.tenant, at.id, raw)
}

// StripPattern takes sessions, and the example values that are from them, out of a pattern. Counts stay. Examples of which
// nobody wrote down whose they are go with any session.
func StripPattern(p *observer.Pattern, gone map[string]bool) {
	p.Examples = without(p.Examples, func(o observer.Occurrence) bool { return gone[o.SessionID] })
	if p.DataFlow == nil {
		return
	}
	of := func(id string) bool { return gone[id] }
	eachEvidence(p.DataFlow, func(e *observer.Evidence) {
		e.Supporting, e.Contradicting = without(e.Supporting, of), without(e.Contradicting, of)
	})
	for i := range p.DataFlow.Inputs {
		in := &p.DataFlow.Inputs[i]
		if len(in.ExampleSessions) != len(in.Examples) {
			in.Examples, in.ExampleSessions = nil, nil
			continue
		}
		var examples []any
		for k, id := range in.ExampleSessions {
			if !gone[id] {
				examples = append(examples, in.Examples[k])
			}
		}
		in.Examples, in.ExampleSessions = examples, without(in.ExampleSessions, of)
	}
}

// without is the list without those that drop says; others may hold the list itself.
func without[T any](list []T, drop func(T) bool) []T {
	if !slices.ContainsFunc(list, drop) {
		return list
	}
	return slices.DeleteFunc(slices.Clone(list), drop)
}
