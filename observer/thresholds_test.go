package observer

import (
	"fmt"
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// The thresholds in the documentation are those of the program.
func TestThresholdsAreDocumented(t *testing.T) {
	doc, err := os.ReadFile("README.md")
	require.NoError(t, err)
	constants := map[string]any{
		"branchBelow":    branchBelow,
		"mostGoOn":       mostGoOn,
		"minTorn":        minTorn,
		"tornTolerance":  tornTolerance,
		"mostly":         mostly,
		"smallSample":    smallSample,
		"minVotes":       minVotes,
		"minDistinct":    minDistinct,
		"minDerived":     minDerived,
		"minRepeated":    minRepeated,
		"minLengths":     minLengths,
		"minConverted":   minConverted,
		"variantSupport": variantSupport,
		"minWholeLists":  minWholeLists,
		"minLoopShare":   minLoopShare,
		"minGuardCases":  minGuardCases,
		"minGuardSide":   minGuardSide,
		"minGuardRight":  minGuardRight,
		"maxBetween":     maxBetween,
		"minGapValues":   minGapValues,
		"minGapSession":  minGapSession,
		"minGapShare":    minGapShare,
		"maxGapped":      maxGapped,
		"maxBatchSteps":  maxBatchSteps,
		"minPassed":      minPassed,
		"minBatchGain":   minBatchGain,
		"fairShare":      fairShare,
		"recentWeeks":    recentWeeks,
		"steadyWeeks":    steadyWeeks,
		"driftLimit":     driftLimit,
		"minNoiseCalls":  minNoiseCalls,
		"noiseKeeps":     noiseKeeps,
		"noiseTells":     noiseTells,
		"noiseCarries":   noiseCarries,
	}
	rows := regexp.MustCompile(`(?m)^\| `+"`([a-zA-Z]+)`"+` \| ([0-9.]+) \|`).FindAllStringSubmatch(string(doc), -1)
	require.Len(t, rows, len(constants))
	for _, row := range rows {
		require.Contains(t, constants, row[1])
		require.Equal(t, fmt.Sprint(constants[row[1]]), row[2], row[1])
	}
}
