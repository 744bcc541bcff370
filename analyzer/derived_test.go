package analyzer

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pave/flows"
	"pave/flows/expr"
	"pave/flows/value"
	"pave/observer"
)

// anyUser takes values of any type.
var anyUser = tool("get_user_details", `{"type":"object","required":["user_id"],"properties":{"user_id":{}}}`, "", flows.EffectRead)

// derivedDraft is a draft of two steps of which the second takes a derived value of the first.
func derivedDraft(t *testing.T, d *observer.Derived, find, use *flows.Tool) (mapping string, dropped []string) {
	t.Helper()
	p := pair("find", "get_user_details")
	p.DataFlow.Steps[0].Args[0].Arg, p.DataFlow.Steps[0].Args[0].Input, p.DataFlow.Inputs[0].Name, p.DataFlow.Inputs[0].Arg = "q", "q", "q", "q"
	p.DataFlow.Steps[1].Args[0] = observer.ArgFlow{Arg: "user_id", Presence: 1, Kind: observer.SourceDerived, Derived: d}
	candidates, dropped := minedOnly(t, p, memory{}, find, use)
	if len(candidates) == 0 {
		return "", dropped
	}
	mapped := candidates[0].Flow.Steps[1].InputMapping[0].Value
	require.Equal(t, flows.MapExpr, mapped.Kind)
	return mapped.Ref, dropped
}

// Lists and texts as a whole, and objects by their keys, give what was recorded, and no value where that is not there: an empty
// list, a key that is missing, two keys where one is wanted, elements that are no texts, nothing at all.
func TestDerivedListsTextsAndKeys(t *testing.T) {
	at := func(pointer string) observer.Part { return observer.Part{Place: true, Pointer: pointer} }
	between := func(text string) observer.Part { return observer.Part{Text: text} }
	q := observer.Part{Place: true, Arg: "q"}
	for name, c := range map[string]struct {
		d       observer.Derived
		mapping string
		values  map[string]string // result of find -> value, "" for none
	}{
		"last": {observer.Derived{Form: observer.FormLast, Take: "/id", Parts: []observer.Part{at("/a b")}}, `find["a b"][size(find["a b"]) - 1].id`,
			map[string]string{`{"a b":[{"id":1}]}`: "1", `{"a b":[{"id":1},{"id":"z"}]}`: `"z"`, `{"a b":[]}`: "", `{}`: "", `{"a b":[{"id":1},{}]}`: ""}},
		"last as it is": {observer.Derived{Form: observer.FormLast, Parts: []observer.Part{at("/tags")}}, `find.tags[size(find.tags) - 1]`,
			map[string]string{`{"tags":["x","y"]}`: `"y"`, `{"tags":[]}`: ""}},
		"size": {observer.Derived{Form: observer.FormSize, Parts: []observer.Part{at("/rows")}}, `size(find.rows)`,
			map[string]string{`{"rows":[]}`: "0", `{"rows":[1,2]}`: "2", `{"rows":null}`: "", `{}`: ""}},
		"column": {observer.Derived{Form: observer.FormColumn, Take: "/id", Parts: []observer.Part{at("/rows")}}, `find.rows.map(e, e.id)`,
			map[string]string{`{"rows":[{"id":"b"},{"id":2}]}`: `["b",2]`, `{"rows":[{"id":"b"},{}]}`: "", `{"rows":[]}`: "[]"}},
		"join": {observer.Derived{Form: observer.FormJoin, Take: "/id", Parts: []observer.Part{at("/rows"), between(", ")}}, `find.rows.map(e, string(e.id)).join(", ")`,
			map[string]string{`{"rows":[{"id":"b"},{"id":2}]}`: `"b, 2"`, `{"rows":[{"id":"b"}]}`: `"b"`, `{"rows":[{"id":null}]}`: "", `{"rows":[{"id":[]}]}`: ""}},
		"join by lines": {observer.Derived{Form: observer.FormJoin, Parts: []observer.Part{at("/tags"), between("\n")}}, `find.tags.map(e, string(e)).join("\n")`,
			map[string]string{`{"tags":["b","a"]}`: `"b\na"`}},
		"split": {observer.Derived{Form: observer.FormSplit, Parts: []observer.Part{at("/to"), between("; ")}}, `find.to.split("; ")`,
			map[string]string{`{"to":"a; b"}`: `["a","b"]`, `{"to":"a"}`: `["a"]`, `{"to":7}`: ""}},
		"member": {observer.Derived{Form: observer.FormMember, Take: "/ids/0", Parts: []observer.Part{at("/by"), q}}, `find.by[q].ids[0]`,
			map[string]string{`{"by":{"red":{"ids":["x"]},"blue":{"ids":["y"]}}}`: `"x"`, `{"by":{"blue":{"ids":["y"]}}}`: "", `{"by":{"red":{"ids":[]}}}`: ""}},
		"only key": {observer.Derived{Form: observer.FormOnlyKey, Parts: []observer.Part{at("/by")}}, `[dyn(find.by)].filter(o, size(o) == 1)[0].filter(k, true)[0]`,
			map[string]string{`{"by":{"red":1}}`: `"red"`, `{"by":{"red":1,"blue":1}}`: "", `{"by":{}}`: ""}},
		"lower": {observer.Derived{Form: observer.FormLower, Parts: []observer.Part{at("/to")}}, `find.to.lowerAscii()`, map[string]string{`{"to":"ÄbC"}`: `"Äbc"`, `{"to":7}`: ""}},
		"upper": {observer.Derived{Form: observer.FormUpper, Parts: []observer.Part{q}}, `q.upperAscii()`, map[string]string{`{}`: `"RED"`}},
		"trim":  {observer.Derived{Form: observer.FormTrim, Parts: []observer.Part{at("/to")}}, `find.to.trim()`, map[string]string{`{"to":" a b\t"}`: `"a b"`, `{"to":null}`: ""}},
	} {
		t.Run(name, func(t *testing.T) {
			mapping, dropped := derivedDraft(t, &c.d, tool("find", object("q"), "", flows.EffectRead), anyUser)
			require.Empty(t, dropped)
			require.Equal(t, c.mapping, mapping)
			program, err := expr.Compile(mapping, []expr.Variable{{Name: "find"}, {Name: "q"}})
			require.NoError(t, err)
			for result, want := range c.values {
				find, err := value.Decode([]byte(result))
				require.NoError(t, err)
				got, err := program.Eval(map[string]any{"find": find, "q": "red"})
				if want == "" {
					assert.Error(t, err, result)
					continue
				}
				require.NoError(t, err, result)
				assert.Equal(t, want, string(value.Encode(got)), result)
			}
		})
	}
}

// Schemas are asked of what an expression gives, too: a number of elements is no text, and texts that are none cannot be joined.
func TestDerivedValuesThatSchemasContradict(t *testing.T) {
	find := tool("find", object("q"), `{"type":"object","required":["rows","to","by"],"properties":{"to":{"type":"string"},
		"rows":{"type":"array","items":{"type":"object","required":["id"],"properties":{"id":{"type":"string"}}}},
		"by":{"type":"object","properties":{"red":{"type":"string"},"blue":{"type":"string"}}}}}`, flows.EffectRead)
	rows, to, by := observer.Part{Place: true, Pointer: "/rows"}, observer.Part{Place: true, Pointer: "/to"}, observer.Part{Place: true, Pointer: "/by"}
	for name, c := range map[string]struct {
		d   observer.Derived
		why string
	}{
		"size for a text":   {observer.Derived{Form: observer.FormSize, Parts: []observer.Part{rows}}, `'size(find.rows)' does not fit argument user_id of get_user_details`},
		"column for a text": {observer.Derived{Form: observer.FormColumn, Take: "/id", Parts: []observer.Part{rows}}, `does not fit argument user_id`},
		"split for a text":  {observer.Derived{Form: observer.FormSplit, Parts: []observer.Part{to, {Text: ","}}}, `does not fit argument user_id`},
		"small list":        {observer.Derived{Form: observer.FormLower, Parts: []observer.Part{rows}}, `found no matching overload for 'lowerAscii'`},
		"no separator":      {observer.Derived{Form: observer.FormSplit, Parts: []observer.Part{to}}, `in a way that flows cannot say: split`},
		"last":              {observer.Derived{Form: observer.FormLast, Take: "/id", Parts: []observer.Part{rows}}, ""},
		"join":              {observer.Derived{Form: observer.FormJoin, Take: "/id", Parts: []observer.Part{rows, {Text: ","}}}, ""},
		"only key":          {observer.Derived{Form: observer.FormOnlyKey, Parts: []observer.Part{by}}, ""},
		"member":            {observer.Derived{Form: observer.FormMember, Parts: []observer.Part{by, {Place: true, Arg: "q"}}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			mapping, dropped := derivedDraft(t, &c.d, find, getUser)
			if c.why == "" {
				require.Empty(t, dropped)
				require.NotEmpty(t, mapping)
				return
			}
			require.Empty(t, mapping)
			require.Len(t, dropped, 1)
			require.Contains(t, dropped[0], c.why)
		})
	}
}

// The member whose key the caller says, in any case, also where the tool declares the members; what is no key is an error, so
// that the flow hands back.
func TestMemberThatCallersName(t *testing.T) {
	find := tool("find", object("q"), `{"type":"object","required":["by"],"properties":{"by":{"type":"object","properties":{"Red":{"type":"object"},"blue":{"type":"object"}}}}}`, flows.EffectRead)
	p := pair("find", "get_user_details")
	p.DataFlow.Steps[0].Args[0].Arg, p.DataFlow.Steps[0].Args[0].Input, p.DataFlow.Inputs[0].Name, p.DataFlow.Inputs[0].Arg = "q", "q", "q", "q"
	d := &observer.Derived{Form: observer.FormMember, Asks: true, Take: "/id", Parts: []observer.Part{{Place: true, Pointer: "/by"}}}
	p.DataFlow.Steps[1].Args[0] = observer.ArgFlow{Arg: "user_id", Presence: 1, Kind: observer.SourceDerived, Derived: d, Input: "by_key"}
	p.DataFlow.Inputs = append(p.DataFlow.Inputs, observer.Input{Name: "by_key", Step: 1, Arg: "user_id", Origin: "user text"})
	candidates, dropped := minedOnly(t, p, memory{}, find, getUser)
	require.Empty(t, dropped)
	f := candidates[0].Flow
	require.Equal(t, "by_key != None", f.Steps[1].Guard)
	require.Contains(t, string(f.InputSchema), "key of the one that is meant among what find returns")
	program, err := expr.Compile(f.Steps[1].InputMapping[0].Value.Ref, []expr.Variable{{Name: "find"}, {Name: "by_key"}})
	require.NoError(t, err)
	for name, want := range map[string]any{"red": "r1", "BLUE": "b1", "green": nil} {
		find, err := value.Decode([]byte(`{"by":{"Red":{"id":"r1"},"blue":{"id":"b1"}}}`))
		require.NoError(t, err)
		got, err := program.Eval(map[string]any{"find": find, "by_key": name})
		require.Equal(t, want == nil, err != nil, name)
		require.Equal(t, want, got, name)
	}
	d.Parts = nil
	_, dropped = minedOnly(t, p, memory{}, find, getUser)
	require.Equal(t, []string{"an argument of get_user_details is a member, but nothing says of what"}, dropped)
}
