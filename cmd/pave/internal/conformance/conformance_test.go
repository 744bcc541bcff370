package conformance

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"pave/flows"
	"pave/flows/value"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var update = flag.Bool("update", false, "write testdata/counts.txt")

// vectorDir is testdata/vectors of the repository.
func vectorDir(t testing.TB) string {
	dir, err := os.Getwd()
	require.NoError(t, err)
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, "testdata", "vectors")
		}
		parent := filepath.Dir(dir)
		require.NotEqual(t, parent, dir, "no go.mod above the test")
		dir = parent
	}
}

// TestCounts freezes the verdicts per group and the vectors per rule, so that no rule swallows a failure: of the golden
// vectors, and of more that the reference made for what they leave open. After a wanted change:
// go test ./cmd/pave/internal/conformance -run Counts -update, and read the difference.
func TestCounts(t *testing.T) {
	for folder, golden := range map[string]string{"vectors": "counts.txt", "more-vectors": "more-counts.txt"} {
		t.Run(folder, func(t *testing.T) {
			report, err := Run(t.Context(), filepath.Join(filepath.Dir(vectorDir(t)), folder))
			require.NoError(t, err)
			if folder == "vectors" {
				assert.Equal(t, 804, report.Passed()+report.Failed())
			}
			var got strings.Builder
			require.NoError(t, report.Write(&got))
			golden := filepath.Join("testdata", golden)
			if *update {
				require.NoError(t, os.MkdirAll("testdata", 0o755))
				require.NoError(t, os.WriteFile(golden, []byte(got.String()), 0o644))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			assert.Equal(t, string(want), got.String())
			assert.Zero(t, report.Failed())
		})
	}
}

// Whatever a vector expects is really looked at: another value in its place fails it, and no rule takes it.
func TestAnotherExpectationFails(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(vectorDir(t), "*.json"))
	require.NoError(t, err)
	tried := 0
	for _, path := range paths {
		f, err := read(path)
		require.NoError(t, err)
		check := checks[f.group]
		if check == nil {
			continue
		}
		for i := range f.vectors {
			v := f.vectors[i]
			if check(&v).Verdict != Exact {
				continue
			}
			expect, err := value.Decode(v.Expect)
			require.NoError(t, err)
			for leaf := range 4 {
				changed, found := withLeafChanged(expect, &leaf)
				if !found {
					break
				}
				w := vector{ID: v.ID, Kind: v.Kind, Expect: value.Encode(changed)}
				doc, err := value.Decode(v.raw)
				require.NoError(t, err)
				doc.(map[string]any)["expect"] = changed
				w.raw = value.Encode(doc)
				out := guarded(func() Outcome { return check(&w) })
				assert.Equal(t, Fail, out.Verdict, "%s expecting %s", v.ID, w.Expect)
				assert.NotEmpty(t, out.Reason, v.ID)
				tried++
			}
		}
	}
	assert.Greater(t, tried, 600)
}

// withLeafChanged copies a value with its n-th scalar replaced, messages left out.
func withLeafChanged(v any, n *int) (any, bool) {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		changed := false
		keys := make([]string, 0, len(v))
		for key := range v {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		for _, key := range keys {
			out[key] = v[key]
			if !changed && key != "message" {
				out[key], changed = withLeafChanged(v[key], n)
			}
		}
		return out, changed
	case []any:
		out := slices.Clone(v)
		for i := range out {
			var changed bool
			if out[i], changed = withLeafChanged(out[i], n); changed {
				return out, true
			}
		}
		return out, false
	}
	if *n > 0 {
		*n--
		return v, false
	}
	switch v := v.(type) {
	case bool:
		return !v, true
	case string:
		return v + "?", true
	}
	return "changed", true
}

func writeFile(t *testing.T, dir, name, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
}

func TestMalformedFilesAreErrors(t *testing.T) {
	for name, content := range map[string]string{
		"no JSON":      `{"group": "viz"`,
		"no group":     `{"vectors": []}`,
		"no vectors":   `{"group": "viz"}`,
		"a list":       `[]`,
		"no expect":    `{"group": "viz", "vectors": [{"id": "viz/a"}]}`,
		"no id":        `{"group": "viz", "vectors": [{"expect": {}}]}`,
		"not a vector": `{"group": "viz", "vectors": [7]}`,
	} {
		dir := t.TempDir()
		writeFile(t, dir, "viz.json", content)
		_, err := Run(t.Context(), dir)
		assert.Equal(t, flows.CodeInvalid, flows.CodeOf(err), name)
		assert.ErrorContains(t, err, "viz.json", name)
	}
	_, err := Run(t.Context(), t.TempDir())
	assert.Equal(t, flows.CodeNotFound, flows.CodeOf(err))
}

// A vector that cannot be run fails by itself; the others are run all the same.
func TestStrangeVectorsFail(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "new.json", `{"group": "future", "vectors": [{"id": "future/1", "expect": {}}]}`)
	writeFile(t, dir, "viz.json", `{"group": "viz", "vectors": [
		{"id": "viz/null", "flow": null, "expect": {"ascii": ""}},
		{"id": "viz/list", "flow": [], "expect": {"ascii": ""}},
		{"id": "viz/no-object", "flow": {"type":"Flow","name":"f","description":"d","steps":[]}, "expect": 7},
		{"id": "viz/good", "flow": {"type":"Flow","name":"f","description":"d","steps":[]}, "expect": {"ascii": "(empty flow)"}}]}`)
	for group := range checks {
		if group != "viz" {
			writeFile(t, dir, group+".json", `{"group": "`+group+`", "vectors": [{"id": "`+group+`/strange", "kind": "strange", "expect": null, "tools": [{}], "traces": [[{}]],
				"policy": 1, "params": [], "context": [], "config": {"max_pending_proposals": "x"}, "register_order": [1], "jsonl": 5}]}`)
		}
	}
	for _, group := range engineGroups {
		writeFile(t, dir, group+".json", `{"group": "`+group+`", "vectors": [{"id": "`+group+`/strange", "expect": {"steps": 1, "errors": {}}, "flow": 3, "input": []}]}`)
	}
	report, err := Run(t.Context(), dir)
	require.NoError(t, err)
	assert.Equal(t, 1, report.Passed())
	assert.Equal(t, 1+3+len(checks)-1+len(engineGroups), report.Failed())

	var text strings.Builder
	require.NoError(t, report.Write(&text))
	lines := strings.Split(strings.TrimSpace(text.String()), "\n")
	assert.Contains(t, lines, "viz: 1 exact, 0 divergence, 3 FAIL")
	assert.Contains(t, lines, `FAIL future/1: unknown group "future"`)
	assert.Equal(t, fmt.Sprintf("1 passed, %d failed", report.Failed()), lines[len(lines)-1])
	for _, g := range report.Groups {
		for _, o := range g.Outcomes {
			assert.False(t, o.Verdict == Fail && o.Reason == "", o.ID)
		}
	}
}

// Rule R5 takes complex numbers only where the reference computes with them.
func TestComplexNumbersAreNoPredicates(t *testing.T) {
	run := func(text string) Outcome {
		f, err := parse("p.json", []byte(`{"group":"predicate","vectors":[`+text+`]}`))
		require.NoError(t, err)
		return checkPredicate(&f.vectors[0])
	}
	assert.Equal(t, diverges("R5"), run(`{"id":"p","expr":"1.5j == 1.5j","context":{},"expect":{"value":true}}`))
	assert.Equal(t, Fail, run(`{"id":"p","expr":"1 ==","context":{},"expect":{"value":true}}`).Verdict)
	assert.Equal(t, Fail, run(`{"id":"p","expr":"1j","context":{},"expect":{"error":"PredicateSyntaxError","category":"subscript"}}`).Verdict)
}

func TestRunStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Run(ctx, vectorDir(t))
	assert.ErrorIs(t, err, context.Canceled)
}

// Rules are sorted by number and every rule of a vector counts; text of vectors cannot break a line.
func TestReportText(t *testing.T) {
	r := Report{Groups: []Group{{Name: "g", Outcomes: []Outcome{
		{ID: "g/1", Verdict: Divergence, Rules: []string{"R17", "R2"}},
		{ID: "g/2", Verdict: Divergence, Rules: []string{"R17"}},
		{ID: "g/3", Verdict: Fail, Reason: "a\nb\x1b[31m" + strings.Repeat("x", 3000)},
		{ID: "g/4", Verdict: Exact}}}}}
	var text strings.Builder
	require.NoError(t, r.Write(&text))
	lines := strings.Split(text.String(), "\n")
	require.Len(t, lines, 6)
	assert.Equal(t, "g: 1 exact, 2 divergence, 1 FAIL", lines[0])
	assert.True(t, strings.HasPrefix(lines[1], "FAIL g/3: a b [31mxxx"), lines[1][:40])
	assert.Less(t, len(lines[1]), 2100)
	assert.Equal(t, []string{"rule R2: 1", "rule R17: 2", "3 passed, 1 failed", ""}, lines[2:])

	doc, err := json.Marshal(r.Groups[0].Outcomes[3])
	require.NoError(t, err)
	assert.JSONEq(t, `{"id":"g/4","verdict":"exact"}`, string(doc))
}

// No vector file, however strange, makes the reader or a check panic.
func FuzzVectorFile(f *testing.F) {
	paths, err := filepath.Glob(filepath.Join(vectorDir(f), "*.json"))
	require.NoError(f, err)
	for _, path := range paths {
		vectors, err := read(path)
		require.NoError(f, err)
		for i := 0; i < len(vectors.vectors); i += 20 {
			if raw := vectors.vectors[i].raw; checks[vectors.group] != nil && len(raw) < 1<<10 {
				f.Add([]byte(`{"group":"` + vectors.group + `","vectors":[` + string(raw) + `]}`))
			}
		}
	}
	f.Add([]byte(`{"group":"registry","vectors":[{"id":"registry/none","expect":{}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := parse("fuzz.json", data)
		if err != nil {
			require.Equal(t, flows.CodeInvalid, flows.CodeOf(err))
			return
		}
		for i := range file.vectors {
			if check := checks[file.group]; check != nil {
				out := check(&file.vectors[i])
				require.Contains(t, []Verdict{Exact, Divergence, Fail}, out.Verdict)
			}
		}
	})
}
