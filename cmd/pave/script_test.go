package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"pave/flows/value"
)

func TestMain(m *testing.M) {
	testscript.Main(leakChecked{m}, map[string]func(){"pave": main})
}

// leakChecked fails a run that leaves goroutines behind.
type leakChecked struct{ m *testing.M }

func (l leakChecked) Run() int {
	code := l.m.Run()
	if dir, ok := builtDir.Load().(string); ok {
		_ = os.RemoveAll(dir) // what is left of it is in the system's temporary folder
	}
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// TestScripts plays the command line as a person does: real processes, a real data directory, a real tool server.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:   "testdata/script",
		Setup: setup,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"api":     cmdAPI,
			"exits":   cmdExits,
			"jsonenv": cmdJSONEnv,
			"serving": cmdServing,
		},
	})
}

// setup gives a script recorded calls, tool files and the server behind them. Nothing of the caller's environment
// reaches it.
func setup(e *testscript.Env) error {
	server := httptest.NewServer(toolServer())
	e.Defer(server.Close)
	e.Setenv("TOOLS_URL", server.URL)
	e.Setenv("PAVE_EGRESS_ALLOW", strings.TrimPrefix(server.URL, "http://"))
	e.Setenv("PAVE_DATA", filepath.Join(e.WorkDir, "data"))
	e.Setenv("USER", "tester")
	for name, content := range map[string]string{
		"calls.jsonl":  recordedCalls(40),
		"carts.jsonl":  recordedCarts(40),
		"visits.jsonl": recordedVisits(40),
		"desks.jsonl":  recordedDesks("d", 40, asRecorded),
		"later.jsonl":  recordedDesks("l", 6, tomorrow) + accountsAlone("m", 2, tomorrow),
		"after.jsonl":  recordedDesks("n", 3, tomorrow),
		"flow.jsonl":   flowCalls("o", 2, tomorrow),
		"tools.yaml":   toolFile(server.URL) + visitTools(server.URL),
	} {
		if err := os.WriteFile(filepath.Join(e.WorkDir, name), []byte(content), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// The shop: customer c<i> has the email user<i>@example.com and the order o-<7i>.
func customerOf(i int) map[string]any {
	return map[string]any{"customer_id": fmt.Sprintf("c%d", i), "email": fmt.Sprintf("user%d@example.com", i)}
}

func accountOf(i int) map[string]any {
	return map[string]any{"customer_id": fmt.Sprintf("c%d", i), "last_order_id": fmt.Sprintf("o-%d", 7*i), "tier": "gold"}
}

func orderOf(i int) map[string]any {
	return map[string]any{"order_id": fmt.Sprintf("o-%d", 7*i), "status": []string{"delivered", "shipped", "open"}[i%3]}
}

// Cart k<i> has three things in an order that turns.
func cartOf(i int) map[string]any {
	items := []any{}
	for n := range 3 {
		name := []string{"Desk Lamp", "Chair", "Tea Table"}[(i+n)%3]
		items = append(items, map[string]any{"name": name, "product_id": productID(i, name)})
	}
	return map[string]any{"cart_id": fmt.Sprintf("k%d", i), "items": items}
}

func productID(i int, name string) string { return fmt.Sprintf("p%d%d", i, len(name)) }

func toolServer() http.Handler {
	mux := http.NewServeMux()
	answer := func(prefix, suffix string, of func(int) map[string]any, scale int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			text := strings.TrimSuffix(strings.TrimPrefix(r.PathValue("id")+r.URL.Query().Get("email"), prefix), suffix)
			n, err := strconv.Atoi(text)
			if err != nil {
				http.Error(w, `{"error":"no such thing"}`, http.StatusNotFound)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(of(n / scale))
		}
	}
	mux.HandleFunc("GET /customers", answer("user", "@example.com", customerOf, 1))
	mux.HandleFunc("GET /accounts/{id}", answer("c", "", accountOf, 1))
	mux.HandleFunc("GET /orders/{id}", answer("o-", "", orderOf, 7))
	mux.HandleFunc("GET /carts/{id}", answer("k", "", cartOf, 1))
	mux.HandleFunc("GET /products/{id}", answer("p", "", func(n int) map[string]any { return map[string]any{"stock": n} }, 1))
	handleVisits(mux)
	return mux
}

func toolFile(url string) string {
	tool := func(name, path, arg, required string) string {
		return fmt.Sprintf(`kind: Tool
name: %s
description: Of the test shop.
input_schema: {type: object, properties: {%s: {type: string}}, required: [%s]}
output_schema: {type: object, properties: {%s}}
safety: {side_effects: read, idempotent: true, source: declared}
timeout_seconds: 5
binding: {kind: http, method: GET, url: "%s%s"}
---
`, name, arg, arg, required, url, path)
	}
	return tool("find_customer", "/customers?email={email}", "email", "customer_id: {type: string}, email: {type: string}") +
		tool("get_account", "/accounts/{customer_id}", "customer_id", "customer_id: {type: string}, last_order_id: {type: string}, tier: {type: string}") +
		tool("get_order", "/orders/{order_id}", "order_id", "order_id: {type: string}, status: {type: string}") +
		tool("get_cart", "/carts/{cart_id}", "cart_id", "cart_id: {type: string}, items: {type: array, items: {type: object}}") +
		tool("get_product", "/products/{product_id}", "product_id", "stock: {type: integer}")
}

// recordedCalls are n sessions of an agent that looks a customer up, reads the account and then the last order, with
// a model call before each tool call. Every third session asks for the weather first.
func recordedCalls(n int) string {
	return recordedSessions("s", n, asRecorded, func(i int, say func(string), call func(string, map[string]any, map[string]any)) {
		say(fmt.Sprintf("hello, I am user%d@example.com, where is my order?", i))
		if i%3 == 0 {
			call("get_weather", map[string]any{"city": fmt.Sprintf("town %d", i)}, map[string]any{"degrees": i})
		}
		call("find_customer", map[string]any{"email": fmt.Sprintf("user%d@example.com", i)}, customerOf(i))
		call("get_account", map[string]any{"customer_id": fmt.Sprintf("c%d", i)}, accountOf(i))
		call("get_order", map[string]any{"order_id": fmt.Sprintf("o-%d", 7*i)}, orderOf(i))
	})
}

// recordedCarts are n sessions in which a user asks for one of the things in a cart, by its name.
func recordedCarts(n int) string {
	return recordedSessions("t", n, asRecorded, func(i int, say func(string), call func(string, map[string]any, map[string]any)) {
		name := []string{"Desk Lamp", "Chair", "Tea Table"}[i%7%3]
		say(fmt.Sprintf("are there more of the %s in cart k%d?", strings.ToLower(name), i))
		call("get_cart", map[string]any{"cart_id": fmt.Sprintf("k%d", i)}, cartOf(i))
		call("get_product", map[string]any{"product_id": productID(i, name)}, map[string]any{"stock": i})
	})
}

// asRecorded is when session i began: long ago.
func asRecorded(i int) time.Time { return time.Date(2026, 11, 1+i%20, 9, i, 0, 0, time.UTC) }

// recordedSessions are the records of n sessions, from when each began, of what a conversation says and calls.
func recordedSessions(prefix string, n int, began func(i int) time.Time, conversation func(i int, say func(string), call func(tool string, args, result map[string]any))) string {
	var b strings.Builder
	for i := range n {
		session, turn, second := fmt.Sprintf("%s%d", prefix, i), 0, 0
		at := func() string {
			second++
			return began(i).Add(time.Duration(second) * time.Second).Format(time.RFC3339)
		}
		line := func(record map[string]any) {
			record["session_id"], record["agent"], record["start"] = session, "support", at()
			raw, err := json.Marshal(record)
			if err != nil {
				panic(err)
			}
			b.Write(append(raw, '\n'))
		}
		say := func(text string) { line(map[string]any{"event": "user_message", "text": text}) }
		conversation(i, say, func(tool string, args, result map[string]any) {
			line(map[string]any{"event": "llm_call", "turn": turn, "model": "test-model", "input_tokens": 1000, "output_tokens": 50, "duration_ms": 900})
			line(map[string]any{"event": "tool_call", "turn": turn, "call_id": fmt.Sprintf("%s-%d", session, turn), "tool": tool,
				"args": args, "result": result, "status": "ok", "duration_ms": 20})
			turn++
		})
	}
	return b.String()
}

// cmdExits runs a command and wants exactly this exit status: exits STATUS COMMAND ARGS...
func cmdExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS COMMAND ARGS...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit := new(exec.ExitError)
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

// cmdJSONEnv sets a variable to what a JSON pointer finds in the last standard output: jsonenv NAME POINTER
func cmdJSONEnv(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: jsonenv NAME POINTER")
	}
	doc, err := value.Decode([]byte(ts.ReadFile("stdout")))
	ts.Check(err)
	pointer, err := value.ParsePointer(args[1])
	ts.Check(err)
	found, ok := pointer.Get(doc)
	if !ok {
		ts.Fatalf("nothing at %s", args[1])
	}
	text, ok := found.(string)
	if !ok {
		text = string(value.Encode(found))
	}
	ts.Setenv(args[0], text)
}

// cmdServing waits until a server announces itself in the data directory, and sets SERVER to its address.
func cmdServing(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: serving DATADIR")
	}
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		raw, err := os.ReadFile(filepath.Join(ts.MkAbs(args[0]), "pave.lock"))
		var holder struct {
			Address string `json:"address"`
		}
		if err != nil || json.Unmarshal(raw, &holder) != nil || holder.Address == "" {
			continue
		}
		ts.Setenv("SERVER", holder.Address)
		return
	}
	ts.Fatalf("no server announced itself in %s", args[0])
}
