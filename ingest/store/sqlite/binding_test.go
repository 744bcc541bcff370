package sqlite

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// A binding knows what was added, few or many.
func TestBinding(t *testing.T) {
	var b binding
	for i := range 3 * fewSessions {
		name := fmt.Sprint("s", i)
		require.False(t, b.has(name), name)
		b.add(name, int64(i))
		for k := range 3 * fewSessions {
			require.Equal(t, k <= i, b.has(fmt.Sprint("s", k)), "%d of %d", k, i)
		}
		require.Len(t, b.all, i+1)
		require.Equal(t, boundSession{name, int64(i)}, b.all[i])
	}
	one := boundTo("x", 7)
	require.True(t, one.has("x"))
	require.False(t, one.has("y"))
}
