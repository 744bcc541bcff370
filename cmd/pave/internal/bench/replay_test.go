package bench

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
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
	"pave/observer"
)

// recordedFolder makes a folder of some of the recorded files, or skips.
func recordedFolder(t *testing.T, names ...string) string {
	t.Helper()
	root, err := os.Getwd()
	require.NoError(t, err)
	for {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			break
		}
		require.NotEqual(t, root, filepath.Dir(root), "no go.mod above the test")
		root = filepath.Dir(root)
	}
	from := filepath.Join(root, "..", "shared", "data", "calls")
	if _, err := os.Stat(from); err != nil {
		t.Skip("recorded data not present: " + from)
	}
	dir := t.TempDir()
	for _, name := range append(names, "sessions") {
		require.NoError(t, os.Symlink(filepath.Join(from, name+".jsonl"), filepath.Join(dir, name+".jsonl")))
	}
	return dir
}

var quiet = Env{Progress: io.Discard}

func TestReplayOnRecordedSessions(t *testing.T) {
	dir := recordedFolder(t, "api-bank", "bfcl-multiturn")
	export := t.TempDir()
	b := Replay{Data: dir, TrainFrac: 0.7, Export: export}
	first, err := b.Run(t.Context(), quiet)
	require.NoError(t, err)
	r := first.(ReplayResult)
	assert.Equal(t, []int{243, 100}, []int{r.TrainSessions, r.TestSessions})
	require.Len(t, r.Sets, 2)
	assert.Positive(t, r.Pooled.NoFloor.Avoided)
	assert.Less(t, r.Pooled.NoFloor.Avoided, r.Bounds.Structural)
	assert.Greater(t, r.Pooled.NoFloor.Avoided, r.Baselines.Reference)
	assert.LessOrEqual(t, r.Bounds.SupportOracle, min(r.Bounds.Oracle, r.Bounds.SequenceOnly))
	assert.Zero(t, r.Pooled.Floor97.DestructiveInexact)
	assert.LessOrEqual(t, r.Pooled.Floor97.Flows, r.Pooled.NoFloor.Flows)
	ci := r.Pooled.NoFloor.AvoidedCI95
	assert.True(t, ci[0] <= r.Pooled.NoFloor.Avoided && r.Pooled.NoFloor.Avoided <= ci[1], ci)
	k := r.Pooled.NoFloor.TopK
	assert.True(t, k["5"] <= k["10"] && k["10"] <= k["20"] && k["20"] <= k["40"] && k["40"] <= r.Pooled.NoFloor.Avoided, k)
	sum := 0
	for _, s := range r.Sets {
		sum += s.TestLLMCalls
	}
	assert.Equal(t, r.TestLLMCalls, sum)

	_, err = b.Run(t.Context(), quiet)
	require.ErrorContains(t, err, "not empty")
	again := b
	again.Export = ""
	second, err := again.Run(t.Context(), quiet)
	require.NoError(t, err)
	assert.Equal(t, first, second)

	files, err := filepath.Glob(filepath.Join(export, "no_floor", "*", "*.flow.yaml"))
	require.NoError(t, err)
	assert.Len(t, files, r.Pooled.NoFloor.Flows)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		_, _, err = flows.ParseFlow(text)
		require.NoError(t, err, file)
	}
}

// TestReplayKeepsWhatItReached: customer service of many agents, without a floor nearly all that repeats, and at the floors
// nothing that an agent did not do; what a change loses shows here.
func TestReplayKeepsWhatItReached(t *testing.T) {
	res, err := Replay{Data: recordedFolder(t, "tau-retail", "tau-telecom"), TrainFrac: 0.7}.Run(t.Context(), quiet)
	require.NoError(t, err)
	r := res.(ReplayResult)
	assert.GreaterOrEqual(t, r.OfSupportOraclePct["no_floor"], 97.0, "98 with constants of three sessions, which the rules of privacy do not let pass")
	for name, p := range map[string]replayPoint{"floor_97": r.Pooled.Floor97, "floor_99": r.Pooled.Floor99} {
		assert.GreaterOrEqual(t, r.OfSupportOraclePct[name], 75.0, name)
		assert.GreaterOrEqual(t, p.Exactness, 99.0, name)
		assert.Zero(t, p.DestructiveInexact, name)
		assert.LessOrEqual(t, p.InputsMedian, 3.0, name)
		assert.GreaterOrEqual(t, p.TopK["20"], 0.9*p.Avoided, name)
	}
	h := r.Limits.Hindsight
	assert.Greater(t, h["harmless_97"].Avoided, r.Pooled.Floor97.Avoided, "hindsight sees more")
	assert.LessOrEqual(t, h["harmless_99"].Avoided, h["harmless_97"].Avoided)
	assert.LessOrEqual(t, h["harmless_97"].Avoided, h["harmless"].Avoided)
}

// TestReplayOfTwoFolders scores what one folder proposes on the other; tools that only the other has are not served.
func TestReplayOfTwoFolders(t *testing.T) {
	train, test := recordedFolder(t, "bfcl-multiturn"), recordedFolder(t, "bfcl-multiturn", "api-bank")
	res, err := Replay{Data: train, Test: test}.Run(t.Context(), quiet)
	require.NoError(t, err)
	r := res.(ReplayResult)
	assert.Equal(t, []int{153, 343}, []int{r.TrainSessions, r.TestSessions})
	require.Len(t, r.Sets, 2)
	assert.Equal(t, "api-bank", r.Sets[1].Name)
	assert.Zero(t, r.Sets[1].NoFloor.Avoided)
	_, err = Replay{Data: t.TempDir(), TrainFrac: 0.5}.Run(t.Context(), quiet)
	require.ErrorContains(t, err, "no .jsonl files")
	for _, frac := range []float64{0, 1, -1} {
		_, err = Replay{Data: train, TrainFrac: frac}.Run(t.Context(), quiet)
		require.ErrorContains(t, err, "--train-frac")
	}
}

// playback answers a run's calls from recorded ones: each once, for equal arguments.
type playback struct {
	mu    sync.Mutex
	calls []*ingest.Call
	used  []bool
	order bool // calls are answered in the order of the recording only
	other bool // a call was made that was not recorded
}

func (p *playback) Invoke(_ context.Context, tool *flows.Tool, input map[string]any, _ executor.CallInfo) (any, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, c := range p.calls {
		if p.used[i] {
			continue
		}
		if p.order && c.Tool != tool.Name {
			break
		}
		if c.Tool != tool.Name {
			continue
		}
		if args, err := value.Decode(c.Args); err == nil && value.Equal(args, input) {
			p.used[i] = true
			if len(c.Result) == 0 {
				return map[string]any{}, nil
			}
			return value.Decode(c.Result)
		}
		if p.order {
			break
		}
	}
	p.other = true
	return nil, errors.New("nothing recorded")
}

func (p *playback) complete() bool {
	for _, used := range p.used {
		if !used {
			return false
		}
	}
	return !p.other
}

// TestExecutorAgrees runs every window of every proposal with the inputs that the scorer found, against tools that
// answer from the recording: the run makes exactly the recorded calls where the scorer says so, and nowhere else.
func TestExecutorAgrees(t *testing.T) {
	for _, name := range []string{"tau-retail", "bfcl-multiturn", "tau-airline", "tau-telecom"} {
		t.Run(name, func(t *testing.T) {
			domains, err := Replay{Data: recordedFolder(t, name), TrainFrac: 0.7}.read(t.Context(), quiet)
			require.NoError(t, err)
			d := &domains[0]
			p, err := propose(t.Context(), d.train, d.test, observer.Options{})
			require.NoError(t, err)
			tools := analyzer.NewInferrer()
			for _, s := range append(d.train, d.test...) {
				tools.ObserveSession(s.Session)
			}
			known := executor.Tools{}
			for _, tool := range tools.Tools() {
				tool.OutputSchema = nil // results are as they are recorded
				known[tool.Name] = tool
			}
			plans := make([]*executor.Plan, len(p.flows))
			for i, f := range p.flows {
				open := *f
				open.InputSchema = flows.RawSchema(`{"type":"object"}`) // the schema is of the training part's values
				var found []executor.Diagnostic
				plans[i], found = executor.Compile(&open, known, executor.CompileOptions{})
				require.NotNil(t, plans[i], "%v", found)
			}
			sc := replay.NewScorer(p.compiled)
			windows, exact := 0, 0
			for k, s := range d.test {
				var calls []*ingest.Call
				for r := range s.Runs {
					for c := range s.Runs[r].Calls {
						calls = append(calls, &s.Runs[r].Calls[c])
					}
				}
				for _, w := range sc.Windows(p.other[k]) {
					windows++
					if w.Exact {
						exact++
					}
					agrees(t, plans[w.Flow], &w, calls)
				}
			}
			t.Logf("%d windows, %d exact", windows, exact)
			assert.Positive(t, exact)
		})
	}
}

func agrees(t *testing.T, plan *executor.Plan, w *replay.Window, calls []*ingest.Call) {
	t.Helper()
	// Steps of one level are called in any order, and so are those of a loop.
	inOrder := plan.Flow().Type == flows.TypeFlow && !slices.ContainsFunc(plan.Flow().Steps, func(s flows.Step) bool { return s.ForEach != nil })
	back := &playback{used: make([]bool, len(w.Calls)), order: inOrder}
	for _, at := range w.Calls {
		back.calls = append(back.calls, calls[at])
	}
	e := executor.New(executor.Options{Invoker: back, Now: func() time.Time { return time.Unix(0, 0) }, NewID: func() string { return "id" }})
	result := e.Run(t.Context(), plan, executor.RunInput{Input: w.Inputs})
	done := result.Status == executor.StatusSucceeded && !w.HandedBack || result.Status == executor.StatusHandedBack && w.HandedBack
	if ran := done && back.complete(); ran != w.Exact {
		args := ""
		for _, c := range back.calls {
			args += c.Tool + string(c.Args) + " "
		}
		inputs, _ := json.Marshal(w.Inputs)
		assert.Failf(t, "they differ", "flow %s: scorer %v, run %v (status %s)\ninputs %s\nrecorded %s", plan.Flow().Name, w.Exact, ran, result.Status, inputs, args)
	}
}
