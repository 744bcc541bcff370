package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pave/analyzer/replay"
	"pave/flows"
)

// shopCalls are the two calls of a session: a user, found by what was said, and an order of the user's; wrong makes the
// second argument one that nothing explains.
func shopCalls(id int, more string, wrong bool) string {
	user := fmt.Sprintf("u%dx", id)
	asked := user
	if wrong {
		asked = "nobody"
	}
	return fmt.Sprintf(`{"session_id":"s%d","seq":0,"turn":0,"tool":"find_user","args":{"email":"p%d@b.c"},"result":{"id":%q},"error":null,"context":"I am p%d@b.c"%s}
{"session_id":"s%d","seq":1,"turn":1,"tool":"get_order","args":{"user_id":%q},"result":{"status":"open"},"error":null,"context":null%s}
`, id, id, user, id, more, id, asked, more)
}

func labelled(id int) string { return fmt.Sprintf(`,"dataset":"one","task_id":"t%d"`, id) }

// recorded writes a folder of recorded sessions: the text of each file by name without ending.
func recorded(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name+".jsonl"), []byte(text), 0o600))
	}
	return dir
}

func many(from, to int, text func(id int) string) string {
	var b strings.Builder
	for id := from; id < to; id++ {
		b.WriteString(text(id))
	}
	return b.String()
}

func rightCalls(id int) string { return shopCalls(id, labelled(id), false) }

// TestReplayByHand: forty sessions teach one flow of two calls. On the test side it serves eight of ten sessions of
// four model calls, of the other two the argument is another; a domain that nothing was learnt from has ten more. So
// eight of eighty turns are saved, and eight of ten predictions are right.
func TestReplayByHand(t *testing.T) {
	train := recorded(t, map[string]string{"shop": many(0, 40, rightCalls) + "{\"session_id\": oops\n", "none": ""})
	shop := many(100, 108, rightCalls) + many(108, 110, func(id int) string { return shopCalls(id, labelled(id), true) })
	test := recorded(t, map[string]string{"shop": shop, "garage": many(200, 210, rightCalls), "sessions": many(100, 210, func(id int) string {
		return fmt.Sprintf(`{"session_id":"s%d","llm_calls":4}`+"\n", id)
	})})
	res, err := Replay{Data: train, Test: test}.Run(t.Context(), quiet)
	require.NoError(t, err)
	r := res.(ReplayResult)
	assert.Equal(t, []int{40, 20, 40, 80}, []int{r.TrainSessions, r.TestSessions, r.TestCalls, r.TestLLMCalls})
	assert.Equal(t, replayBounds{Structural: 25, SequenceOnly: 12.5, Oracle: 22.5, SupportOracle: 10}, r.Bounds)
	assert.Equal(t, replayBaselines{SequenceOnly: 12.5}, r.Baselines, "no name is the same, and no caller knows the user")
	require.Len(t, r.Sets, 2)
	assert.Equal(t, []string{"garage", "shop"}, []string{r.Sets[1].Domain, r.Sets[0].Domain})
	for _, p := range []replayPoint{r.Pooled.NoFloor, r.Pooled.Floor97, r.Pooled.Floor99} {
		assert.Equal(t, []float64{10, 40, 80, 80, 10, 10, 10}, []float64{p.Avoided, p.Covered, p.Exactness, p.TriggerPrecision, p.AvoidedMacro, p.AvoidedLenient, p.TopK["5"]})
		assert.Zero(t, p.DestructiveInexact, "both tools read")
	}
	assert.Equal(t, []float64{20, 0}, []float64{r.Sets[0].NoFloor.Avoided, r.Sets[1].NoFloor.Avoided})
	text, err := json.Marshal(r.Limits)
	require.NoError(t, err)
	assert.NotContains(t, string(text), "null", "lists are lists")
}

// TestReplayOfFewSessions: where nothing is worth proposing the figures are zero.
func TestReplayOfFewSessions(t *testing.T) {
	dir := recorded(t, map[string]string{"shop": rightCalls(1)})
	res, err := Replay{Data: dir, Test: dir}.Run(t.Context(), quiet)
	require.NoError(t, err)
	r := res.(ReplayResult)
	assert.Equal(t, []int{1, 1, 0, 0}, []int{r.TrainSessions, r.TestSessions, r.Pooled.NoFloor.Flows, r.Pooled.Floor97.Flows})
	assert.Equal(t, 50.0, r.Bounds.Structural)
}

// TestReplayRefuses what would end in figures that mean nothing, before any work.
func TestReplayRefuses(t *testing.T) {
	dir, empty := recorded(t, map[string]string{"shop": many(0, 10, rightCalls)}), recorded(t, map[string]string{"shop": ""})
	for want, b := range map[string]Replay{
		"has 10 sessions to propose from and": {Data: dir, Test: empty},
		"has 0 sessions to propose from and":  {Data: empty, Test: dir},
		"0 are to propose from and 10":        {Data: dir, TrainFrac: 0.001},
		"10 are to propose from and 0":        {Data: dir, TrainFrac: 0.999},
		"is no folder":                        {Data: dir, Test: dir, Export: filepath.Join(dir, "shop.jsonl")},
		"has no .jsonl files":                 {Data: t.TempDir(), Test: dir},
	} {
		_, err := b.Run(t.Context(), quiet)
		require.ErrorContains(t, err, want)
		var told *flows.Error
		require.ErrorAs(t, err, &told)
		assert.Equal(t, flows.CodeInvalid, told.Code)
	}
}

// TestLabels: the task and the data set of a session stand in its calls or in its totals. A session with neither is a
// task of its own and belongs to the data set of its file.
func TestLabels(t *testing.T) {
	dir := recorded(t, map[string]string{
		"shop": shopCalls(1, labelled(1), false) + shopCalls(2, "", false) + shopCalls(3, "", false),
		"sessions": `{"session_id":"s1","dataset":"two","task_id":"t9"}
{"session_id":"s2","dataset":"two","task_id":"t1","file":"shop"}
{"session_id":"s3","dataset":"two","task_id":"t1","file":"garage"}
`})
	domains, err := readDomains(context.Background(), quiet, dir)
	require.NoError(t, err)
	require.Len(t, domains, 1)
	got := map[string][2]string{}
	for _, s := range domains[0].sessions {
		got[s.ID] = [2]string{s.set, s.task}
	}
	assert.Equal(t, map[string][2]string{"s1": {"one", "t1"}, "s2": {"two", "t1"}, "s3": {"shop", "s3"}}, got)
}

// TestLeaveOut keeps the median of the inputs by leaving out those that save least; where every flow asks for much, all.
func TestLeaveOut(t *testing.T) {
	for name, c := range map[string]struct {
		inputs, values []int
		left           map[int]bool
	}{
		"none":         {nil, nil, map[int]bool{}},
		"few inputs":   {[]int{3, 1}, []int{1, 1}, map[int]bool{}},
		"one too many": {[]int{4, 2}, []int{9, 1}, map[int]bool{0: true}},
		"least first":  {[]int{4, 2, 5, 3}, []int{9, 1, 2, 1}, map[int]bool{2: true}},
		"all":          {[]int{4, 5, 9}, []int{3, 2, 1}, map[int]bool{0: true, 1: true, 2: true}},
	} {
		t.Run(name, func(t *testing.T) {
			var d replayDomain
			chosen := &d.chosen[1]
			for i, n := range c.inputs {
				chosen.compiled = append(chosen.compiled, &replay.Flow{Inputs: n})
				chosen.index, chosen.value = append(chosen.index, i), append(chosen.value, c.values[i])
			}
			out := []map[int]bool{{}}
			assert.Equal(t, len(c.left) > 0, leaveOut([]replayDomain{d}, 1, out))
			assert.Equal(t, c.left, out[0])
		})
	}
}
