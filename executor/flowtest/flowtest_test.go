package flowtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"pave/executor"
	"pave/flows"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const lookup = `
format_version: "1.1"
type: Flow
name: order_status
version: 1.0.0
description: Status of a customer's first order.
input_schema: {type: object, properties: {email: {type: string}}, required: [email]}
steps:
  - {tool_name: find_user, input_mapping: {email: email}, output_as: user}
  - {tool_name: get_order, input_mapping: {order_id: /user/orders/0}, output_as: order, retry: {max_retries: 2, backoff_seconds: 60, retryable_errors: [io]}}
returns: {status: /order/status}
`

const tools = `
kind: Tool
name: find_user
input_schema: {type: object, properties: {email: {type: string}}, required: [email], additionalProperties: false}
output_schema: {type: object, properties: {orders: {type: array, items: {type: string}}}, required: [orders]}
---
kind: Tool
name: get_order
input_schema: {type: object, properties: {order_id: {type: string}}, required: [order_id], additionalProperties: false}
output_schema: {type: object, properties: {status: {type: string}}, required: [status]}
`

// write makes files under a new folder.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return dir
}

func run(t *testing.T, o Options, cases string, more map[string]string) *Report {
	t.Helper()
	files := map[string]string{"flows/order.yaml": lookup, "tools/shop.yaml": tools, "flows/order.test.yaml": "flow: order.yaml\ntools: [../tools]\ncases:\n" + cases}
	for name, text := range more {
		files[name] = text
	}
	suites, err := Load(filepath.Join(write(t, files), "flows"))
	require.NoError(t, err)
	return Run(context.Background(), suites, o)
}

func failures(r *Report) []string {
	var out []string
	for i := range r.Cases {
		out = append(out, r.Cases[i].lines()...)
	}
	return out
}

func TestFakesAnswerInOrder(t *testing.T) {
	r := run(t, Options{}, `
  - name: busy once
    input: {email: a@b.c}
    fakes:
      find_user: [{result: {orders: [W1, W2]}}]
      get_order:
        - {when: {order_id: W9}, result: {status: wrong}}
        - {error: {class: io, message: busy}, times: 1}
        - {result: {status: open, secret: dropped}}
    expect:
      output: {status: open}
      output_has: {status: open}
      calls: {find_user: 1, get_order: 2}
      steps:
        - {tool_name: find_user, inputs: {email: a@b.c}, outputs: {orders: [W1, W2]}, success: true, skipped: false}
        - {tool_name: get_order, inputs: {order_id: W1}, outputs: {status: open}, retry_count: 1, cached: false}
  - name: no order
    input: {email: a@b.c}
    fakes: {find_user: [{result: {orders: []}}]}
    expect: {status: failed, error_code: CW-E005, error_message: user/orders/0, steps: [{}, {success: false, error_code: CW-E005}]}
  - name: wrong input
    input: {}
    expect: {error_code: CW-E004, steps: [{tool_name: order_status}]}
`, nil)
	assert.Empty(t, failures(r))
	assert.Equal(t, []int{3, 0}, []int{r.Passed, r.Failed})
	assert.Equal(t, "order_status@1.0.0", r.Cases[0].Flow)
	assert.True(t, r.OK())
}

func TestFailuresSayWhere(t *testing.T) {
	r := run(t, Options{}, `
  - name: all wrong
    input: {email: a@b.c}
    fakes: {find_user: [{result: {orders: [W1]}}], get_order: [{result: {status: open}}]}
    expect:
      status: handed_back
      output: {status: closed}
      output_has: {total: 3}
      error_code: CW-E006
      hand_back: {reason: x}
      calls: {get_order: 2}
      steps:
        - {tool_name: find, inputs: {email: x, b: 1}, outputs: {orders: [W1, W2]}, success: false, error_message: boom}
`, nil)
	assert.Equal(t, []string{
		"/expect/status expected handed_back, got succeeded (mismatch)",
		`/expect/output/status expected "closed", got "open" (mismatch)`,
		"/expect/output_has/total is not in the output, which has [status] (mismatch)",
		"/expect/error_code expected CW-E006, got none (mismatch)",
		"/expect/hand_back the run was not handed back (mismatch)",
		"/expect/steps expected 1 records, got 2: find_user, get_order (mismatch)",
		"/expect/steps/0/tool_name expected find, got find_user (mismatch)",
		`/expect/steps/0/inputs/b expected 1, got nothing (mismatch)`,
		`/expect/steps/0/outputs/orders expected ["W1","W2"], got ["W1"] (mismatch)`,
		"/expect/steps/0/success expected false, got true (mismatch)",
		`/expect/steps/0/error_message expected "boom" in it, got none (mismatch)`,
		"/expect/calls/get_order expected 2 calls, got 1 (mismatch)",
	}, failures(r))
	assert.False(t, r.OK())
}

func TestUnansweredCallsFailTheCase(t *testing.T) {
	r := run(t, Options{}, `
  - name: not faked
    input: {email: a@b.c}
    expect: {status: failed}
  - name: used up
    input: {email: a@b.c}
    fakes: {find_user: [{when: {email: other}, result: {orders: [W1]}}]}
    expect: {status: failed}
`, nil)
	assert.Equal(t, []string{
		`tool 'find_user' was called with {"email":"a@b.c"}, and it has neither a fake nor a recorded call (CW-E040)`,
		`tool 'find_user' was called with {"email":"a@b.c"}, and none of its fakes answers this input, or none any more (CW-E040)`,
	}, failures(r))
}

func TestFixtureReplay(t *testing.T) {
	fixture := `{"version":1,"interactions":[
		{"tool_name":"find_user","input":{"email":"a@b.c"},"output":{"orders":["W1"]}},
		{"tool_name":"get_order","input":{"order_id":"W1"},"output":null,"error":{"class":"io","message":"busy"}},
		{"tool_name":"get_order","input":{"order_id":"W1"},"output":{"status":"open"}}]}`
	r := run(t, Options{}, `
  - name: as recorded
    input: {email: a@b.c}
    fixtures: ../recorded.json
    expect: {output: {status: open}, calls: {get_order: 2}}
  - name: other input
    input: {email: x@y.z}
    fixtures: ../recorded.json
    expect: {status: failed}
  - name: fake before fixture
    input: {email: x@y.z}
    fixtures: ../recorded.json
    fakes: {find_user: [{result: {orders: [W1]}}]}
    expect: {output: {status: open}}
  - name: no such file
    fixtures: absent.json
`, map[string]string{"recorded.json": fixture})
	got := failures(r)
	require.Len(t, got, 2)
	assert.Equal(t, `tool 'find_user' was called with {"email":"x@y.z"}, and the fixtures have no call of it with this input, or no further one (CW-E040)`, got[0])
	assert.Contains(t, got[1], "absent.json")
	assert.Equal(t, []bool{true, false, true, false}, []bool{r.Cases[0].Passed, r.Cases[1].Passed, r.Cases[2].Passed, r.Cases[3].Passed})
}

func TestGoFakesAndInvoker(t *testing.T) {
	o := Options{
		Fakes: map[string]Fake{"find_user": func(_ context.Context, in map[string]any) (any, error) {
			return map[string]any{"orders": []any{"of " + in["email"].(string)}}, nil
		}},
		Invoker: invoker(func(tool string, in map[string]any) (any, error) {
			return map[string]any{"status": tool + " " + in["order_id"].(string)}, nil
		}),
	}
	r := run(t, o, "\n  - {name: go, input: {email: a@b.c}, expect: {output: {status: get_order of a@b.c}}}\n", nil)
	assert.Empty(t, failures(r))
}

type invoker func(tool string, in map[string]any) (any, error)

func (f invoker) Invoke(_ context.Context, tool *flows.Tool, in map[string]any, _ executor.CallInfo) (any, error) {
	return f(tool.Name, in)
}

func TestHandBackBuiltinsAndUndeclaredTools(t *testing.T) {
	files := map[string]string{
		"f.yaml": `
format_version: "1.1"
type: Flow
name: f
version: 1.0.0
description: d
steps:
  - {tool_name: json_pluck, input_mapping: {document: doc, pointer: {$const: /kind}}, output_as: kind}
  - {tool_name: act, guard: 'kind["result"] == "open"', input_mapping: {id: id}}
`,
		"f.test.yaml": `
flow: f.yaml
cases:
  - name: stops
    input: {doc: {kind: closed}, id: 9007199254740993}
    fakes: {act: [{result: {}}]}
    expect: {hand_back: {tool_name: act, step_index: 1, reason: guard, inputs: {id: 9007199254740993}}, calls: {act: 0, json_pluck: 1}}
  - name: other number
    input: {doc: {kind: closed}, id: 9007199254740992}
    expect: {hand_back: {inputs: {id: 9007199254740993}, step_index: 0}}
`}
	suites, err := Load(write(t, files))
	require.NoError(t, err)
	r := Run(context.Background(), suites, Options{})
	assert.Equal(t, []string{
		"/expect/hand_back/inputs/id expected 9007199254740993, got 9007199254740992 (mismatch)",
		"/expect/hand_back/step_index expected 0, got 1 (mismatch)",
	}, failures(r))
}

func TestDecisionsApprovalsAndListTools(t *testing.T) {
	files := map[string]string{
		"tools.yaml": "kind: Tool\nname: pay\nsafety: {side_effects: write, requires_approval: true, approval_reason: money}\n",
		"one.yaml":   "type: Flow\nname: one\nversion: 1.0.0\ndescription: d\nsteps: [{tool_name: double, input_mapping: {n: item}}]\n",
		"f.yaml": `
format_version: "1.1"
type: Flow
name: f
version: 1.0.0
description: d
dynamic_params: [token]
steps:
  - {tool_name: mail, decision_candidates: [mail, call], input_mapping: {secret: token}, output_as: contact}
  - {tool_name: map_list, input_mapping: {flow: {$const: one}, items: numbers}, output_as: doubled}
  - {tool_name: pay, input_mapping: {n: 1}, output_as: paid}
returns: {contact: contact, doubled: /doubled/items}
`,
		"f.test.yaml": `
flow: f.yaml
flows: [one.yaml]
tools: [tools.yaml]
cases:
  - name: called and paid
    input: {numbers: [1, 2]}
    dynamic_params: {token: t0}
    decide: {mail: call}
    approve: true
    fakes: &fakes
      call: [{when: {secret: t0}, result: {by: call}}]
      double: [{when: {n: 1}, result: {twice: 2}}, {when: {n: 2}, result: {twice: 4}}]
      pay: [{result: {ok: true}}]
      mail: [{result: {by: mail}}]
    expect:
      calls: {mail: 0, call: 1, double: 2, pay: 1}
      output_has: {contact: {by: call}}
      steps: [{tool_name: call}, {}, {tool_name: pay}]
  - name: not approved
    input: {numbers: []}
    dynamic_params: {token: t0}
    decide: {other: x}
    approve: false
    fakes: *fakes
    expect: {error_code: CW-E029, calls: {mail: 1, pay: 0, double: 0}}
  - name: no candidate
    input: {numbers: []}
    dynamic_params: {token: t0}
    decide: {mail: pay}
    fakes: *fakes
    expect: {error_code: CW-E031}
`}
	suites, err := Load(write(t, files))
	require.NoError(t, err)
	r := Run(context.Background(), suites, Options{})
	assert.Empty(t, failures(r))
	assert.Equal(t, 3, r.Passed)
}

func TestBrokenFlowFailsEveryCase(t *testing.T) {
	r := run(t, Options{}, "\n  - {name: a}\n  - {name: b}\n", map[string]string{"flows/order.yaml": `{"type":"Flow","name":"f","description":"d","steps":[{"tool_name":"absent"}]}`})
	require.Equal(t, 2, r.Failed)
	assert.Equal(t, executor.IssueMissingTool, r.Cases[1].Failures[0].Code)
	r = run(t, Options{}, "\n  - {name: a}\n", map[string]string{"flows/order.yaml": "type: Flow"})
	assert.Contains(t, failures(r)[0], "order.yaml")
}

func TestLoadRefuses(t *testing.T) {
	for name, tc := range map[string]struct{ doc, want string }{
		"unknown field":      {"flow: f\ncases: [{name: a, expects: {}}]", `unknown field "expects"`},
		"unknown in step":    {"flow: f\ncases: [{name: a, expect: {steps: [{tool: x}]}}]", `unknown field "tool"`},
		"wrong type":         {"flow: f\ncases: [{name: 5}]", "cases.name: must not be number"},
		"no flow":            {"cases: [{name: a}]", "needs flow"},
		"no cases":           {"flow: f", "at least one case"},
		"name twice":         {"flow: f\ncases: [{name: a}, {name: a}]", "/cases/1/name"},
		"status":             {"flow: f\ncases: [{name: a, expect: {status: ok}}]", "/expect/status must be one of"},
		"answer of nothing":  {"flow: f\ncases: [{name: a, fakes: {t: [{times: 1}]}}]", "/fakes/t/0: give result or error"},
		"result and error":   {"flow: f\ncases: [{name: a, fakes: {t: [{result: 1, error: {message: x}}]}}]", "give result or error"},
		"class":              {"flow: f\ncases: [{name: a, fakes: {t: [{error: {class: disk, message: x}}]}}]", "error/class"},
		"input is no object": {"flow: f\ncases: [{name: a, input: [1]}]", "must be an object"},
		"two documents":      {"flow: f\n---\nflow: g", "2 documents"},
		"yaml":               {"flow: [", "x.test.yaml"},
	} {
		_, err := Parse([]byte(tc.doc), "x.test.yaml")
		require.Error(t, err, name)
		assert.Equal(t, flows.CodeInvalid, flows.CodeOf(err), name)
		assert.Contains(t, err.Error(), tc.want, name)
		assert.Contains(t, err.Error(), "x.test.yaml", name)
	}
	_, err := Load(t.TempDir())
	assert.ErrorContains(t, err, "has no *.test.yaml")
	_, err = Load(filepath.Join(t.TempDir(), "absent"))
	assert.Equal(t, flows.CodeNotFound, flows.CodeOf(err))
}

func TestRecorderThenReplay(t *testing.T) {
	ctx := context.Background()
	calls := 0
	recorder := NewRecorder(invoker(func(tool string, in map[string]any) (any, error) {
		calls++
		if calls == 2 {
			return nil, &executor.ToolError{Class: executor.ClassRateLimit, Code: "slow_down", Message: "later", Type: "Busy"}
		}
		if calls == 3 {
			return nil, errors.New("plain")
		}
		return map[string]any{"n": calls, "in": in}, nil
	}))
	tool := &flows.Tool{Name: "t"}
	input := map[string]any{"a": int64(9007199254740993)}
	for range 4 {
		_, _ = recorder.Invoke(ctx, tool, input, executor.CallInfo{})
	}
	raw, err := recorder.Fixture().Encode()
	require.NoError(t, err)
	fixture, err := ParseFixture(raw, "f.json")
	require.NoError(t, err)
	player := NewPlayer(fixture)
	out, err := player.Invoke(ctx, tool, input, executor.CallInfo{})
	require.NoError(t, err)
	assert.Equal(t, map[string]any{"n": int64(1), "in": input}, out)
	_, err = player.Invoke(ctx, tool, input, executor.CallInfo{})
	assert.Equal(t, &executor.ToolError{Class: executor.ClassRateLimit, Code: "slow_down", Message: "later", Type: "Busy"}, err)
	_, err = player.Invoke(ctx, tool, input, executor.CallInfo{})
	assert.EqualError(t, err, "plain")
	out, err = player.Invoke(ctx, tool, map[string]any{"a": int64(9007199254740993)}, executor.CallInfo{})
	require.NoError(t, err)
	assert.Equal(t, int64(4), out.(map[string]any)["n"])
	assert.Empty(t, player.Stale())
	_, err = player.Invoke(ctx, tool, input, executor.CallInfo{})
	te := new(executor.ToolError)
	require.ErrorAs(t, err, &te)
	assert.Equal(t, "CW-E040", te.Code)
	assert.Len(t, player.Stale(), 1)
}

func TestFixtureOfRunReplaysIt(t *testing.T) {
	r := run(t, Options{}, `
  - name: recorded
    input: {email: a@b.c}
    fakes: {find_user: [{result: {orders: [W1]}}], get_order: [{result: {status: open}}]}
`, nil)
	raw, err := FixtureOf(r.Cases[0].Result, nil).Encode()
	require.NoError(t, err)
	r = run(t, Options{}, "\n  - {name: again, input: {email: a@b.c}, fixtures: r.json, expect: {output: {status: open}}}\n", map[string]string{"flows/r.json": string(raw)})
	assert.Empty(t, failures(r))
}

// The record of a run with retries, a skipped failure and a fallback replays to the same records.
func TestFixtureOfRunWithErrors(t *testing.T) {
	flow := `
format_version: "1.1"
type: Flow
name: f
version: 1.0.0
description: d
steps:
  - {tool_name: flaky, input_mapping: {n: 1}, output_as: a, retry: {max_retries: 2, backoff_seconds: 0}}
  - {tool_name: gone, input_mapping: {n: 2}, on_error: skip}
  - {tool_name: main, input_mapping: {n: 3}, on_error: "fallback:spare", output_as: b}
  - {tool_name: bad, input_mapping: {n: 4}}
`
	cases := "flow: f.yaml\ncases:\n  - name: x\n    input: {}\n    fixtures: r.json\n    fakes: {}\n    expect: {status: failed, error_code: CW-E006, steps: [{retry_count: 2}, {skipped: true}, {fallback_tool_name: spare}, {success: false}]}\n"
	recorded := func(files map[string]string) *Report {
		suites, err := Load(write(t, files))
		require.NoError(t, err)
		return Run(context.Background(), suites, Options{Tools: toolsOf("flaky", "gone", "main", "spare", "bad")})
	}
	fakes := `
    fakes:
      flaky: [{error: {message: busy}, times: 2}, {result: {ok: 1}}]
      gone: [{error: {message: gone}}]
      main: [{error: {message: down}}]
      spare: [{result: {ok: 2}}]
      bad: [{error: {message: bad}}]
`
	first := recorded(map[string]string{"f.yaml": flow, "f.test.yaml": strings.Replace(strings.Replace(cases, "    fixtures: r.json\n", "", 1), "    fakes: {}\n", fakes[1:], 1)})
	require.Empty(t, failures(first))
	raw, err := FixtureOf(first.Cases[0].Result, nil).Encode()
	require.NoError(t, err)
	again := recorded(map[string]string{"f.yaml": flow, "f.test.yaml": cases, "r.json": string(raw)})
	require.Empty(t, failures(again))
	assert.Equal(t, first.Cases[0].Result.ExecutionLog[0].RetryErrors, again.Cases[0].Result.ExecutionLog[0].RetryErrors)
}

func toolsOf(names ...string) executor.Tools {
	out := executor.Tools{}
	for _, name := range names {
		out[name] = &flows.Tool{Name: name}
	}
	return out
}

func TestPlayerThatLoops(t *testing.T) {
	none := Value{V: map[string]any{}}
	player := NewPlayer(&Fixture{Interactions: []Interaction{{ToolName: "t", Input: none, Output: Value{V: int64(1)}}, {ToolName: "t", Input: none, Output: Value{V: int64(2)}}}})
	player.Loop = true
	var got []any
	for range 5 {
		out, err := player.Invoke(context.Background(), &flows.Tool{Name: "t"}, nil, executor.CallInfo{})
		require.NoError(t, err)
		got = append(got, out)
	}
	assert.Equal(t, []any{int64(1), int64(2), int64(1), int64(2), int64(1)}, got)
	_, err := player.Invoke(context.Background(), &flows.Tool{Name: "u"}, nil, executor.CallInfo{})
	require.Error(t, err)
}

func TestParseFixtureRefuses(t *testing.T) {
	for _, doc := range []string{`{}`, `{"version":2}`, `{"version":1,"interactions":[{}]}`, `{"version":1,"more":1}`, `[`, `{"version":1} {}`} {
		_, err := ParseFixture([]byte(doc), "f.json")
		assert.Equal(t, flows.CodeInvalid, flows.CodeOf(err), doc)
		assert.ErrorContains(t, err, "f.json", doc)
	}
}

func TestLibrary(t *testing.T) {
	flow := func(version string) string {
		return fmt.Sprintf(`{"type":"Flow","name":"f","version":%q,"description":"d","steps":[]}`, version)
	}
	dir := write(t, map[string]string{"a.yaml": flow("1.9.0"), "b/f@1.10.0.flow.json": flow("1.10.0"), "tool.yml": "kind: Tool\nname: t\n", "x.test.yaml": "flow: a", "other.json": "[]"})
	l, err := ReadLibrary([]string{dir}, []string{dir})
	require.NoError(t, err)
	require.Len(t, l.Files, 2)
	newest, ok := l.Flow("f", "")
	require.True(t, ok)
	assert.Equal(t, "1.10.0", newest.Version)
	_, ok = l.Flow("f", "2.0.0")
	assert.False(t, ok)
	for _, name := range []string{"t", "passthrough"} {
		_, ok = l.Tool(name)
		assert.True(t, ok, name)
	}
	dir = write(t, map[string]string{"a.yaml": flow("1.0.0"), "b.yaml": flow("1.0.0"), "c.yaml": "type: Chain", "d.yaml": "a: [", "t.yaml": "kind: Tool\nname: t\n", "u.yaml": "kind: Tool\nname: t\n"})
	_, err = ReadLibrary([]string{dir}, []string{dir})
	e := new(flows.Error)
	require.ErrorAs(t, err, &e)
	var details []string
	for _, d := range e.Details {
		details = append(details, d.Detail)
	}
	require.Len(t, details, 4, "%v", details)
	for i, want := range []string{"d.yaml: invalid YAML", "tool t is declared in", "flow f@1.0.0 is in", "c.yaml: flow file: /type"} {
		assert.Contains(t, details[i], want)
	}
	_, err = ReadLibrary([]string{filepath.Join(dir, "d.yaml")}, nil)
	assert.ErrorContains(t, err, "invalid YAML")
}

// fakeT records what Verify reports.
type fakeT struct {
	*testing.T
	errors, fatals []string
}

func (f *fakeT) Errorf(format string, args ...any) {
	f.errors = append(f.errors, fmt.Sprintf(format, args...))
}
func (f *fakeT) Fatalf(format string, args ...any) {
	f.fatals = append(f.fatals, fmt.Sprintf(format, args...))
}

func TestVerify(t *testing.T) {
	dir := write(t, map[string]string{"order.yaml": lookup, "tools.yaml": tools, "order.test.yaml": "flow: order.yaml\ntools: [tools.yaml]\ncases: [{name: fails, input: {email: x}}]"})
	f := &fakeT{T: t}
	Verify(f, Options{}, dir)
	require.Len(t, f.errors, 1)
	assert.Contains(t, f.errors[0], "order.test.yaml: fails:\n  tool 'find_user'")
	Verify(f, Options{}, filepath.Join(dir, "absent"))
	assert.Len(t, f.fatals, 1)
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("flow: f\ncases: [{name: a, input: {x: 1}, fakes: {t: [{when: {a: 1}, result: 1, times: 2}]}, expect: {steps: [{inputs: {}}]}}]"))
	f.Add([]byte(`{"flow":"f","cases":[{"name":"a","expect":{"hand_back":{}}}]}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		if _, err := Parse(doc, "x"); err != nil {
			require.Equal(t, flows.CodeInvalid, flows.CodeOf(err))
		}
		if _, err := ParseFixture(doc, "x"); err != nil {
			require.Equal(t, flows.CodeInvalid, flows.CodeOf(err))
		}
	})
}
