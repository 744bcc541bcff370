package replay

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestRank orders by what is added: of three sessions two have a to d, one a and b. abcd saves 2·3; then ab saves 1 (in
// the third), bc and cd nothing more.
func TestRank(t *testing.T) {
	bare := func(name string, tools ...string) *Flow {
		text := "type: Flow\nname: " + name + "\nsteps:\n"
		for i, tool := range tools {
			text += fmt.Sprintf("  - {tool_name: %s, output_as: o%d}\n", tool, i)
		}
		return flow(t, text)
	}
	calls := func(tools ...string) *Session {
		parts := []any{said("x")}
		for i, tool := range tools {
			parts = append(parts, called{int32(i), tool, `{}`, `{}`, false})
		}
		return session(t, int32(len(tools))+1, parts...)
	}
	all := []*Flow{bare("ab", "get_a", "get_b"), bare("bc", "get_b", "get_c"), bare("cd", "get_c", "get_d"), bare("abcd", "get_a", "get_b", "get_c", "get_d")}
	r := NewRanking(all, []*Session{calls("get_a", "get_b", "get_c", "get_d"), calls("get_a", "get_b", "get_c", "get_d"), calls("get_a", "get_b")}, nil)
	assert.Equal(t, []int{3, 2, 2, 2}, []int{r.ByFlow[0].Exact, r.ByFlow[1].Exact, r.ByFlow[2].Exact, r.ByFlow[3].Exact})

	every := func(int) bool { return true }
	order, gains := r.Rank(every, 0)
	assert.Equal(t, []int{3, 0}, order)
	assert.Equal(t, []int{6, 1}, gains)

	order, gains = r.Rank(every, 2)
	assert.Equal(t, []int{3}, order)
	assert.Equal(t, []int{6}, gains)

	order, gains = r.Rank(func(k int) bool { return k != 3 }, 1)
	assert.Equal(t, []int{0, 2}, order, "ab thrice, then cd twice; bc shares its calls with both")
	assert.Equal(t, []int{3, 2}, gains)
}
