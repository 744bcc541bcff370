package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"pave/api/gen"
	"pave/cmd/pave/internal/output"
)

type mineCmd struct {
	From        time.Time `help:"Only sessions from this time on (RFC 3339, or a day of UTC)." env:"PAVE_FROM" placeholder:"TIME"`
	To          time.Time `help:"Only sessions before this time (RFC 3339, or a day of UTC)." env:"PAVE_TO" placeholder:"TIME"`
	MinSessions int       `help:"A path must occur in this many sessions; 0 takes mining.min_sessions." env:"PAVE_MIN_SESSIONS"`
	MaxLength   int       `help:"Longest path, 2 to 16; 0 takes mining.max_length." env:"PAVE_MAX_LENGTH"`
	Incremental bool      `help:"Count the days that changed only, where that is enough (through a server)." env:"PAVE_INCREMENTAL"`
	Explain     *string   `help:"Mine nothing; say why a path was or was not proposed, such as 'find_user > get_user'." env:"PAVE_EXPLAIN" placeholder:"PATTERN" xor:"what"`
	WhyNot      bool      `help:"Mine nothing; list the frequent paths that the last pass did not propose, and what blocks each." env:"PAVE_WHY_NOT" xor:"what"`
	Status      bool      `help:"Mine nothing; say how the mining loop of the server stands." env:"PAVE_MINE_STATUS" xor:"what"`
	Pass        string    `help:"Mine nothing; show what this pass found." env:"PAVE_PASS" placeholder:"ID" xor:"what"`
	Passes      bool      `help:"Mine nothing; list the passes, the newest first." env:"PAVE_PASSES" xor:"what"`
	Follow      string    `help:"Mine nothing; show this pass as it goes on." env:"PAVE_FOLLOW" placeholder:"ID" xor:"what"`
	Settings    bool      `help:"Mine nothing; list the settings of mining that are in force here." env:"PAVE_SETTINGS" xor:"what"`
}

// Run mines and waits for the end of the pass, or answers a question about mining.
func (c *mineCmd) Run(e *env) error {
	if c.asks() && (!c.From.IsZero() || !c.To.IsZero() || c.MinSessions != 0 || c.MaxLength != 0 || c.Incremental) {
		return errUsage("--from, --to, --min-sessions, --max-length and --incremental are for mining, not for questions about it")
	}
	if c.Settings {
		settings := e.g.Mining.list()
		return e.printValue(settings, func(w io.Writer) error { return printMiningSettings(w, settings) })
	}
	if err := e.g.Mining.usable(); err != nil {
		return err
	}
	return e.withClient(func(cl *client) error {
		switch {
		case c.Explain != nil:
			return c.explain(e, cl)
		case c.Pass != "":
			resp, err := check(cl.GetMiningRunWithResponse(e.ctx, c.Pass))
			if err != nil {
				return err
			}
			return e.print(resp.GetBody(), func(w io.Writer) error { return mineTable(w, resp.JSON200) })
		case c.WhyNot:
			return whyNot(e, cl)
		case c.Passes:
			return passes(e, cl)
		case c.Follow != "":
			return c.follow(e, cl)
		case c.Status:
			return miningStatus(e, cl)
		}
		return c.mine(e, cl)
	})
}

// asks reports whether nothing is to be mined.
func (c *mineCmd) asks() bool {
	return c.Explain != nil || c.WhyNot || c.Status || c.Pass != "" || c.Passes || c.Follow != "" || c.Settings
}

func (c *mineCmd) mine(e *env, cl *client) error {
	resp, err := check(cl.StartMiningRunWithResponse(e.ctx, &gen.StartMiningRunParams{Wait: true},
		gen.MiningRequest{From: c.From, To: c.To, MinSessions: c.MinSessions, MaxLength: c.MaxLength, Incremental: c.Incremental}))
	if err != nil {
		return err
	}
	if resp.StatusCode() != http.StatusOK {
		return fmt.Errorf("the pass did not end in time; see GET %s", resp.HTTPResponse.Header.Get("Location"))
	}
	return e.print(resp.GetBody(), func(w io.Writer) error { return mineTable(w, resp.JSON200) })
}

func mineTable(w io.Writer, m *gen.MiningRun) error {
	fmt.Fprintf(w, "mining run %s %s\n", m.ID, m.Status)
	fmt.Fprintf(w, "read       %d sessions, %d tool calls in %d stretches, issued in %d model turns, %d exact repeats\n",
		m.Sessions, m.Calls, m.Stretches, m.LlmCalls, m.RepeatCalls)
	if i := m.Increment; i != nil && m.Mode == gen.MiningModeIncremental {
		fmt.Fprintf(w, "counted    %d calls of %d days that changed; patterns and mappings are those of the last full pass\n", i.Calls, i.Days)
	}
	if m.LeftOutCalls > 0 {
		fmt.Fprintf(w, "left out   %d calls of the oldest sessions; mining.max_calls is the limit\n", m.LeftOutCalls)
	}
	if m.EarlierCalls > 0 {
		fmt.Fprintf(w, "earlier    %d calls of tools from before they changed incompatibly were not mined\n", m.EarlierCalls)
	}
	if m.NotExamined > 0 {
		fmt.Fprintf(w, "waiting    %d frequent paths were not looked at, others came first; mining.max_evaluated is the limit\n", m.NotExamined)
	}
	for _, n := range m.Noise {
		what := "keeping it gives better flows"
		if n.Skipped {
			what = "left out"
		}
		fmt.Fprintf(w, "noise      %s is called anywhere and carries no value, %d times: %s\n", output.Clean(n.Tool), n.Calls, what)
	}
	fmt.Fprintf(w, "found      %d patterns, %d candidates, %d blocked paths\n", m.Patterns, m.Candidates, m.Blocked)
	p := m.Proposals
	_, err := fmt.Fprintf(w, "proposals  %d new, %d returned, %d updated, %d changed, %d unchanged, %d suppressed, %d over the cap\n",
		p.Created, p.Returned, p.Updated, p.Changed, p.Unchanged, p.Suppressed, p.Capped)
	return err
}

// toolsOf reads a path as people write it: tools between >, spaces do not count.
func toolsOf(path string) []string {
	var tools []string
	for _, tool := range strings.Split(path, ">") {
		if tool = strings.TrimSpace(tool); tool != "" {
			tools = append(tools, tool)
		}
	}
	return tools
}

func (c *mineCmd) explain(e *env, cl *client) error {
	tools := toolsOf(*c.Explain)
	if len(tools) == 0 {
		return errUsage("--explain: name the tools of the path, such as 'find_user > get_user'\n")
	}
	resp, err := check(cl.ExplainPatternWithResponse(e.ctx, &gen.ExplainPatternParams{Tool: tools}))
	if err != nil {
		return err
	}
	return e.print(resp.GetBody(), func(w io.Writer) error { return printExplanation(w, resp.JSON200) })
}

func printExplanation(w io.Writer, x *gen.PatternExplanation) error {
	fmt.Fprintf(w, "%s: %s\n", output.Clean(pathOf(x.Tools)), strings.ReplaceAll(string(x.Verdict), "_", " "))
	fmt.Fprintf(w, "  %s\n", output.Clean(x.Detail))
	if x.Unblock != "" {
		fmt.Fprintf(w, "  what would change it: %s\n", output.Clean(x.Unblock))
	}
	if x.Dropped != "" && !strings.Contains(x.Detail, x.Dropped) {
		fmt.Fprintf(w, "  no flow is made of it: %s\n", output.Clean(x.Dropped))
	}
	fmt.Fprintf(w, "  %d occurrences in %d sessions (a path needs %d), %d with a failed call; %.1f by chance\n",
		x.Occurrences, x.Sessions, x.MinSessions, x.Failures, x.Expected)
	for k, confidence := range x.StepConfidence {
		fmt.Fprintf(w, "  after %s, %s follows in %.0f %%\n", output.Clean(pathOf(x.Tools[:k+1])), output.Clean(x.Tools[k+1]), 100*confidence)
	}
	printNeighbours(w, "before it", x.Before)
	printNeighbours(w, "after it", x.After)
	for _, p := range x.Proposals {
		line := fmt.Sprintf("  proposal %s (%s): %s %s", output.Clean(p.Flow), output.Clean(p.ProposalID), p.Outcome, output.Clean(p.Reason))
		fmt.Fprintln(w, strings.TrimRight(line, " "))
	}
	return nil
}

func printNeighbours(w io.Writer, where string, list []gen.PatternNeighbour) {
	if len(list) == 0 {
		return
	}
	var words []string
	for _, n := range list {
		name := n.Tool
		if name == "" {
			name = "(end)"
		}
		words = append(words, fmt.Sprintf("%s %d", output.Clean(name), n.Windows))
	}
	fmt.Fprintf(w, "  %s: %s\n", where, strings.Join(words, ", "))
}

// whyNot lists what the last pass found and did not propose.
func whyNot(e *env, cl *client) error {
	resp, err := check(cl.ListPatternsWithResponse(e.ctx, &gen.ListPatternsParams{Limit: 1}))
	if err != nil {
		return err
	}
	return e.printValue(resp.JSON200.Blocked, func(w io.Writer) error {
		if len(resp.JSON200.Blocked) == 0 {
			_, err := fmt.Fprintln(w, "no frequent path is left")
			return err
		}
		for _, b := range resp.JSON200.Blocked {
			printBlockedPath(w, b)
		}
		return nil
	})
}

func printBlockedPath(w io.Writer, b gen.Blocked) {
	fmt.Fprintf(w, "  %s  (%d times in %d sessions)\n    %s: %s\n", output.Clean(pathOf(b.Tools)), b.Occurrences, b.Sessions,
		output.Clean(b.Reason), output.Clean(b.Detail))
	if b.Unblock != "" {
		fmt.Fprintf(w, "    unblocked by: %s\n", output.Clean(b.Unblock))
	}
}

func miningStatus(e *env, cl *client) error {
	resp, err := check(cl.GetMiningStatusWithResponse(e.ctx))
	if err != nil {
		return err
	}
	return e.print(resp.GetBody(), func(w io.Writer) error { return printMiningStatus(w, resp.JSON200) })
}

func printMiningStatus(w io.Writer, s *gen.MiningStatus) error {
	if s.Running {
		fmt.Fprintf(w, "running    pass %s (%s), %s", s.MiningRunID, s.Trigger, s.Phase)
		if p := s.Progress; p != nil {
			fmt.Fprintf(w, ": %s %d of %d", p.Stage, p.Done, p.Total)
		}
		fmt.Fprintln(w)
	}
	waits := ""
	if s.ToolsChanged {
		waits = ", and tools changed"
	}
	fmt.Fprintf(w, "waiting    %d sessions%s\n", s.PendingSessions, waits)
	switch {
	case !s.Automatic:
		fmt.Fprintln(w, "next       when somebody asks")
	case !s.NextAt.IsZero():
		fmt.Fprintf(w, "next       %s at the latest, if anything waits\n", s.NextAt.Format(time.RFC3339))
	}
	if l := s.Last; l != nil {
		fmt.Fprintf(w, "last       pass %s %s (%s, %s) at %s, %d ms: %d sessions, %d calls, %d patterns, %d candidates %s\n", l.MiningRunID, l.Status, l.Trigger, l.Mode,
			l.EndedAt.Format(time.RFC3339), l.DurationMs, l.Sessions, l.Calls, l.Patterns, l.Candidates, output.Clean(l.Error))
	}
	_, err := fmt.Fprintf(w, "passes     %d since the start, %d incremental, %d failed\n", s.Passes, s.IncrementalPasses, s.Failures)
	return err
}
