package bench

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pave/analyzer"
	"pave/analyzer/replay"
	"pave/executor"
	"pave/flows"
	"pave/flows/value"
	"pave/ingest"
)

// said is a call as this test lays sessions out, by itself: repeats and retries folded, the calls of a turn by tool.
type said struct {
	ingest.Call
	args   map[string]any
	result any
	failed bool
	turn   int // counted
	before int // recorded calls of the session before the turn
}

// laidOut splits a session into stretches.
func laidOut(s *ingest.Session) (out [][]said) {
	at, turn, before := 0, 0, 0
	for r := range s.Runs {
		var stretch []said
		end := func() {
			var kept []said
			for i, c := range stretch {
				good := func(d said) bool { return d.Tool == c.Tool && !d.failed }
				if later := afterFailures(stretch[i+1:]); c.failed && slices.ContainsFunc(later[:min(2, len(later))], good) {
					continue
				}
				kept = append(kept, c)
			}
			slices.SortStableFunc(kept, func(a, b said) int {
				if a.turn != b.turn {
					return a.turn - b.turn
				}
				return strings.Compare(a.Tool, b.Tool)
			})
			out, stretch = append(out, kept), nil
		}
		for i, call := range s.Runs[r].Calls {
			broken := call.Flags&ingest.FlagBreak != 0
			if broken {
				end()
			}
			if i == 0 || broken || call.Turn != s.Runs[r].Calls[i-1].Turn {
				turn, before = turn+1, at
			}
			at++
			c := said{Call: call, failed: call.Flags&ingest.FlagError != 0, turn: turn, before: before}
			args, _ := value.Decode(call.Args)
			c.args, _ = args.(map[string]any)
			c.result, _ = value.Decode(call.Result)
			if n := len(stretch); n > 0 && call.Flags&ingest.FlagRepeat != 0 && stretch[n-1].Tool == call.Tool {
				if first := &stretch[n-1]; !c.failed || first.failed {
					first.Result, first.result, first.failed = call.Result, c.result, c.failed
				}
				continue
			}
			stretch = append(stretch, c)
		}
		end()
	}
	return out
}

// afterFailures leaves out the failed calls that a success of their tool follows soon, from the end on.
func afterFailures(calls []said) []said {
	if len(calls) == 0 {
		return nil
	}
	rest := afterFailures(calls[1:])
	c := calls[0]
	if c.failed && slices.ContainsFunc(rest[:min(2, len(rest))], func(d said) bool { return d.Tool == c.Tool && !d.failed }) {
		return rest
	}
	return append([]said{c}, rest...)
}

// givable reports whether whoever makes the turn of first could give v: the user wrote it, an earlier turn has it, or it
// is an argument of first.
func givable(s *ingest.Session, first *said, v any) bool {
	for _, a := range first.args {
		if value.Equal(a, v) {
			return true
		}
	}
	text := ""
	switch v := v.(type) {
	case string:
		text = v
	case []any:
		return len(v) > 0 && !slices.ContainsFunc(v, func(e any) bool { return !givable(s, first, e) }) || earlier(s, first, v)
	case map[string]any:
		for _, e := range v {
			if !givable(s, first, e) {
				return earlier(s, first, v)
			}
		}
		return len(v) > 0 || earlier(s, first, v)
	case nil, bool:
		return earlier(s, first, v)
	default:
		text = string(value.Canonical(v))
	}
	at := 0
	for r := range s.Runs {
		for _, u := range s.Runs[r].Users {
			if at+u.Before <= first.before && strings.Contains(strings.ToLower(u.Text), strings.ToLower(text)) {
				return true
			}
		}
		at += len(s.Runs[r].Calls)
	}
	return earlier(s, first, v)
}

// earlier reports whether an argument or result of a turn before has v in it.
func earlier(s *ingest.Session, first *said, v any) bool {
	at := 0
	for r := range s.Runs {
		for i := range s.Runs[r].Calls {
			c := &s.Runs[r].Calls[i]
			if at++; at > first.before {
				return false
			}
			for _, raw := range []json.RawMessage{c.Args, c.Result} {
				if node, err := value.Decode(raw); err == nil && holds(node, v) {
					return true
				}
			}
		}
	}
	return false
}

func holds(node, v any) bool {
	if value.Equal(node, v) {
		return true
	}
	switch node := node.(type) {
	case []any:
		return slices.ContainsFunc(node, func(e any) bool { return holds(e, v) })
	case map[string]any:
		for k, e := range node {
			if value.Equal(any(k), v) || holds(e, v) {
				return true
			}
		}
	}
	return false
}

// caller works out what to call a flow with at a position, from the flow file and what was recorded. It is nil for flows
// of other shapes than the two that it knows.
type caller func(s *ingest.Session, calls []said) (input map[string]any, n int)

// linearCaller is of flows of one call a step whose arguments are inputs, pointers and constants.
func linearCaller(f *flows.Flow, properties map[string]json.RawMessage) caller {
	for _, p := range properties {
		if strings.Contains(string(p), `"default"`) {
			return nil
		}
	}
	for _, step := range f.Steps {
		if step.ForEach != nil || step.Guard != "" {
			return nil
		}
		for _, e := range step.InputMapping {
			if v := e.Value; v.Kind == flows.MapExpr || v.Kind == flows.MapOptional {
				return nil
			}
		}
	}
	return func(s *ingest.Session, calls []said) (map[string]any, int) {
		input := map[string]any{}
		if len(calls) < len(f.Steps) {
			return nil, 0
		}
		for k, step := range f.Steps {
			if calls[k].Tool != step.ToolName || calls[k].failed {
				return nil, 0
			}
			for _, e := range step.InputMapping {
				v, recorded := calls[k].args[e.Target]
				if _, isInput := properties[e.Value.Ref]; e.Value.Kind != flows.MapKey || !isInput || !recorded || input[e.Value.Ref] != nil {
					continue
				}
				if !givable(s, &calls[0], v) {
					return nil, 0
				}
				input[e.Value.Ref] = v
			}
		}
		return input, len(f.Steps)
	}
}

// batchCaller is of flows whose caller gives every call: in lists, or one by one.
func batchCaller(f *flows.Flow, properties map[string]json.RawMessage) caller {
	names := make([]string, len(f.Steps)) // of the input that has a step's calls; "" is the first step with inputs of its own
	for k, step := range f.Steps {
		as := step.As
		guarded, ok := strings.CutSuffix(step.Guard, " != None")
		switch {
		case step.ForEach != nil && step.ForEach.Kind == flows.MapKey:
			names[k] = step.ForEach.Ref
		case step.ForEach == nil && ok:
			names[k], as = guarded, guarded
		case step.ForEach != nil || step.Guard != "" || k > 0:
			return nil
		}
		if names[k] != "" && properties[names[k]] == nil {
			return nil
		}
		for _, e := range step.InputMapping {
			v := e.Value
			if v.Kind == flows.MapOptional {
				v = *v.Inner
			}
			field := v.Kind == flows.MapPointer && v.Ref == "/"+as+"/"+e.Target
			if input := v.Kind == flows.MapKey && v.Ref == e.Target && properties[v.Ref] != nil; names[k] == "" && !input || names[k] != "" && !field {
				return nil
			}
		}
	}
	return func(s *ingest.Session, calls []said) (map[string]any, int) {
		input, n := map[string]any{}, 0
		for name := range properties {
			input[name] = nil
		}
		for k, step := range f.Steps {
			var list []any
			for n < len(calls) && calls[n].Tool == step.ToolName && givesAll(s, &calls[0], &calls[n], step.InputMapping) && (step.ForEach != nil || len(list) == 0) {
				if calls[n].failed {
					return nil, 0
				}
				list = append(list, calls[n].args)
				n++
			}
			switch {
			case len(list) > 0 && step.ForEach != nil:
				input[names[k]] = list
			case len(list) > 0 && names[k] != "":
				input[names[k]] = list[0]
			case len(list) > 0:
				for name, v := range list[0].(map[string]any) {
					input[name] = v
				}
			case k == 0 || turnsOf(calls[:n]) < 2:
				return nil, 0 // it would hand back before it saved anything
			default:
				return input, n
			}
		}
		if n == 1 && names[0] != "" {
			return nil, 0 // nobody makes a list for one call
		}
		return input, n
	}
}

// givesAll reports whether a caller could give the whole call, and the flow takes it.
func givesAll(s *ingest.Session, first, c *said, mapping flows.Mapping) bool {
	if c.args == nil {
		return false
	}
	taken := 0
	for _, e := range mapping {
		v, there := c.args[e.Target]
		if there && !givable(s, first, v) || !there && e.Value.Kind != flows.MapOptional {
			return false
		}
		if there {
			taken++
		}
	}
	return taken == len(c.args)
}

func turnsOf(calls []said) int {
	seen := map[int]bool{}
	for _, c := range calls {
		seen[c.turn] = true
	}
	return len(seen)
}

// TestExportedFlowsByOtherMeans reads the exported flow files as anybody could, calls each at every position of every
// test session with what a caller could give there, and lets it run against tools that answer from the recording. As
// many runs make just the recorded calls as the scorer counts applications.
func TestExportedFlowsByOtherMeans(t *testing.T) {
	for _, name := range []string{"tau-retail", "tau-telecom"} {
		t.Run(name, func(t *testing.T) {
			data, export := recordedFolder(t, name), t.TempDir()
			b := Replay{Data: data, TrainFrac: 0.7, Export: export}
			_, err := b.Run(t.Context(), quiet)
			require.NoError(t, err)
			domains, err := b.read(t.Context(), quiet)
			require.NoError(t, err)
			test := domains[0].test
			tools := analyzer.NewInferrer()
			for _, s := range slices.Concat(domains[0].train, test) {
				tools.ObserveSession(s.Session)
			}
			known := executor.Tools{}
			for _, tool := range tools.Tools() {
				tool.OutputSchema = nil // results are as they are recorded
				known[tool.Name] = tool
			}
			files, err := filepath.Glob(filepath.Join(export, "floor_97", name, "*.flow.yaml"))
			require.NoError(t, err)
			scored := map[string]int{}
			for _, file := range files {
				kind, applied := appliedByOtherMeans(t, file, known, test)
				scored[kind] += applied
			}
			t.Logf("applications: %v", scored)
			assert.Positive(t, scored["batch"])
			assert.True(t, name != "tau-retail" || scored["linear"] > 0)
		})
	}
}

// appliedByOtherMeans counts the runs of an exported flow that make just the recorded calls, which the scorer must agree on.
// The kind is "" for flows of shapes that this test cannot call.
func appliedByOtherMeans(t *testing.T, file string, known executor.Tools, test []recordedSession) (kind string, applied int) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	f, _, err := flows.ParseFlow(text)
	require.NoError(t, err)
	var schema struct{ Properties map[string]json.RawMessage }
	require.NoError(t, json.Unmarshal(f.InputSchema, &schema))
	kind, call := "linear", linearCaller(f, schema.Properties)
	if call == nil {
		kind, call = "batch", batchCaller(f, schema.Properties)
	}
	if call == nil || f.Type != flows.TypeFlow {
		return "", 0
	}
	compiled, err := replay.Compile(f)
	require.NoError(t, err)
	sc := replay.NewScorer([]*replay.Flow{compiled})
	f.InputSchema = flows.RawSchema(`{"type":"object"}`) // the schema is of the training part's values
	plan, found := executor.Compile(f, known, executor.CompileOptions{})
	require.NotNil(t, plan, "%v", found)
	for i := range test {
		sc.Session(test[i].ready)
		for _, stretch := range laidOut(test[i].Session) {
			for from := range stretch {
				if input, n := call(test[i].Session, stretch[from:]); n > 0 && playedBack(t, plan, input, stretch[from:from+n], kind == "linear") {
					applied++
				}
			}
		}
	}
	assert.Equal(t, sc.ByFlow[0].Exact, applied, "%s flow %s", kind, f.Name)
	return kind, applied
}

// playedBack runs a flow against the recorded calls and reports whether it made them all and no others.
func playedBack(t *testing.T, plan *executor.Plan, input map[string]any, calls []said, inOrder bool) bool {
	t.Helper()
	back := &playback{used: make([]bool, len(calls)), order: inOrder}
	for i := range calls {
		back.calls = append(back.calls, &calls[i].Call)
	}
	e := executor.New(executor.Options{Invoker: back, Now: func() time.Time { return time.Unix(0, 0) }, NewID: func() string { return "id" }})
	r := e.Run(t.Context(), plan, executor.RunInput{Input: input})
	return (r.Status == executor.StatusSucceeded || r.Status == executor.StatusHandedBack) && back.complete()
}
