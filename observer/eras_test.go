package observer

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/ingest"
)

// A tool that changed is two: its calls from before are not mined and end stretches.
func TestChangedToolIsAnother(t *testing.T) {
	day := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	session := func(i int) ingest.Session {
		arg := map[bool]string{true: "uid", false: "user_id"}[i < 40]
		s := talk(id(i), j("I am user%d", i),
			step{tool: "find", args: j(`{"name":"user%d"}`, i), result: j(`{"key":"k-%d"}`, i)},
			step{tool: "read", args: j(`{%q:"k-%d"}`, arg, i), result: j(`{"ship":"sh-%d"}`, i)},
			step{tool: "track", args: j(`{"ship":"sh-%d"}`, i), result: `{}`})
		for c := range s.Runs[0].Calls {
			s.Runs[0].Calls[c].Start = day.Add(time.Duration(i) * time.Hour)
		}
		return s
	}
	changed := day.Add(40 * time.Hour) // the 41st session begins with the change
	src := NewMemory(many(100, session))
	options := Options{Since: map[string]time.Time{"read": changed, "nobody": changed}}
	r, err := Mine(t.Context(), src, options)
	require.NoError(t, err)
	require.Equal(t, []int{100, 300 - 40, 40}, []int{r.Sessions, r.Calls, r.EarlierCalls})
	p := r.pattern("find > read > track")
	require.NotNil(t, p)
	require.Equal(t, []int{60, 60}, []int{p.Occurrences, p.Sessions})
	require.Len(t, p.DataFlow.Steps[1].Args, 1)
	require.Equal(t, []any{"user_id", SourceOutput, 60, 60}, []any{p.DataFlow.Steps[1].Args[0].Arg, p.DataFlow.Steps[1].Args[0].Kind,
		p.DataFlow.Steps[1].Args[0].Evidence.Held, p.DataFlow.Steps[1].Args[0].Evidence.Present})
	require.Nil(t, r.pattern("find > track"), "what is not mined lies in between")

	e, err := Explain(t.Context(), src, r, []string{"find", "read", "track"}, options)
	require.NoError(t, err)
	require.Equal(t, 60, e.Occurrences)

}
