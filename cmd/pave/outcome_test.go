package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"

	"pave/api"
	"pave/api/gen"
)

// TestOutcomeOfRuns: people read why a run stopped and, when it was handed back, where to go on.
func TestOutcomeOfRuns(t *testing.T) {
	for _, c := range []struct {
		run  gen.Run
		says string
	}{
		{gen.Run{ID: "r", Flow: "f", Version: "1.0.0", Status: gen.RunStatusHandedBack, ErrorMessage: "guard is false: n > 1",
			HandBackText: "The flow stopped.\nNext would be \x1b[31mrefund.\n"},
			"pave: run r of f@1.0.0: handed_back: guard is false: n > 1\n  The flow stopped.\n  Next would be \\u001b[31mrefund.\n"},
		{gen.Run{ID: "r", Flow: "f", Version: "1.0.0", Status: gen.RunStatusFailed, ErrorMessage: "boom", ErrorCode: "CW-E006", HandBackText: "not shown"},
			"pave: run r of f@1.0.0: failed: boom (CW-E006)\n"},
		{gen.Run{ID: "r", Flow: "f", Version: "1.0.0", Status: gen.RunStatusCancelled}, "pave: run r of f@1.0.0: cancelled\n"},
	} {
		var said bytes.Buffer
		err := outcome(&env{err: &said}, &c.run)
		assert.Equal(t, errExit(api.ExitFailed), err)
		assert.Equal(t, c.says, said.String())
	}
}
