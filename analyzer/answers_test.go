package analyzer

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pave/flows"
	"pave/observer"
)

// A call that is mostly answered with one sentence and then made again may be a mistake that agents correct.
func TestWarningOfMistakes(t *testing.T) {
	create, find := tool("create", object("title"), "", flows.EffectWrite), tool("find", object("name"), "", flows.EffectRead)
	arg := func(name string) observer.ArgFlow {
		return observer.ArgFlow{Arg: name, Presence: 1, Kind: observer.SourceInput, Input: name}
	}
	warned := func(first, last func(i int) string) []string {
		p := observer.Pattern{Tools: []string{"create", "find", "create"}, Occurrences: 8, Sessions: 8, Score: 8, TurnsSaved: 2, DataFlow: &observer.DataFlow{Sampled: 8,
			Steps:  []observer.StepFlow{{Args: []observer.ArgFlow{arg("title")}}, {Args: []observer.ArgFlow{arg("name")}}, {Args: []observer.ArgFlow{arg("title")}}},
			Inputs: []observer.Input{{Name: "title", Arg: "title", Required: true}, {Name: "name", Step: 1, Arg: "name", Required: true}}}}
		sessions := memory{}
		for i := range 8 {
			id := fmt.Sprintf("s%d", i)
			sessions[id] = session(id, []string{first(i), `["ann"]`, last(i)}, []int32{0, 1, 2})
			p.Examples = append(p.Examples, observer.Occurrence{SessionID: id, Calls: []int{0, 1, 2}})
		}
		candidates, dropped := minedOnly(t, p, sessions, create, find)
		require.Empty(t, dropped)
		return candidates[0].Warnings
	}
	says := func(text string, below int, other string) func(int) string {
		return func(i int) string {
			if i < below {
				quoted, err := json.Marshal(text)
				require.NoError(t, err)
				return string(quoted)
			}
			return other
		}
	}
	refused, made := "Assignee not valid: choose one.", says("", 0, `"00000300"`)
	assert.Equal(t, []string{`step 1 (create) was answered "Assignee not valid: choose one." in 4 of 8 examples, and agents call it again in step 3: if that refuses the call, the flow repeats a mistake`},
		warned(says(refused, 4, `"00000299"`), made))
	assert.Equal(t, []string{"step 1 (create) was answered with one and the same sentence in 8 of 8 examples, and agents call it again in step 3: if that refuses the call, the flow repeats a mistake"},
		warned(says("Not ann@example.com, choose one.", 8, ""), made), "it names a person")
	assert.Empty(t, warned(says(refused, 3, `"00000299"`), made), "3 of 8")
	assert.Empty(t, warned(says(refused, 8, ""), says(refused, 3, `"00000300"`)), "the last call is answered so, too")
	assert.Empty(t, warned(says("Created.", 8, ""), made), "a word")
	assert.Empty(t, warned(says("", 0, `{"error":"Assignee not valid: choose one."}`), made), "an object")
}
