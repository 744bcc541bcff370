package bench

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pave/flows"
)

// TestSizes: a size at which nothing would be measured is refused by the name of its flag, before any work.
func TestSizes(t *testing.T) {
	for want, b := range map[string]Runner{
		"--calls is 0; give a number from 10000":  Mining{},
		"--calls is -1; give a number from 10000": Mining{Calls: -1},
		"--calls is 10; give a number from 10000": Planted{Calls: 10},
		"--calls is -1; give a number from 1":     Ingest{Calls: -1, Engine: "sqlite"},
		"--calls is 0; give a number from 1":      Tools{Memory: 1},
		"--memory is 0; give a number from 1":     Tools{Calls: 1},
		"--requests is -3; give a number from 1":  API{Calls: 1, Requests: -3},
		"--proposals is -2; give a number from 0": API{Calls: 1, Requests: 1, Proposals: -2},
		"--tools is -1; give a number from 0":     Analyzer{Tools: -1},
	} {
		_, err := b.Run(t.Context(), quiet)
		require.ErrorContains(t, err, want)
		var told *flows.Error
		require.ErrorAs(t, err, &told)
		assert.Equal(t, flows.CodeInvalid, told.Code)
	}
}
