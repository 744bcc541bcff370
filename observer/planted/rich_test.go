package planted

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pave/flows/value"
	"pave/ingest"
)

func richLog() *Log { return Generate(Options{Calls: 100_000, Seed: 3, Rich: true}) }

func TestRichShares(t *testing.T) {
	kinds, optional, all := map[Kind]int{}, 0, 0
	for seed := range uint64(20) {
		for _, f := range Generate(Options{Calls: 1, Seed: seed + 1, Rich: true}).Flows {
			require.Nil(t, f.Loop(0))
			for _, args := range f.Args[1:] {
				require.NotEmpty(t, args)
				for _, a := range args {
					kinds[a.Kind]++
					all++
					if a.Optional {
						optional++
					}
				}
			}
		}
	}
	for kind, share := range map[Kind]float64{Const: 0.15, Pointer: 0.45, Index: 0.10, Map: 0.10, Template: 0.08, Cast: 0.05, Select: 0.02, Input: 0.05} {
		assert.InDelta(t, share, float64(kinds[kind])/float64(all), 0.02, kind)
	}
	assert.InDelta(t, 0.09, float64(optional)/float64(all), 0.02, "a tenth of all but the elements of loops")
}

// TestRichValues follows every planted argument of undisturbed flows to its source.
func TestRichValues(t *testing.T) {
	l := richLog()
	checked := map[Kind]int{}
	for f := range l.Flows {
		flow := &l.Flows[f]
		for _, s := range l.Executions(f, 20) {
			run := s.Runs[0]
			results, args := map[int]any{}, map[int]map[string]any{}
			at := 0
			for step, tool := range flow.Tools {
				rounds := 1
				if loop := flow.Loop(step); loop != nil {
					items, _ := value.Lookup(results[loop.Step], "/items")
					rounds = len(items.([]any))
				}
				for element := range rounds {
					call := run.Calls[at]
					at++
					require.Equal(t, tool, call.Tool)
					require.Zero(t, call.Flags&ingest.FlagRepeat)
					args[step] = decodeObject(t, call.Args)
					for _, a := range flow.Args[step] {
						got, there := args[step][a.Name]
						require.True(t, there, a)
						checked[a.Kind]++
						if a.Kind == Input {
							require.Contains(t, run.Users[0].Text, got)
							continue
						}
						require.Equal(t, truth(t, a, results[a.Step], args[0], element), got, a)
					}
					results[step] = decodeObject(t, call.Result)
				}
			}
			require.Len(t, run.Calls, at)
		}
	}
	for _, kind := range []Kind{Const, Pointer, Index, Map, Template, Cast, Select, Input} {
		require.Greater(t, checked[kind], 50, kind)
	}
}

// TestOptionalArguments: sessions of the log leave out what is optional about as often as they should, and nothing else.
func TestOptionalArguments(t *testing.T) {
	l := richLog()
	there, absent := 0, 0
	for i, id := range l.SessionIDs() {
		require.NoError(t, l.Sessions(t.Context(), []string{id}, func(s *ingest.Session) error {
			for at, c := range l.plan(i) {
				if c.flow < 0 || c.repeat || c.element > 0 {
					continue
				}
				args := decodeObject(t, s.Runs[0].Calls[at].Args)
				for _, a := range l.Flows[c.flow].Args[c.step] {
					_, ok := args[a.Name]
					require.True(t, ok || a.Optional)
					switch {
					case a.Optional && ok:
						there++
					case a.Optional:
						absent++
					}
				}
			}
			return nil
		}))
	}
	require.InDelta(t, 0.4, float64(absent)/float64(there+absent), 0.05)
	require.Greater(t, there+absent, 400)
}

func decodeObject(t *testing.T, raw json.RawMessage) map[string]any {
	t.Helper()
	v, err := value.Decode(raw)
	require.NoError(t, err)
	return v.(map[string]any)
}

// truth computes a value from its source as the documentation of the kinds says.
func truth(t *testing.T, a Arg, producer any, first map[string]any, element int) any {
	t.Helper()
	get := func(pointer string) any {
		v, ok := value.Lookup(producer, pointer)
		require.True(t, ok, pointer)
		return v
	}
	switch a.Kind {
	case Const:
		return a.Value
	case Map:
		return get(fmt.Sprintf("/items/%d/sku", element))
	case Template:
		text := a.Value + fmt.Sprint(get(a.Pointer))
		if a.Second != "" {
			text += "/" + fmt.Sprint(get(a.Second))
		}
		return text
	case Cast:
		if a.Pointer == "/number" {
			return fmt.Sprint(get(a.Pointer))
		}
		n, err := value.Decode([]byte(get(a.Pointer).(string)))
		require.NoError(t, err)
		return n
	case Select:
		items := get("/items").([]any)
		i := slices.IndexFunc(items, func(e any) bool { return e.(map[string]any)["name"] == first["query"] })
		require.GreaterOrEqual(t, i, 0)
		return items[i].(map[string]any)["sku"]
	}
	return get(a.Pointer)
}

func TestExecutionsAreNew(t *testing.T) {
	l := richLog()
	seen := map[string]bool{}
	require.NoError(t, l.Sessions(context.Background(), l.SessionIDs()[:200], func(s *ingest.Session) error {
		for _, c := range s.Runs[0].Calls {
			seen[string(c.Result)] = true
		}
		return nil
	}))
	for _, s := range l.Executions(0, 50) {
		for _, c := range s.Runs[0].Calls {
			require.False(t, seen[string(c.Result)])
			seen[string(c.Result)] = true
		}
	}
	require.Equal(t, l.Executions(0, 5), richLog().Executions(0, 5))
}
