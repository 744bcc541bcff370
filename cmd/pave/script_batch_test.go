package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// tomorrow is a time after all that a script does, so that what began then is live traffic to what it approved, of one day.
func tomorrow(i int) time.Time {
	return time.Now().UTC().Truncate(24 * time.Hour).Add(36*time.Hour + time.Duration(i)*time.Minute)
}

// recordedDesks are n sessions in which a user names an account, one to three products that have nothing to do with it and,
// in two of three, an order; in the third the model chooses one. All of it is known before the first call, that order apart.
func recordedDesks(prefix string, n int, began func(i int) time.Time) string {
	return recordedSessions(prefix, n, began, func(i int, say func(string), call func(string, map[string]any, map[string]any)) {
		order, products := 500+i, []string{}
		for k := range 1 + i%3 {
			products = append(products, fmt.Sprintf("p%d", 1000+10*i+k))
		}
		text := fmt.Sprintf("account c%d please, and are there more of %s", i, strings.Join(products, " and "))
		if i%3 > 0 {
			text += fmt.Sprintf("; where is order o-%d", 7*order)
		}
		say(text)
		call("get_account", map[string]any{"customer_id": fmt.Sprintf("c%d", i)}, accountOf(i))
		for k, id := range products {
			call("get_product", map[string]any{"product_id": id}, map[string]any{"stock": 1000 + 10*i + k})
		}
		call("get_order", map[string]any{"order_id": fmt.Sprintf("o-%d", 7*order)}, orderOf(order))
	})
}

// accountsAlone are n sessions in which the user wants to know no more than the account.
func accountsAlone(prefix string, n int, began func(i int) time.Time) string {
	return recordedSessions(prefix, n, began, func(i int, say func(string), call func(string, map[string]any, map[string]any)) {
		say(fmt.Sprintf("account c%d please", i))
		call("get_account", map[string]any{"customer_id": fmt.Sprintf("c%d", i)}, accountOf(i))
	})
}

// flowCalls are n sessions of an agent that calls the flow over MCP, as its own telemetry has it.
func flowCalls(prefix string, n int, began func(i int) time.Time) string {
	return recordedSessions(prefix, n, began, func(i int, say func(string), call func(string, map[string]any, map[string]any)) {
		say(fmt.Sprintf("account c%d and order o-%d please", i, 7*i))
		call("mcp__pave__get_account_then_get_order_batch", map[string]any{"customer_id": fmt.Sprintf("c%d", i)}, map[string]any{"status": "handed_back"})
	})
}

// cmdAPI asks the server over HTTP with the admin's key and wants this status; the answer is the standard output. A body is
// JSON text, or a file: api STATUS METHOD PATH [BODY]
func cmdAPI(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 || len(args) > 4 {
		ts.Fatalf("usage: api STATUS METHOD PATH [BODY]")
	}
	key, err := os.ReadFile(filepath.Join(ts.Getenv("PAVE_DATA"), "admin.key"))
	ts.Check(err)
	body := ""
	if len(args) == 4 {
		body = args[3]
		if raw, err := os.ReadFile(ts.MkAbs(body)); err == nil {
			body = string(raw)
		}
	}
	req, err := http.NewRequest(args[1], ts.Getenv("SERVER")+args[2], strings.NewReader(body))
	ts.Check(err)
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(key)))
	req.Header.Set("Content-Type", "application/json")
	if strings.HasSuffix(args[len(args)-1], ".jsonl") {
		req.Header.Set("Content-Type", "application/x-ndjson")
	}
	resp, err := http.DefaultClient.Do(req)
	ts.Check(err)
	answer, err := io.ReadAll(resp.Body)
	ts.Check(err)
	ts.Check(resp.Body.Close())
	http.DefaultClient.CloseIdleConnections()
	_, err = ts.Stdout().Write(answer)
	ts.Check(err)
	if got := fmt.Sprint(resp.StatusCode); got != args[0] {
		ts.Fatalf("%s %s answered %s, want %s: %s", args[1], args[2], got, args[0], answer)
	}
}
