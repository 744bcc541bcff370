package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"

	"pave/analyzer"
	"pave/api"
	"pave/api/gen"
	"pave/cmd/pave/internal/output"
	"pave/flows"
	"pave/governance/loop"
	"pave/ingest"
	"pave/ingest/transcript"
	"pave/observer"
)

type analyzeCmd struct {
	Paths       []string   `arg:"" name:"path" help:"Files, folders or patterns; .gz and .zst are read too."`
	Format      fileFormat `help:"Format of the files, such as jsonl, traces or claude-code (a wrong one lists all); detected without it." env:"PAVE_FORMAT" placeholder:"FORMAT"`
	MinSessions int        `help:"A path must occur in this many sessions; 0 takes the default." env:"PAVE_MIN_SESSIONS"`
	Top         int        `help:"Rows of each list for people; 0 for all." env:"PAVE_TOP" default:"15"`
}

// analysis is what an analysis found, in the forms of the API.
type analysis struct {
	Sessions  int   `json:"sessions"`
	ToolCalls int   `json:"tool_calls"`
	Stretches int   `json:"stretches"`
	LLMCalls  int64 `json:"llm_calls"`
	// LLMCallsAssumed says that none was recorded, so that one is assumed for each turn with tool calls.
	LLMCallsAssumed bool `json:"llm_calls_assumed,omitempty"`
	// LLMCallsAvoidable is how many of them runs of the candidates would have avoided, each call in one run at most.
	LLMCallsAvoidable float64       `json:"llm_calls_avoidable"`
	RepeatCalls       int           `json:"repeat_calls"`
	Patterns          []gen.Pattern `json:"patterns"`
	Candidates        []candidate   `json:"candidates"`
	Blocked           []gen.Blocked `json:"blocked"`
}

// candidate is a flow that could be proposed.
type candidate struct {
	Source   analyzer.Source   `json:"source"`
	Name     string            `json:"name"`
	Flow     json.RawMessage   `json:"flow"`
	Evidence gen.Evidence      `json:"evidence"`
	Savings  gen.Savings       `json:"savings"`
	Safety   flows.SideEffects `json:"safety"`
	Warnings []string          `json:"warnings,omitempty"`
	draft    *flows.Flow
}

// Run reads the files, mines them in memory and prints what came out. There is no server and nothing is kept.
func (c *analyzeCmd) Run(e *env) error {
	if c.MinSessions < 0 {
		return errUsage(fmt.Sprintf("--min-sessions %d: a count is 0 or more", c.MinSessions))
	}
	if err := e.g.Mining.usable(); err != nil {
		return err
	}
	var events []ingest.Event
	bar := newBar(e.err)
	report, err := transcript.Import(e.ctx, c.Paths, transcript.Options{Format: transcript.Format(c.Format), Progress: bar.show},
		func(batch []ingest.Event) error {
			events = append(events, batch...)
			return nil
		})
	bar.done()
	if err == nil {
		err = anyFile(report, c.Paths)
	}
	if err != nil {
		return err
	}
	found, err := c.analyse(e.ctx, events, &e.g.Mining)
	if err != nil {
		return err
	}
	if report.LLMCalls > 0 {
		found.LLMCalls, found.LLMCallsAssumed = report.LLMCalls, false
	}
	if err := e.printValue(found, func(w io.Writer) error { return found.print(w, c.Top) }); err != nil {
		return err
	}
	return rejectedStatus(e, report)
}

func (c *analyzeCmd) analyse(ctx context.Context, events []ingest.Event, settings *miningSettings) (*analysis, error) {
	assembled := ingest.AssembleAll(ingest.DefaultTenant, events, ingest.AssembleOptions{})
	sessions := make([]ingest.Session, len(assembled))
	inferrer := analyzer.NewInferrer()
	for i, s := range assembled {
		sessions[i] = *s
		inferrer.ObserveSession(s)
	}
	source := observer.NewMemory(sessions)
	options := settings.observer()
	if c.MinSessions > 0 {
		options.MinSessions = c.MinSessions
	}
	mined, err := observer.Mine(ctx, source, options)
	if err != nil {
		return nil, fmt.Errorf("mine: %w", err)
	}
	candidates, err := analyzer.Propose(ctx, mined, analyzer.NewCatalogue(nil, inferrer.Tools()), source, analyzer.Options{Values: inferrer, Price: loop.Price})
	if err != nil {
		return nil, fmt.Errorf("analyse: %w", err)
	}
	return newAnalysis(mined, candidates)
}

func newAnalysis(mined *observer.Result, candidates []analyzer.Candidate) (*analysis, error) {
	a := &analysis{Sessions: mined.Sessions, ToolCalls: mined.Calls, Stretches: mined.Stretches, RepeatCalls: mined.RepeatCalls,
		LLMCalls: int64(mined.LLMCalls), LLMCallsAssumed: true,
		Patterns: []gen.Pattern{}, Candidates: []candidate{}, Blocked: []gen.Blocked{}}
	for _, p := range mined.Patterns {
		a.Patterns = append(a.Patterns, api.Pattern(p))
	}
	for _, b := range mined.Blocked {
		a.Blocked = append(a.Blocked, api.Blocked(b))
	}
	for _, c := range candidates {
		if c.Source == analyzer.SourceMiner && c.Savings.LLMCallsPerRun.Known > 0 {
			a.LLMCallsAvoidable += c.Score
		}
		doc, err := json.Marshal(c.Flow)
		if err != nil {
			return nil, fmt.Errorf("encode flow %s: %w", c.Flow.Name, err)
		}
		a.Candidates = append(a.Candidates, candidate{Source: c.Source, Name: c.Flow.Name, Flow: doc, Evidence: api.Evidence(c.Evidence),
			Savings: api.Savings(c.Savings), Safety: c.SafetyLevel, Warnings: c.Warnings, draft: c.Flow})
	}
	return a, nil
}

// print tells a curious person what was found.
func (a *analysis) print(w io.Writer, top int) error {
	if top < 1 {
		top = math.MaxInt
	}
	assumed := ""
	if a.LLMCallsAssumed {
		assumed = " (assumed: none is recorded, so one for each turn with tool calls)"
	}
	fmt.Fprintf(w, "%d sessions, %d tool calls in %d stretches without a user message, %d LLM calls%s\n",
		a.Sessions, a.ToolCalls, a.Stretches, a.LLMCalls, assumed)
	if a.RepeatCalls > 0 {
		fmt.Fprintf(w, "%d calls repeat the call before them exactly: a saving apart, left out below\n", a.RepeatCalls)
	}
	fmt.Fprintln(w, "\nWHAT REPEATS")
	if len(a.Patterns) == 0 {
		fmt.Fprintln(w, "  nothing often enough; more sessions, or --min-sessions, may change that")
	}
	t := output.NewTable(w, "  TIMES", "SESSIONS", "BY CHANCE", "PATH")
	shown := map[string]bool{} // a path may have several flows
	for _, p := range a.Patterns {
		if len(shown) == top || shown[pathOf(p.Tools)] {
			continue
		}
		shown[pathOf(p.Tools)] = true
		t.Row(fmt.Sprintf("  %d", p.Occurrences), fmt.Sprint(p.Sessions), fmt.Sprintf("%.1f", p.Expected), pathOf(p.Tools))
	}
	if len(a.Patterns) > 0 {
		if err := t.Flush(); err != nil {
			return err
		}
	}
	a.printCandidates(w, top)
	a.printBlocked(w, top)
	return nil
}

func (a *analysis) printCandidates(w io.Writer, top int) {
	fmt.Fprintln(w, "\nWHAT COULD RUN WITHOUT THE MODEL")
	if a.LLMCallsAvoidable > 0 && a.LLMCalls > 0 {
		fmt.Fprintf(w, "  as often as it was seen here, together: about %.0f of %d LLM calls (%s)\n",
			a.LLMCallsAvoidable, a.LLMCalls, share(int(math.Round(a.LLMCallsAvoidable)), int(a.LLMCalls)))
	}
	shown := 0
	for i := range a.Candidates {
		c := &a.Candidates[i]
		if c.Source != analyzer.SourceMiner || shown == top {
			continue
		}
		shown++
		p := c.Evidence.Pattern
		fmt.Fprintf(w, "\n%d. %s: %d times in %d sessions", shown, output.Clean(c.Name), p.Occurrences, p.Sessions)
		if b := p.Batch; b != nil {
			fmt.Fprintf(w, "; callers give the calls and knew more than the first in %d of %d examined", b.Several, b.Examined)
		} else if d := p.DataFlow; d != nil {
			fmt.Fprintf(w, "; every mapping held at once in %d of %d examined", d.Explained, d.Sampled)
		}
		fmt.Fprintf(w, "\n   saves per run (mean, 95 %% interval): %s; side effects: %s\n", savedPerRun(c.Savings), c.Safety)
		drawFlow(w, c.draft, mappingNotes(p))
		for _, text := range c.Warnings {
			fmt.Fprintf(w, "  warning: %s\n", output.Clean(text))
		}
	}
	if shown == 0 {
		fmt.Fprintln(w, "  no repeated path whose arguments the recorded values explain")
	}
}

// savedPerRun names what is known; recordings without tokens or times are common.
func savedPerRun(s gen.Savings) string {
	known := []string{figure(s.LlmCallsPerRun, "%.2f") + " LLM calls"}
	var missing []string
	for _, f := range []struct {
		name, unit string
		value      gen.Interval
	}{{"tokens", "tokens", s.TokensPerRun}, {"times", "ms", s.LatencyMsPerRun}} {
		if f.value.Known == 0 {
			missing = append(missing, f.name)
		} else {
			known = append(known, figure(f.value, "%.0f")+" "+f.unit)
		}
	}
	text := strings.Join(known, ", ")
	if len(missing) > 0 {
		text += " (" + strings.Join(missing, " and ") + " not recorded)"
	}
	return text
}

func (a *analysis) printBlocked(w io.Writer, top int) {
	fmt.Fprintln(w, "\nWHAT CANNOT, AND WHAT BLOCKS IT")
	if len(a.Blocked) == 0 {
		fmt.Fprintln(w, "  no frequent path is blocked")
	}
	for _, b := range a.Blocked[:min(top, len(a.Blocked))] {
		printBlockedPath(w, b)
	}
	if more := len(a.Blocked) - top; more > 0 {
		fmt.Fprintf(w, "  and %d more; --top shows them, or -o json\n", more)
	}
}
