package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"pave/executor/vectortest"
	"pave/flows"
)

// vector is one golden vector; its other keys depend on group and kind.
type vector struct {
	ID     string          `json:"id"`
	Kind   string          `json:"kind"`
	Expect json.RawMessage `json:"expect"`
	raw    json.RawMessage
}

// decode reads the vector's other keys.
func (v *vector) decode(into any) error { return json.Unmarshal(v.raw, into) }

// checks are the groups that are not about running flows.
var checks = map[string]func(*vector) Outcome{
	"analyzer":      checkAnalyzer,
	"fingerprint":   checkFingerprint,
	"observer":      checkObserver,
	"predicate":     checkPredicate,
	"redaction":     checkRedaction,
	"registry":      checkRegistry,
	"safety":        checkSafety,
	"serialization": checkSerialization,
	"service":       checkService,
	"trace_scoring": checkTraceScoring,
	"viz":           checkViz,
}

// engineGroups run through package vectortest: flows are compiled and executed.
var engineGroups = []string{"additions", "collision", "compile", "composition", "cost", "dag", "executor", "fallback_retry", "mapping"}

// file is one file of vectors.
type file struct {
	path    string
	group   string
	vectors []vector
}

// Run runs every vector file (*.json) of a folder. A file that is no vector file is an error; a vector that cannot
// be run fails.
func Run(ctx context.Context, dir string) (*Report, error) {
	paths, err := filepath.Glob(filepath.Join(escapeGlob(dir), "*.json"))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	if len(paths) == 0 {
		return nil, flows.NewError(flows.CodeNotFound, fmt.Sprintf("%s holds no vector files (*.json)", dir))
	}
	groups := map[string]*Group{}
	for _, path := range paths {
		f, err := read(path)
		if err != nil {
			return nil, err
		}
		outcomes, err := f.run(ctx)
		if err != nil {
			return nil, err
		}
		g := groups[f.group]
		if g == nil {
			g = &Group{Name: f.group}
			groups[f.group] = g
		}
		g.Outcomes = append(g.Outcomes, outcomes...)
	}
	report := &Report{}
	for _, g := range groups {
		report.Groups = append(report.Groups, *g)
	}
	slices.SortFunc(report.Groups, func(a, b Group) int { return strings.Compare(a.Name, b.Name) })
	return report, nil
}

// escapeGlob lets a folder's name hold the signs of patterns.
func escapeGlob(dir string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(dir)
}

func malformed(path, format string, args ...any) error {
	return flows.NewError(flows.CodeInvalid, path+": "+fmt.Sprintf(format, args...)+`; a vector file is {"group": ..., "vectors": [{"id": ..., "expect": ...}]}`)
}

func read(path string) (*file, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("vectors: %w", err)
	}
	return parse(path, data)
}

func parse(path string, data []byte) (*file, error) {
	var doc struct {
		Group   string
		Vectors []json.RawMessage
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		return nil, malformed(path, "%v", err)
	}
	if doc.Group == "" || doc.Vectors == nil {
		return nil, malformed(path, "no group or no vectors")
	}
	f := &file{path: path, group: doc.Group, vectors: make([]vector, len(doc.Vectors))}
	for i, raw := range doc.Vectors {
		v := &f.vectors[i]
		if err := json.Unmarshal(raw, v); err != nil || v.ID == "" || len(v.Expect) == 0 {
			return nil, malformed(path, "vector %d has no id or no expect", i)
		}
		v.raw = raw
	}
	return f, nil
}

func (f *file) run(ctx context.Context) ([]Outcome, error) {
	out := make([]Outcome, len(f.vectors))
	one := f.runner()
	for i := range f.vectors {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		out[i] = guarded(func() Outcome { return one(i) })
		out[i].ID = f.vectors[i].ID
	}
	return out, nil
}

// runner runs the vector with an index.
func (f *file) runner() func(i int) Outcome {
	if check := checks[f.group]; check != nil {
		return func(i int) Outcome { return check(&f.vectors[i]) }
	}
	if !slices.Contains(engineGroups, f.group) {
		return func(int) Outcome { return failed("unknown group %q", f.group) }
	}
	vectors, err := vectortest.Load(filepath.Dir(f.path), strings.TrimSuffix(filepath.Base(f.path), ".json"))
	if err != nil {
		return func(int) Outcome { return failed("%v", err) }
	}
	return func(i int) Outcome { return runEngine(&vectors[i]) }
}

// guarded turns a panic over a strange vector into its failure.
func guarded(run func() Outcome) (out Outcome) {
	defer func() {
		if r := recover(); r != nil {
			out = failed("panic: %v", r)
		}
	}()
	return run()
}
