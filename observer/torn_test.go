package observer

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"pave/ingest"
)

// TestLostSteps: noise loses every inner step of a whole about as often; an optional step is one that agents leave out.
func TestLostSteps(t *testing.T) {
	steps := []uint32{0, 1, 2, 3, 4, 5}
	parts := map[string]int{}
	for _, p := range pieces(steps) {
		parts[tokenKey(p)] = 100
	}
	noisy := &tears{wholes: []whole{{tokens: steps, lost: 0.1, parts: parts}}}
	require.True(t, noisy.torn([]uint32{0, 1, 3, 4, 5}, 12), "a step lost")
	require.True(t, noisy.torn([]uint32{1, 3, 4}, 12), "a part with a step lost")
	require.True(t, noisy.torn([]uint32{0, 1, 7, 2, 3}, 12), "a call in between")
	require.False(t, noisy.torn([]uint32{0, 1, 3, 4, 5}, 60), "left out more often than noise does")
	require.False(t, noisy.torn([]uint32{0, 3, 4, 5}, 5), "two steps lost")
	require.False(t, noisy.torn([]uint32{6, 7, 8, 9}, 12))
	clean := &tears{wholes: []whole{{tokens: steps, parts: parts}}}
	require.False(t, clean.torn([]uint32{0, 1, 3, 4, 5}, 12), "no other step is ever lost")
}

// TestWhatNearlyAlwaysGoesOnIsCounted: below the support a sequence is kept where both of its parts nearly always go on in it.
func TestWhatNearlyAlwaysGoesOnIsCounted(t *testing.T) {
	lengths := func(whole, parts int) int {
		var sessions []ingest.Session
		for i := range whole {
			sessions = append(sessions, sessionOf(fmt.Sprint("w", i), "a b c"))
		}
		for i := range parts {
			sessions = append(sessions, sessionOf(fmt.Sprint("p", i), "a b |b c"))
		}
		return len(count(logOf(t, NewMemory(sessions)), 16, 90).levels) - 1
	}
	require.Equal(t, 3, lengths(80, 20))
	require.Equal(t, 2, lengths(60, 40))
}
