package observer

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pave/ingest"
)

// TestEvidenceOfRecordedSessions computes the figures of every mapping anew from the recorded calls, with the standard
// library's JSON and nothing of the miner but the positions of the calls: how often it held, on how many values, how often
// it would by chance, and which sessions stand for it and against it.
func TestEvidenceOfRecordedSessions(t *testing.T) {
	for _, name := range []string{"tau-retail", "tau-airline", "bfcl-multiturn"} {
		t.Run(name, func(t *testing.T) {
			sessions, _ := loadRecorded(t, name)
			byID := map[string]*ingest.Session{}
			for i := range sessions {
				byID[sessions[i].ID] = &sessions[i]
			}
			r := mine(t, Options{MaxExamples: 1 << 20}, sessions...)
			mappings := 0
			for i := range r.Patterns {
				p := &r.Patterns[i]
				plain := p.Gap == nil && p.Batch == nil && !slices.ContainsFunc(p.DataFlow.Steps, func(s StepFlow) bool { return s.Each != nil || s.When != nil })
				if !plain || len(p.Examples) != p.DataFlow.Sampled {
					continue
				}
				windows := make([]plainWindow, len(p.Examples))
				for n, o := range p.Examples {
					windows[n] = newPlainWindow(t, byID[o.SessionID], o)
				}
				for k, step := range p.DataFlow.Steps {
					for _, a := range step.Args {
						mappings += checkEvidence(t, fmt.Sprintf("%s, %s of step %d", arrow(p.Tools), a.Arg, k+1), windows, k, a)
					}
				}
			}
			require.Positive(t, mappings)
			t.Logf("%d mappings checked", mappings)
		})
	}
}

// plainWindow are the decoded calls of one occurrence.
type plainWindow struct {
	session string
	args    []map[string]any
	results []any
}

func newPlainWindow(t *testing.T, s *ingest.Session, o Occurrence) plainWindow {
	t.Helper()
	w := plainWindow{session: o.SessionID}
	for _, c := range o.Calls {
		call := &s.Runs[o.RunIndex].Calls[c]
		args := map[string]any{}
		require.NoError(t, json.Unmarshal(call.Args, &args))
		var result any
		if len(call.Result) > 0 {
			require.NoError(t, json.Unmarshal(call.Result, &result))
		}
		w.args, w.results = append(w.args, args), append(w.results, result)
	}
	return w
}

// source is what a copy gives in the window; there is false where it gives nothing.
func (w *plainWindow) source(a ArgFlow) (v any, there bool) {
	if a.Kind == SourceArg {
		v, there = w.args[a.Step][a.Pointer]
		return v, there
	}
	v = w.results[a.Step]
	if a.Pointer == "" {
		return v, v != nil
	}
	for _, token := range strings.Split(a.Pointer[1:], "/") {
		token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		switch at := v.(type) {
		case map[string]any:
			if v, there = at[token]; !there {
				return nil, false
			}
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i >= len(at) {
				return nil, false
			}
			v = at[i]
		default:
			return nil, false
		}
	}
	return v, true
}

// checkEvidence compares the figures of one argument; it says how many mappings that were.
func checkEvidence(t *testing.T, what string, windows []plainWindow, k int, a ArgFlow) int {
	t.Helper()
	constant := a.Value
	if a.Kind == SourceConst {
		raw, err := json.Marshal(a.Value)
		require.NoError(t, err)
		constant = nil
		require.NoError(t, json.Unmarshal(raw, &constant))
	}
	present, held := 0, 0
	var values []any
	for_, against := map[string]bool{}, map[string]bool{}
	var sources []any
	var of []string
	for i := range windows {
		w := &windows[i]
		src, there := w.source(a)
		if a.Kind != SourceConst && there {
			sources, of = append(sources, src), append(of, w.session)
		}
		v, ok := w.args[k][a.Arg]
		if !ok {
			continue
		}
		present++
		if !slices.ContainsFunc(values, func(o any) bool { return reflect.DeepEqual(o, v) }) {
			values = append(values, v)
		}
		holds := there && reflect.DeepEqual(src, v)
		if a.Kind == SourceConst {
			holds = reflect.DeepEqual(constant, v)
		}
		if holds {
			held++
			for_[w.session] = true
		} else {
			against[w.session] = true
		}
	}
	e := a.Evidence
	require.Equal(t, []int{present, len(values)}, []int{e.Present, e.Distinct}, what)
	if a.Kind != SourceOutput && a.Kind != SourceArg && a.Kind != SourceConst || a.Given || a.Only != nil {
		return 0
	}
	require.Equal(t, held, e.Held, what)
	for _, c := range []struct {
		cited []string
		among map[string]bool
	}{{e.Supporting, for_}, {e.Contradicting, against}} {
		require.Len(t, c.cited, min(3, len(c.among)), what)
		for _, id := range c.cited {
			require.True(t, c.among[id], "%s: %s", what, id)
		}
	}
	if a.Kind == SourceConst {
		return 1
	}
	equal, pairs := 0, 0
	for i := range windows {
		v, ok := windows[i].args[k][a.Arg]
		for n := range sources {
			if ok && of[n] != windows[i].session {
				pairs++
				if reflect.DeepEqual(sources[n], v) {
					equal++
				}
			}
		}
	}
	chance := 1.0
	if pairs > 0 {
		chance = float64(equal) / float64(pairs)
	}
	require.InDelta(t, chance, e.Chance, 1e-12, what)
	return 1
}
