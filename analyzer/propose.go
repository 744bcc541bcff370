package analyzer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"pave/flows"
	"pave/flows/value"
	"pave/ingest"
	"pave/observer"
)

// SessionSource gives assembled sessions with payloads, as observer.Source does.
type SessionSource interface {
	Sessions(ctx context.Context, ids []string, fn func(*ingest.Session) error) error
}

// Options of a pass. Zero fields take the default in parentheses.
type Options struct {
	MaxDepth  int       // tools of a schema chain (3)
	MaxChains int       // candidates from schema chains (10; negative: none)
	Values    Overlaps  // recorded values that make schema edges plausible; nil leaves them out
	Price     PriceFunc // cost of model calls whose cost was not recorded; nil leaves it unknown
	// Secondary makes candidates of patterns that add little to better ones, too, as a measurement of all that is
	// possible wants; a queue for people does without.
	Secondary bool
	// Dropped is told of each pattern that makes no candidate, and why; nil is none.
	Dropped func(Dropped)
}

func (o Options) withDefaults() Options {
	if o.MaxDepth <= 0 {
		o.MaxDepth = 3
	}
	if o.MaxChains == 0 {
		o.MaxChains = 10
	}
	if o.Dropped == nil {
		o.Dropped = func(Dropped) {}
	}
	return o
}

// Propose turns what was mined into candidates: a draft flow for each pattern whose arguments are all explained
// and whose mappings fit the tools' schemas, with evidence and the savings that the recorded model calls of its
// occurrences tell; and drafts for schema chains that were never observed, a queue of their own. Candidates of
// one source are in rank order, the miner's first. The same input gives the same candidates.
func Propose(ctx context.Context, mined *observer.Result, catalogue Catalogue, sessions SessionSource, opts Options) ([]Candidate, error) {
	opts = opts.withDefaults()
	tools := newLookup(catalogue)
	window := Window{From: mined.From, To: mined.To, Sessions: mined.Sessions, Calls: mined.Calls}
	facts, err := readExamples(ctx, mined.Patterns, sessions, opts.Price)
	if err != nil {
		return nil, err
	}
	out := mergeOrders(minedCandidates(mined, tools, facts, window, opts), opts.Dropped)
	chains := coldCandidates(mined, tools, window, opts)
	all := append(out, chains...)
	nameCandidates(all)
	return all, nil
}

// example is what the recorded occurrences of one pattern tell.
type exampleFacts struct {
	measured []measure
	kinds    []resultKind // per step
	answers  []answers    // per step
}

// readExamples reads each example session once.
func readExamples(ctx context.Context, patterns []observer.Pattern, sessions SessionSource, price PriceFunc) ([]exampleFacts, error) {
	type use struct {
		pattern int
		at      observer.Occurrence
	}
	facts := make([]exampleFacts, len(patterns))
	uses := map[string][]use{}
	for i := range patterns {
		facts[i].kinds, facts[i].answers = make([]resultKind, len(patterns[i].Tools)), make([]answers, len(patterns[i].Tools))
		for _, o := range patterns[i].Examples {
			uses[o.SessionID] = append(uses[o.SessionID], use{i, o})
		}
	}
	if len(uses) == 0 || sessions == nil {
		return facts, nil
	}
	err := sessions.Sessions(ctx, sortedKeys(uses), func(s *ingest.Session) error {
		for _, u := range uses[s.ID] {
			if u.at.RunIndex < 0 || u.at.RunIndex >= len(s.Runs) {
				continue
			}
			facts[u.pattern].add(&s.Runs[u.at.RunIndex], &u.at, price)
		}
		return nil
	})
	return facts, err
}

func (f *exampleFacts) add(run *ingest.AgentRun, at *observer.Occurrence, price PriceFunc) {
	m, ok := measureOccurrence(run, at.Calls, price)
	if !ok {
		return
	}
	f.measured = append(f.measured, m)
	for k, calls := range at.Steps() {
		if len(calls) == 0 { // left out
			continue
		}
		c := calls[0]
		if k < len(f.answers) {
			f.answers[k].add(&run.Calls[c])
		}
		result := bytes.TrimLeft(run.Calls[c].Result, " \t\r\n")
		switch {
		case k >= len(f.kinds) || len(result) == 0 || run.Calls[c].Status == ingest.StatusError:
		case result[0] == '{':
			f.kinds[k].objects++
		default:
			f.kinds[k].others++
		}
	}
}

func minedCandidates(mined *observer.Result, tools *lookup, facts []exampleFacts, window Window, opts Options) []Candidate {
	var out []Candidate
	for i := range mined.Patterns {
		p := &mined.Patterns[i]
		if p.DataFlow == nil || len(p.Tools) == 0 || len(p.DataFlow.Steps) != len(p.Tools) {
			continue
		}
		if p.Secondary && !opts.Secondary {
			opts.Dropped(Dropped{Tools: p.Tools, Code: DroppedSecondary, Reason: p.Why, Unblock: p.Unblock})
			continue
		}
		saved := savings(p, window, facts[i].measured)
		if saved.LLMCallsPerRun.Known > 0 && saved.LLMCallsPerRun.Mean == 0 {
			opts.Dropped(Dropped{Tools: p.Tools, Code: DroppedNoSaving, Reason: "all of its calls come from one model call, so a flow would save none"})
			continue
		}
		d, refused := anyDraftOf(p, tools, facts[i].kinds)
		if refused != nil {
			opts.Dropped(refused.dropped(p.Tools))
			continue
		}
		d.warnOfMistakes(p, facts[i].answers)
		tools := markedTools(p)
		if p.Gap != nil {
			d.warn("agents made other calls between these steps in %d of %d occurrences (%s); the flow makes its calls one right after the other",
				p.Gap.Occurrences, p.Occurrences, betweenNames(p.Gap))
		}
		c := candidate(SourceMiner, tools, d, describeMined(p))
		switch {
		case p.Gap != nil:
			c.PatternKey = gappedKey(tools)
		case p.Batch != nil:
			c.PatternKey = batchKey(tools)
		}
		if p.Partial {
			c.PatternKey += "#" + mappingHash(p)
		}
		c.Evidence = Evidence{Window: window, Pattern: p}
		c.Savings, c.Score, c.Rank = saved, p.Score, len(out)
		c.Flow.Evidence = minedEvidence(p, window)
		setEstimates(c.Flow.Governance, saved, len(p.Tools))
		out = append(out, c)
	}
	return out
}

// anyDraftOf turns a pattern into a draft, unless the schemas of its tools refuse it.
func anyDraftOf(p *observer.Pattern, tools *lookup, kinds []resultKind) (*draft, refusal) {
	if p.Batch != nil {
		return batchDraftOf(p, tools, kinds), nil
	}
	return draftOf(p, tools, kinds)
}

func coldCandidates(mined *observer.Result, tools *lookup, window Window, opts Options) []Candidate {
	if opts.MaxChains < 0 {
		return nil
	}
	var all []*known
	for _, t := range tools.catalogue.Tools() {
		all = append(all, tools.tool(t.Name))
	}
	m := newMatrix(all, opts.Values)
	var out []Candidate
	for _, chain := range m.coldChains(mined, opts) {
		names := m.names(chain.tools)
		d, edges := m.draft(chain)
		c := candidate(SourceAnalyzer, names, d, describeChain(names))
		c.Rank, c.Score = len(out), chain.score
		c.Evidence = Evidence{Window: window, SchemaEdges: edges}
		c.Savings.Basis = fmt.Sprintf("built from tool schemas and not observed as a whole, so nothing is measured; up to %d model calls a run", len(names)-1)
		c.Flow.Evidence = map[string]any{"source": string(SourceAnalyzer)}
		setEstimates(c.Flow.Governance, Savings{}, len(names))
		out = append(out, c)
	}
	return out
}

func candidate(source Source, tools []string, d *draft, description string) Candidate {
	return Candidate{
		Source: source, Flow: d.flow("", description), PatternKey: string(source) + "/linear/" + strings.Join(tools, ">"),
		Unbound: d.unbound(), SafetyLevel: d.effects(), Warnings: d.warnings,
	}
}

// gappedKey keeps flows that leave other calls out apart from those for the same tools one right after the other.
func gappedKey(tools []string) string {
	return string(SourceMiner) + "/gapped/" + strings.Join(tools, ">")
}

// batchKey keeps flows that take whole calls apart from those that take values of one call to the next.
func batchKey(tools []string) string {
	return string(SourceMiner) + "/batch/" + strings.Join(tools, ">")
}

func betweenNames(g *observer.Gap) string {
	names := make([]string, len(g.Tools))
	for i := range names {
		names[i] = g.Tools[i].Tool
	}
	return strings.Join(names, ", ")
}

// nameCandidates gives names and, now that nothing changes any more, digests.
func nameCandidates(all []Candidate) {
	keys, tools := make([]string, len(all)), make([][]string, len(all))
	for i := range all {
		keys[i] = all[i].PatternKey
		for k := range all[i].Flow.Steps {
			tools[i] = append(tools[i], all[i].Flow.Steps[k].ToolName)
		}
	}
	for i, name := range uniqueNames(keys, tools) {
		all[i].Flow.Name = name
		all[i].Digest = flows.Digest(all[i].Flow)
	}
}

// mappingHash tells apart the flows of one sequence of tools by where their arguments come from.
func mappingHash(p *observer.Pattern) string {
	h := sha256.New()
	for k, step := range p.DataFlow.Steps {
		if step.Each != nil {
			fmt.Fprintf(h, "%d %s %d %s\n", k, step.Each.Kind, step.Each.Step, step.Each.Pointer)
		}
		for _, a := range step.Args {
			fmt.Fprintf(h, "%d %s %s %d %s %s %v %v\n", k, a.Arg, a.Kind, a.Step, a.Pointer, value.Canonical(a.Value), a.Only != nil, a.Given)
			if a.Derived != nil {
				fmt.Fprintf(h, "%v\n", *a.Derived)
			}
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:4])
}

// markedTools are the tools, marked where they run once per element of a list and where they are optional.
func markedTools(p *observer.Pattern) []string {
	out := slices.Clone(p.Tools)
	for k := range out {
		if p.DataFlow.Steps[k].Each != nil {
			out[k] += "+"
		}
		if p.DataFlow.Steps[k].When != nil {
			out[k] += "?"
		}
	}
	return out
}

func describeMined(p *observer.Pattern) string {
	words := make([]string, len(p.Tools))
	for k, tool := range p.Tools {
		words[k] = tool
		if p.DataFlow.Steps[k].Each != nil {
			words[k] = tool + " for each element of a list"
		}
		if p.DataFlow.Steps[k].When != nil {
			words[k] = "where it is needed " + tool
		}
	}
	if p.Batch != nil {
		return fmt.Sprintf("Makes the calls that its caller gives: %s, up to the first step that it gives nothing for. Mined from recorded sessions.", strings.Join(words, ", then "))
	}
	return fmt.Sprintf("Calls %s without a model call in between. Mined from recorded sessions.", strings.Join(words, ", then "))
}

// minedEvidence is the provenance block of the flow file. It is no part of the digest.
func minedEvidence(p *observer.Pattern, window Window) map[string]any {
	e := map[string]any{"source": string(SourceMiner), "occurrences": int64(p.Occurrences), "sessions": int64(p.Sessions),
		"sampled": int64(p.DataFlow.Sampled), "explained": int64(p.DataFlow.Explained)}
	if p.Batch != nil {
		e["callers_knew"] = int64(p.Batch.Several)
	}
	if !window.From.IsZero() && !window.To.IsZero() {
		const day = "2006-01-02"
		e["window"] = []any{window.From.UTC().Format(day), window.To.UTC().Format(day)}
	}
	return e
}

// setEstimates fills the governance block: model calls and tokens that one run saves.
func setEstimates(g *flows.Governance, s Savings, steps int) {
	g.EstimatedModelCallsRemoved = steps - 1
	if s.LLMCallsPerRun.Known > 0 {
		g.EstimatedModelCallsRemoved = int(s.LLMCallsPerRun.Mean + 0.5)
	}
	if s.TokensPerRun.Known > 0 {
		tokens := int64(s.TokensPerRun.Mean + 0.5)
		g.EstimatedTokenSavings = &tokens
	}
}
