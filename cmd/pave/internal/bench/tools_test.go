package bench

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The clients of the bench call a flow that really runs, and its worker serves one; what fails is counted and named.
func TestClientsOfTheToolBench(t *testing.T) {
	s, err := serveTools(t.Context(), Env{Version: "test", Progress: io.Discard}, filepath.Join(t.TempDir(), "data"))
	require.NoError(t, err)
	defer func() { require.NoError(t, s.stop()) }()
	client := func(role, key string) (say io.WriteCloser, hear *bufio.Scanner, ended chan error) {
		in, say := io.Pipe()
		heard, out := io.Pipe()
		ended = make(chan error, 1)
		go func() {
			ended <- Caller{URL: s.address, Key: key, Role: role, AtATime: 4}.Run(t.Context(), in, out)
			_ = out.Close()
		}()
		return say, bufio.NewScanner(heard), ended
	}

	say, hear, ended := client("agent", s.key)
	require.True(t, hear.Scan())
	_, err = fmt.Fprintln(say, 30)
	require.NoError(t, err)
	require.True(t, hear.Scan())
	var done Called
	require.NoError(t, json.Unmarshal(hear.Bytes(), &done))
	assert.Equal(t, 30, done.OK)
	assert.Zero(t, done.Failed, done.Problem)
	require.NoError(t, say.Close())
	require.NoError(t, <-ended)

	_, hear, ended = client("agent", "pave_wrong")
	require.False(t, hear.Scan())
	require.ErrorContains(t, <-ended, "401")

	say, hear, ended = client("worker", s.key)
	require.True(t, hear.Scan())
	require.NoError(t, s.runs(t.Context(), workerName, 30))
	require.NoError(t, say.Close())
	require.NoError(t, <-ended)
	require.ErrorContains(t, s.runs(t.Context(), "nothing", 1), "nothing")
}
