// Package diff compares two flows: which fields differ, and the texts side by side.
package diff

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	textdiff "github.com/rogpeppe/go-internal/diff"

	"pave/flows"
	"pave/flows/value"
)

// Kinds of a Change.
const (
	Added   = "added"
	Removed = "removed"
	Changed = "changed"
)

// Change is one place where two flows differ. Pointer leads into the canonical form of the new flow, for what was
// removed into that of the old one.
type Change struct {
	Pointer string `json:"pointer"`
	Kind    string `json:"kind"`
	Old     any    `json:"old,omitempty"`
	New     any    `json:"new,omitempty"`
}

// Diff is what differs. Unified is a unified diff of the canonical YAML files, "" when they are equal. Behaviour says
// whether the content digest changed: without it only version, status, governance, evidence or pins differ.
type Diff struct {
	Old       string   `json:"old"` // name@version
	New       string   `json:"new"`
	Equal     bool     `json:"equal"`
	Behaviour bool     `json:"behaviour_changed"`
	Changes   []Change `json:"changes"`
	Unified   string   `json:"unified"`
}

// Flows compares two flows. Steps are paired by their ids in DAG flows and in order of their tools in linear ones, so
// that a step put in between is one change.
func Flows(before, after *flows.Flow) (*Diff, error) {
	return Named(before.Name+"@"+before.Version, before, after.Name+"@"+after.Version, after)
}

// Named is Flows under other names than those of the flows.
func Named(oldName string, before *flows.Flow, newName string, after *flows.Flow) (*Diff, error) {
	d := &Diff{Old: oldName, New: newName, Changes: []Change{}, Behaviour: flows.Digest(before) != flows.Digest(after)}
	texts, trees := [2][]byte{}, [2]map[string]any{}
	for i, f := range []*flows.Flow{before, after} {
		var err error
		if texts[i], err = flows.EncodeFlow(f, flows.FormatYAML); err != nil {
			return nil, fmt.Errorf("encode flow %s: %w", f.Name, err)
		}
		tree, err := value.Of(f)
		if err != nil {
			return nil, fmt.Errorf("encode flow %s: %w", f.Name, err)
		}
		trees[i], _ = tree.(map[string]any)
	}
	d.Unified = string(textdiff.Diff(d.Old, texts[0], d.New, texts[1]))
	oldSteps, newSteps := list(trees[0]["steps"]), list(trees[1]["steps"])
	delete(trees[0], "steps")
	delete(trees[1], "steps")
	d.objects(trees[0], trees[1], nil, nil)
	d.steps(oldSteps, newSteps)
	d.Equal = len(d.Changes) == 0
	return d, nil
}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}

func (d *Diff) add(kind string, at value.Pointer, before, after any) {
	d.Changes = append(d.Changes, Change{Pointer: at.String(), Kind: kind, Old: before, New: after})
}

// values compares what stands at two places; from and to are their pointers.
func (d *Diff) values(before, after any, from, to value.Pointer) {
	if value.Equal(before, after) {
		return
	}
	x, isObject := before.(map[string]any)
	y, bothObjects := after.(map[string]any)
	if isObject && bothObjects {
		d.objects(x, y, from, to)
		return
	}
	d.add(Changed, to, before, after)
}

func (d *Diff) objects(before, after map[string]any, from, to value.Pointer) {
	keys := slices.Collect(maps.Keys(before))
	for k := range after {
		if _, both := before[k]; !both {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	for _, k := range keys {
		x, had := before[k]
		y, has := after[k]
		switch {
		case !has:
			d.add(Removed, append(slices.Clip(from), k), x, nil)
		case !had:
			d.add(Added, append(slices.Clip(to), k), nil, y)
		default:
			d.values(x, y, append(slices.Clip(from), k), append(slices.Clip(to), k))
		}
	}
}

// steps compares paired steps and reports the others; in DAG flows a step that only moved is no change.
func (d *Diff) steps(before, after []any) {
	at := func(i int) value.Pointer { return value.Pointer{"steps", fmt.Sprint(i)} }
	paired := make(map[int]int, len(after)) // new -> old
	used := map[int]bool{}
	for _, p := range pair(before, after) {
		paired[p[1]] = p[0]
		used[p[0]] = true
	}
	for i, step := range before {
		if !used[i] {
			d.add(Removed, at(i), step, nil)
		}
	}
	for j, step := range after {
		if i, ok := paired[j]; ok {
			d.values(before[i], step, at(i), at(j))
			continue
		}
		d.add(Added, at(j), nil, step)
	}
}

// pair finds the steps that are the same ones: those with equal ids, else a longest common subsequence of names.
func pair(before, after []any) [][2]int {
	if ids := index(before); ids != nil && index(after) != nil {
		var out [][2]int
		for j, step := range after {
			if i, ok := ids[text(step, "step_id")]; ok {
				out = append(out, [2]int{i, j})
			}
		}
		return out
	}
	return common(names(before), names(after))
}

// index maps step ids to positions, nil where a step has none.
func index(steps []any) map[string]int {
	out := make(map[string]int, len(steps))
	for i, step := range steps {
		id := text(step, "step_id")
		if id == "" {
			return nil
		}
		out[id] = i
	}
	return out
}

func text(step any, key string) string {
	m, _ := step.(map[string]any)
	s, _ := m[key].(string)
	return s
}

func names(steps []any) []string {
	out := make([]string, len(steps))
	for i, step := range steps {
		out[i] = cmp.Or(text(step, "tool_name"), "flow "+text(step, "flow_name"))
	}
	return out
}

// common is a longest common subsequence, as pairs of positions.
func common(a, b []string) [][2]int {
	best := make([][]int, len(a)+1)
	for i := range best {
		best[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				best[i][j] = best[i+1][j+1] + 1
			} else {
				best[i][j] = max(best[i+1][j], best[i][j+1])
			}
		}
	}
	var out [][2]int
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch {
		case a[i] == b[j]:
			out = append(out, [2]int{i, j})
			i, j = i+1, j+1
		case best[i+1][j] >= best[i][j+1]:
			i++
		default:
			j++
		}
	}
	return out
}
