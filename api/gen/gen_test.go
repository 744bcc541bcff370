package gen

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The committed code must be what openapi.yaml gives.
func TestGeneratedCodeIsCurrent(t *testing.T) {
	for _, name := range []string{"types", "server", "client"} {
		fresh := filepath.Join(t.TempDir(), name+".gen.go")
		config, err := os.ReadFile(name + ".yaml")
		require.NoError(t, err)
		other := filepath.Join(t.TempDir(), name+".yaml")
		moved := strings.Replace(string(config), "output: "+name+".gen.go", "output: "+fresh, 1)
		require.NoError(t, os.WriteFile(other, []byte(moved), 0o600))
		out, err := exec.Command("go", "tool", "oapi-codegen", "-config", other, "../openapi.yaml").CombinedOutput()
		require.NoError(t, err, string(out))
		want, err := os.ReadFile(fresh)
		require.NoError(t, err)
		got, err := os.ReadFile(name + ".gen.go")
		require.NoError(t, err)
		require.Equal(t, string(want), string(got), "%s.gen.go is stale: run go generate ./api/gen", name)
	}
}
