package bind

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"pave/flows"
)

// FuzzEgress: an entry either parses or is refused, and never opens what it does not name.
func FuzzEgress(f *testing.F) {
	for _, seed := range []string{"127.0.0.1:80", "10.0.0.0/8:*", "[::1]:80", "[fd00::/8]:443", "localhost:9", ":", "[]:1", "a/b:1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, entry string) {
		e, err := NewEgress([]string{entry})
		if err != nil {
			assert.Equal(t, flows.CodeInvalid, flows.CodeOf(err))
			return
		}
		named := strings.Contains(entry, "/") || strings.Contains(entry, "169.254.169.254") || strings.Contains(strings.ToLower(entry), "a9fe:a9fe")
		if !named {
			assert.False(t, e.permits("169.254.169.254:80"), entry)
		}
	})
}
