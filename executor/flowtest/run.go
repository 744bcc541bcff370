package flowtest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"pave/executor"
	"pave/executor/bind/local"
	"pave/flows"
	"pave/flows/value"
)

// Fake is a tool written in Go. Errors that are *executor.ToolError choose their retry class.
type Fake func(ctx context.Context, input map[string]any) (any, error)

// Options of a run of tests; the zero value is complete.
type Options struct {
	Fakes map[string]Fake // by tool; the fakes and fixtures of a case come first
	// Tools are more tool definitions than the test files name; theirs come first.
	Tools executor.ToolSet
	// Invoker answers what nothing else answers. nil: such a call fails its case.
	Invoker executor.Invoker
}

// Run runs every case of the suite, in order.
func (s *Suite) Run(ctx context.Context, o Options) *Report {
	report := &Report{}
	library, tools, plan, failures := s.prepare(&o)
	for i := range s.Cases {
		c := &s.Cases[i]
		out := CaseReport{File: s.Path, Case: c.Name, Flow: s.Flow, Failures: failures}
		if plan != nil {
			out.Flow = plan.Flow().Name + "@" + plan.Flow().Version
		}
		if len(failures) == 0 {
			s.runCase(ctx, c, &setting{plan: plan, tools: tools, library: library, o: &o}, &out)
		}
		report.add(out)
	}
	return report
}

// Run runs suites one after the other.
func Run(ctx context.Context, suites []*Suite, o Options) *Report {
	report := &Report{}
	for _, s := range suites {
		for _, c := range s.Run(ctx, o).Cases {
			report.add(c)
		}
	}
	return report
}

// toolSets looks tools up in one set after the other.
type toolSets []executor.ToolSet

func (t toolSets) Tool(name string) (*flows.Tool, bool) {
	for _, set := range t {
		if tool, ok := set.Tool(name); ok {
			return tool, true
		}
	}
	return nil, false
}

// prepare reads the files and compiles the flow. A tool that some case fakes needs no definition.
func (s *Suite) prepare(o *Options) (*Library, executor.ToolSet, *executor.Plan, []Failure) {
	in := func(paths ...string) []string {
		out := make([]string, len(paths))
		for i, p := range paths {
			out[i] = p
			if !filepath.IsAbs(p) {
				out[i] = filepath.Join(filepath.Dir(s.Path), p)
			}
		}
		return out
	}
	path := in(s.Flow)[0]
	library, err := ReadLibrary(append([]string{path}, in(s.Flows...)...), in(s.Tools...))
	if err != nil {
		return nil, nil, nil, []Failure{{Pointer: "/flow", Code: string(flows.CodeOf(err)), Message: err.Error()}}
	}
	at := slices.IndexFunc(library.Files, func(f File) bool { return f.Path == filepath.Clean(path) })
	if at < 0 {
		return nil, nil, nil, []Failure{{Pointer: "/flow", Code: string(flows.CodeInvalid), Message: path + " is no flow file"}}
	}
	sets := toolSets{library}
	if o.Tools != nil {
		sets = append(sets, o.Tools)
	}
	sets = append(sets, s.faked(o))
	plan, found := executor.Compile(library.Files[at].Flow, sets, executor.CompileOptions{Flows: library})
	var failures []Failure
	for _, d := range found {
		if d.Severity == executor.SeverityError {
			failures = append(failures, Failure{Pointer: "/flow", Code: d.IssueType, Message: fmt.Sprintf("%s: %s", d.Pointer, d.Detail)})
		}
	}
	return library, sets, plan, failures
}

// faked has a definition without schemas for every tool that is only faked.
func (s *Suite) faked(o *Options) executor.Tools {
	tools := executor.Tools{}
	define := func(name string) { tools[name] = &flows.Tool{Name: name, Origin: flows.ToolDeclared} }
	for name := range o.Fakes {
		define(name)
	}
	for i := range s.Cases {
		for name := range s.Cases[i].Fakes {
			define(name)
		}
	}
	return tools
}

// setting is what the cases of a suite share.
type setting struct {
	plan    *executor.Plan
	tools   executor.ToolSet
	library *Library
	o       *Options
}

func (s *Suite) runCase(ctx context.Context, c *Case, in *setting, out *CaseReport) {
	answers := &answerer{fakes: map[string][]*fakeAnswer{}, o: in.o, builtins: local.New(), calls: map[string]int{}}
	for tool, list := range c.Fakes {
		for i := range list {
			answers.fakes[tool] = append(answers.fakes[tool], &fakeAnswer{Answer: &list[i]})
		}
	}
	if c.Fixtures != "" {
		path := c.Fixtures
		if !filepath.IsAbs(path) {
			path = filepath.Join(filepath.Dir(s.Path), path)
		}
		fixture, err := ReadFixture(path)
		if err != nil {
			out.fail("/fixtures", string(flows.CodeInvalid), "%v", err)
			return
		}
		answers.player = NewPlayer(fixture)
	}
	engine := executor.New(c.options(answers))
	answers.builtins.RunFlows(func(ctx context.Context, name string, input map[string]any) (map[string]any, error) {
		return in.run(ctx, engine, name, input)
	})
	out.Result = engine.Run(ctx, in.plan, executor.RunInput{Input: c.Input, DryRun: c.DryRun, DynamicParams: c.DynamicParams})
	out.Status = out.Result.Status
	for _, err := range answers.stale {
		out.fail("", flows.CWFixtureStale.Code, "%v", err)
	}
	c.Expect.check(out, answers.calls)
}

// options of the engine of one case.
func (c *Case) options(answers *answerer) executor.Options {
	ids := 0
	o := executor.Options{
		Invoker: answers,
		Kernel:  answers,
		Now:     func() time.Time { return time.Time{} },
		NewID: func() string {
			ids++
			return fmt.Sprintf("test-%d", ids)
		},
		Sleep:  func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
		Limits: executor.Limits{MaxParallelSteps: 1},
	}
	if c.Decide != nil {
		o.Decider = decider(c.Decide)
	}
	if c.Approve != nil {
		o.Approver = approver(*c.Approve)
	}
	return o
}

// run runs a flow of the files for a list tool.
func (in *setting) run(ctx context.Context, engine *executor.Engine, name string, input map[string]any) (map[string]any, error) {
	flow, ok := in.library.Flow(name, "")
	if !ok {
		return nil, fmt.Errorf("there is no flow '%s' in the files of the test", name)
	}
	plan, found := executor.Compile(flow, in.tools, executor.CompileOptions{Flows: in.library})
	if err := executor.CompileError(name, found); err != nil {
		return nil, err
	}
	result := engine.Run(ctx, plan, executor.RunInput{Input: input})
	if !result.Success {
		return nil, fmt.Errorf("flow '%s' %s: %s", name, result.Status, deref(lastError(result).ErrorMessage))
	}
	return result.FinalOutput, nil
}

// decider answers with the choices of a case.
type decider map[string]string

// Decide implements executor.Decider.
func (d decider) Decide(_ context.Context, r executor.DecisionRequest) (string, error) {
	for _, key := range []string{r.StepID, r.DefaultToolName} {
		if chosen, ok := d[key]; ok {
			return chosen, nil
		}
	}
	return r.DefaultToolName, nil
}

// approver gives every approval, or none.
type approver bool

// Approve implements executor.Approver.
func (a approver) Approve(context.Context, executor.ApprovalRequest) (executor.ApprovalDecision, error) {
	if a {
		return executor.ApprovalDecision{Decision: executor.Approve, Reason: "approved by the test"}, nil
	}
	return executor.ApprovalDecision{Decision: executor.Deny, Reason: "denied by the test"}, nil
}

// fakeAnswer counts the uses of an answer.
type fakeAnswer struct {
	*Answer
	used int
}

// answerer is the Invoker of a case.
type answerer struct {
	o        *Options
	player   *Player
	builtins *local.Registry

	mu    sync.Mutex
	fakes map[string][]*fakeAnswer
	calls map[string]int
	stale []error
}

// Prompt implements executor.PromptInvoker: only foreign code may hang.
func (a *answerer) Prompt(tool *flows.Tool) bool {
	_, fake := a.o.Fakes[tool.Name]
	return !fake && a.o.Invoker == nil
}

var (
	_ executor.PromptInvoker = (*answerer)(nil)
	_ executor.Kernel        = (*answerer)(nil)
)

// Invoke implements executor.Invoker: the case's fakes, its fixtures, the fakes in Go, the tools that come with pave,
// the Invoker of the options.
func (a *answerer) Invoke(ctx context.Context, tool *flows.Tool, input map[string]any, call executor.CallInfo) (any, error) {
	a.mu.Lock()
	a.calls[tool.Name]++
	answer := a.fake(tool.Name, input)
	recorded := a.player != nil && a.player.knows(tool.Name)
	fake, inGo := a.o.Fakes[tool.Name]
	a.mu.Unlock()
	switch {
	case answer != nil && answer.Error != nil:
		return nil, answer.Error.tool()
	case answer != nil:
		return answer.Result.V, nil
	case recorded:
		out, err := a.player.Invoke(ctx, tool, input, call)
		if known := new(executor.ToolError); errors.As(err, &known) && known.Code == flows.CWFixtureStale.Code {
			a.note(err)
		}
		return out, err
	case inGo:
		return fake(ctx, value.CloneObject(input))
	case tool.Binding != nil && tool.Binding.Kind == local.Kind && slices.Contains(a.builtins.Names(), tool.Binding.Local):
		return a.builtins.Invoke(ctx, tool, input, call)
	case a.o.Invoker != nil:
		return a.o.Invoker.Invoke(ctx, tool, input, call)
	}
	reason := "it has neither a fake nor a recorded call"
	if len(a.fakes[tool.Name]) > 0 {
		reason = "none of its fakes answers this input, or none any more"
	}
	err := stale(tool.Name, input, reason)
	a.note(err)
	return nil, err
}

// InvokeCapability implements executor.Kernel: a capability is answered as a tool is, under its own id, or under the
// name of the step's tool where only that has answers.
func (a *answerer) InvokeCapability(ctx context.Context, c executor.CapabilityCall) (map[string]any, error) {
	name := c.CapabilityID
	if !a.answers(name) && a.answers(c.ToolName) {
		name = c.ToolName
	}
	answer, err := a.Invoke(ctx, &flows.Tool{Name: name}, c.Inputs, executor.CallInfo{})
	return outputsOf(answer, err)
}

// answers reports whether the case or the options have any answer under a name.
func (a *answerer) answers(name string) bool {
	_, inGo := a.o.Fakes[name]
	return inGo || len(a.fakes[name]) > 0 || a.player != nil && a.player.knows(name)
}

func (a *answerer) note(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stale = append(a.stale, err)
}

// fake is the first answer that fits, nil when there is none.
func (a *answerer) fake(tool string, input map[string]any) *Answer {
	for _, f := range a.fakes[tool] {
		if f.Times > 0 && f.used >= f.Times || !includes(input, f.When) {
			continue
		}
		f.used++
		return f.Answer
	}
	return nil
}

// knows reports whether the fixture has any call of a tool.
func (p *Player) knows(tool string) bool { return p.tools[tool] }

// TB is the part of *testing.T that Verify needs.
type TB interface {
	Helper()
	Context() context.Context
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Verify runs test files and the test files of folders, and fails t for every case that did not pass.
func Verify(t TB, o Options, paths ...string) {
	t.Helper()
	suites, err := Load(paths...)
	if err != nil {
		t.Fatalf("%v", err)
		return
	}
	for _, c := range Run(t.Context(), suites, o).Cases {
		if !c.Passed {
			t.Errorf("%s: %s:\n  %s", c.File, c.Case, strings.Join(c.lines(), "\n  "))
		}
	}
}
