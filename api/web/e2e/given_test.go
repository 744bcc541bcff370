//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// desks are sessions in which a user names an account, one to three products and, in two of three, an order; in the third the
// model chooses one.
func desks(t *testing.T, n int) string {
	t.Helper()
	var lines []string
	for i := range n {
		at := time.Date(2026, 11, 1+i%20, 9, i, 0, 0, time.UTC).Format(time.RFC3339)
		line := func(record map[string]any) {
			record["session_id"], record["agent"], record["start"] = fmt.Sprintf("d%d", i), "desk", at
			raw, err := json.Marshal(record)
			require.NoError(t, err)
			lines = append(lines, string(raw))
		}
		turn := 0
		call := func(tool, arg, id string) {
			line(map[string]any{"event": "llm_call", "turn": turn, "model": "m", "input_tokens": 1000, "output_tokens": 50, "duration_ms": 900})
			line(map[string]any{"event": "tool_call", "turn": turn, "call_id": fmt.Sprintf("%d-%d", i, turn), "tool": tool, "args": map[string]any{arg: id}, "result": map[string]any{"ok": true}, "status": "ok"})
			turn++
		}
		order, products := fmt.Sprintf("o-%d", 7*i+3500), []string{}
		for k := range 1 + i%3 {
			products = append(products, fmt.Sprintf("p%d", 1000+10*i+k))
		}
		text := fmt.Sprintf("account c%d please, and are there more of %s", i, strings.Join(products, " and "))
		if i%3 > 0 {
			text += "; where is order " + order
		}
		line(map[string]any{"event": "user_message", "text": text})
		call("get_account", "customer_id", fmt.Sprintf("c%d", i))
		for _, id := range products {
			call("get_product", "product_id", id)
		}
		call("get_order", "order_id", order)
	}
	return strings.Join(lines, "\n") + "\n"
}

// A flow that takes whole calls is shown as what it is: the queue and the review say what callers knew, and that nothing was
// reproduced; beside it one that predicts, whose elements are marked.
func TestWholeCallsAreShownAsSuch(t *testing.T) {
	s := serve(t, false)
	file := filepath.Join(t.TempDir(), "desks.jsonl")
	require.NoError(t, os.WriteFile(file, []byte(desks(t, 40)), 0o600))
	for _, args := range [][]string{{"import", file}, {"mine"}} {
		out, err := exec.Command(stage.bin, append(args, "--data-dir", s.dir)...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	p := s.open(s.admin)
	p.visit("/proposals")
	p.settled()
	p.sees("get_account_then_get_order_batch", "100 % known")
	require.Equal(t, 1, eval[int](p, `[...document.querySelectorAll('td')].filter((e) => e.innerText.trim() === '100 % known').length`), "the other flow is exact")

	p.click("a", "get_account_then_get_order_batch")
	p.settled()
	p.sees("callers knew several calls", "40 of 40", "callers knew all", "26 of 40", "callers knew it in 26 of 40", "of 3.7 calls given")
	text := eval[string](p, `document.querySelector('main').innerText.toLowerCase()`)
	require.NotContains(t, text, "reproduced exactly")
	require.NotContains(t, text, "held 26")
	require.Equal(t, []string{"element"}, eval[[]string](p, `[...document.querySelectorAll('.mappings .tag')].map((e) => e.innerText.trim())`), "each call of the list")
}
