package ingest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/flows"
)

func TestRatesHoldEachKey(t *testing.T) {
	now := time.Unix(1_000, 0)
	l := NewRateLimiter(Rates{Requests: 1}, map[string]Rates{"bulk": {Records: 100, Bytes: 1000}, "free": {}}, func() time.Time { return now })
	for range 10 { // a burst of ten seconds
		require.NoError(t, l.Admit("a"))
	}
	err := l.Admit("a")
	require.Equal(t, flows.CodeRateLimited, flows.CodeOf(err))
	require.NoError(t, l.Admit("b"), "another key has its own account")
	now = now.Add(2 * time.Second)
	require.NoError(t, l.Admit("a"))
	require.NoError(t, l.Admit("a"))
	require.Error(t, l.Admit("a"))

	require.NoError(t, l.Admit("bulk"))
	l.Charge("bulk", 1_200, 10) // 200 more than the burst: two seconds to pay off
	err = l.Admit("bulk")
	after, ok := RetryAfter(err)
	require.True(t, ok)
	require.Equal(t, 2*time.Second, after)
	require.ErrorContains(t, err, "records")
	now = now.Add(2*time.Second + time.Millisecond)
	require.NoError(t, l.Admit("bulk"))
	l.Charge("bulk", 0, 20_000)
	require.ErrorContains(t, l.Admit("bulk"), "bytes")

	for range 1000 {
		require.NoError(t, l.Admit("free"))
		l.Charge("free", 1_000_000, 1<<40)
	}
}

func TestRatesForgetKeys(t *testing.T) {
	now := time.Unix(1_000, 0)
	l := NewRateLimiter(Rates{Requests: 1}, nil, func() time.Time { return now })
	for i := range maxRateKeys + 100 {
		require.NoError(t, l.Admit(fmt.Sprint(i)))
	}
	require.LessOrEqual(t, len(l.keys), maxRateKeys)
}
