package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// S8: names with line ends, terminal sequences and marks that turn text around reach neither the log as they are, where
// each entry stays one line of JSON, nor the terminal, in no form of output.
func TestScenarioS8HostileText(t *testing.T) {
	const evil = "x\n2026-01-01 level=ERROR all is lost\x1b[2J\x1b]0;owned\x07\u202egnp.exe\u2066\u009b31m\u2028end"
	const evilName = "x\u202egnp.exe\u2066\u2028end" // control characters are refused in names of tools
	dir := t.TempDir()
	s := &killable{t: t, program: buildPave(t), data: filepath.Join(dir, "data"), flags: []string{"--log-level", "debug"}}
	log, err := os.Create(filepath.Join(dir, "log"))
	require.NoError(t, err)
	defer func() { require.NoError(t, log.Close()) }()
	s.log = log
	s.start()
	key := readAdminKey(t, s.data)
	var records bytes.Buffer
	for i := range 30 { // often enough to be mined
		for k, tool := range []string{"find" + evilName, "get" + evilName} {
			record, err := json.Marshal(map[string]any{"session_id": fmt.Sprintf("s%d%s", i, evil), "tool": tool, "call_id": fmt.Sprint(k), "turn": k, "agent": "agent" + evil,
				"args": map[string]any{"id" + evil: fmt.Sprintf("v%d%s", i, evil)}, "result": map[string]any{"id" + evil: fmt.Sprintf("v%d%s", i, evil)}, "status": "error", "error": evil})
			require.NoError(t, err)
			records.Write(append(record, '\n'))
		}
	}
	status, answer, err := s.as(key, "POST", "/api/v1/tool-calls?assemble=true", &records)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status, "%s", answer)
	status, _, err = s.as(key, "POST", "/api/v1/mining-runs?wait=true", strings.NewReader("{}"))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status)
	for _, hostile := range []string{"/api/v1/flows/%0a%1b%5b2J", "/api/v1/sessions/s%0aERROR", "/api/v1/runs?limit=%1b%5b2J"} { // refusals that are logged
		_, _, err := s.as(key, "GET", hostile, nil)
		require.NoError(t, err)
	}

	for _, args := range [][]string{{"calls"}, {"tools", "list"}, {"proposals", "list"}, {"flows", "list"}, {"runs", "list"}, {"audit", "list"}, {"status"}, {"flows", "show", evil},
		{"proposals", "show", evil}, {"tools", "show", "find" + evilName}, {"tools", "show", evil}, {"run", evil, "--input", `{"a":"` + "\x1b" + `"}`}, {"mine", "--no-such-flag=" + evil}} {
		for _, form := range []string{"table", "json", "yaml"} {
			cmd := exec.Command(s.program, append([]string{"--server", s.addr.Load().(string), "--key", key, "-o", form}, args...)...)
			out, _ := cmd.CombinedOutput() // a refusal is text, too
			require.NotEmpty(t, out, "%v", args)
			for _, bad := range []string{"\x1b", "\x07", "\u202e", "\u2066", "\u009b", "\u2028", "\n2026-01-01 level=ERROR"} {
				require.False(t, bytes.Contains(out, []byte(bad)), "pave %q -o %s prints %q: %q", args, form, bad, out)
			}
		}
	}
	s.kill()
	http.DefaultClient.CloseIdleConnections()
	logged, err := os.Open(log.Name())
	require.NoError(t, err)
	defer func() { require.NoError(t, logged.Close()) }()
	lines := bufio.NewScanner(logged)
	n := 0
	for ; lines.Scan(); n++ {
		var entry map[string]any
		require.NoError(t, json.Unmarshal(lines.Bytes(), &entry), "line %d: %q", n, lines.Text())
		require.NotEmpty(t, entry["level"])
		require.False(t, bytes.ContainsAny(lines.Bytes(), "\x1b\x07"), "line %d: %q", n, lines.Text())
	}
	require.NoError(t, lines.Err())
	require.Positive(t, n)
}
