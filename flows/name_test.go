package flows

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestCheckName(t *testing.T) {
	for _, name := range []string{"a", "shipment_from_order", "../etc", "Größe 2", "注文", strings.Repeat("ü", 128)} {
		assert.NoError(t, CheckName(name), name)
	}
	for name, says := range map[string]string{
		"": "empty", strings.Repeat("a", 129): "longer than 128", "a@1.0.0": "@", "go\x00od": "printed", "a\nb": "printed", "\x1b[31m": "printed",
		"a\u202eb": "printed", "a\xff": "printed", " a": "space", "a ": "space", ".": "path", "..": "path",
	} {
		err := CheckName(name)
		assert.Equal(t, CodeInvalid, CodeOf(err), "%q", name)
		assert.ErrorContains(t, err, says, "%q", name)
	}
}
