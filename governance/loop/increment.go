package loop

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"pave/analyzer"
	"pave/flows"
	"pave/governance"
	"pave/observer"
)

// newFullPass keeps what incremental passes go on from. Candidates point into the patterns that they are of.
func newFullPass(tenant string, mined *observer.Result, candidates []analyzer.Candidate, tools string, now time.Time) *fullPass {
	f := &fullPass{tenant: tenant, result: mined, candidates: candidates, tools: tools, ended: now}
	for i := range candidates {
		f.pattern = append(f.pattern, slices.IndexFunc(mined.Patterns, func(p observer.Pattern) bool {
			q := candidates[i].Evidence.Pattern
			return q != nil && q.DataFlow == p.DataFlow
		}))
	}
	return f
}

// increment counts the days that changed and brings proposals their new evidence. done is false where only a full pass
// can go on: there was none in this process, it is too long ago, tools changed, or new paths came up.
func (l *Loop) increment(ctx context.Context, actor governance.Actor, run *governance.MiningRun, src Source, tools string) (done bool, err error) {
	last := l.full
	if last == nil || l.forgot() || last.tenant != src.Tenant || last.tools != tools || last.result.Calls <= l.settings.FullBelow ||
		l.now().Sub(last.ended) >= l.settings.FullEvery {
		return false, nil
	}
	if err := l.phase(ctx, actor, run, "observe"); err != nil {
		return false, err
	}
	result, inc, err := observer.Update(ctx, src, last.result, l.observerOptions(governance.MiningRequest{}))
	if errors.Is(err, observer.ErrNoTally) {
		return false, nil
	}
	if err != nil {
		return false, unavailable(fmt.Errorf("count the days that changed: %w", err))
	}
	run.Increment = &inc
	if inc.NewPaths > 0 || inc.Growth >= 1+l.settings.FullGrowth {
		return false, nil
	}
	run.Mode, run.Result = governance.ModeIncremental, result
	return true, l.propose(ctx, actor, run, last.updated(result))
}

// updated are the candidates with the counts of the result. Drafts and mappings are as they were.
func (f *fullPass) updated(result *observer.Result) []analyzer.Candidate {
	out := slices.Clone(f.candidates)
	for i := range out {
		c := &out[i]
		c.Evidence.Window.Sessions, c.Evidence.Window.Calls = result.Sessions, result.Calls
		if f.pattern[i] < 0 {
			continue
		}
		before, now := c.Evidence.Pattern, &result.Patterns[f.pattern[i]]
		c.Evidence.Pattern = now
		c.Score += now.Score - before.Score // other orders of the flow apart
		c.Savings.Occurrences += now.Occurrences - before.Occurrences
		if before.Occurrences > 0 {
			c.Savings.PerWeek *= float64(now.Occurrences) / float64(before.Occurrences)
		}
	}
	return out
}

// fingerprint changes when a declared tool does.
func fingerprint(tools []*flows.Tool) string {
	h := sha256.New()
	encoder := json.NewEncoder(h)
	for _, t := range tools {
		if err := encoder.Encode(t); err != nil {
			fmt.Fprintln(h, t.Name, err) // a tool that cannot be written counts by its name
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}
