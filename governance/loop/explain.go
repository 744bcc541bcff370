package loop

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"pave/analyzer"
	"pave/flows"
	"pave/governance"
	"pave/ingest"
	"pave/observer"
)

// Explanation says why a path is or is not proposed.
type Explanation struct {
	*observer.Explanation
	RunID     string                   // the pass that was looked at, "" without any
	Dropped   string                   // why the analyzer made no flow of the pattern
	Proposals []governance.ProposeItem // what the queue did with its flows at that pass
}

// Explain looks at one path, given by its tools, in what is recorded now and in the newest pass that is done.
// CodeInvalid: not 2 to 16 tools.
func (l *Loop) Explain(ctx context.Context, actor governance.Actor, tools []string) (*Explanation, error) {
	if len(tools) < 2 || len(tools) > maxLength {
		return nil, flows.NewError(flows.CodeInvalid, fmt.Sprintf("a path has 2 to %d tools, not %d", maxLength, len(tools)))
	}
	run, err := l.queue.MiningRun(ctx, actor, "")
	if flows.CodeOf(err) == flows.CodeNotFound {
		run = &governance.MiningRun{}
	} else if err != nil {
		return nil, err
	}
	tenant := actor.Tenant
	if tenant == "" {
		tenant = ingest.DefaultTenant
	}
	options := l.observerOptions(run.Request)
	if options.Since, err = l.queue.ToolEras(ctx, actor); err != nil {
		return nil, err
	}
	found, err := observer.Explain(ctx, Source{Events: l.events, Tenant: tenant}, run.Result, tools, options)
	if err != nil {
		return nil, unavailable(fmt.Errorf("explain: %w", err))
	}
	e := &Explanation{Explanation: found, RunID: run.ID}
	if i := slices.IndexFunc(run.Dropped, func(d governance.DroppedPattern) bool { return slices.Equal(d.Tools, tools) }); i >= 0 {
		d := &run.Dropped[i]
		e.Dropped = d.Reason
		if e.Verdict == observer.VerdictPattern && d.Code == analyzer.DroppedOrder {
			e.Verdict, e.Detail, e.Dropped = observer.VerdictServed, "No flow of its own is made of it: "+d.Reason+".", ""
		} else if e.Verdict == observer.VerdictPattern {
			e.Verdict, e.Detail, e.Unblock = observer.VerdictBlocked, "The recorded values prove a flow, and none is made of it: "+d.Reason+".", d.Unblock
		}
	}
	for _, item := range run.Report.Items {
		if slices.Equal(pathOfKey(item.PatternKey), tools) {
			e.Proposals = append(e.Proposals, item)
		}
	}
	return e, nil
}

// pathOfKey are the tools of a pattern key, without the marks of loops, of optional steps and of variants.
func pathOfKey(key string) []string {
	parts := strings.SplitN(key, "/", 3)
	path, _, _ := strings.Cut(parts[len(parts)-1], "#")
	tools := strings.Split(path, ">")
	for i := range tools {
		tools[i] = strings.TrimRight(tools[i], "+?")
	}
	return tools
}
