package governance

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Flows that were decoded are given again for the same JSON and no other, and do not pile up.
func TestDecodedFlows(t *testing.T) {
	text := func(i int) []byte {
		return fmt.Appendf(nil, `{"format_version":"1.1","type":"Flow","name":"f%d","version":"1.0.0","description":"d","input_schema":{"type":"object"},"steps":[{"tool_name":"t","input_mapping":{},"output_as":"o"}]}`, i)
	}
	var d decodedFlows
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range maxDecoded + 50 {
				flow, err := d.of(text(i))
				if assert.NoError(t, err) {
					assert.Equal(t, fmt.Sprintf("f%d", i), flow.Name)
				}
			}
		})
	}
	all.Wait()
	require.LessOrEqual(t, len(d.kept), maxDecoded)
	last := text(maxDecoded + 49)
	one, err := d.of(last)
	require.NoError(t, err)
	again, err := d.of(last)
	require.NoError(t, err)
	require.Same(t, one, again)
	_, err = d.of([]byte(`{"steps":`))
	require.Error(t, err)
	require.NotContains(t, d.kept, `{"steps":`)
}
