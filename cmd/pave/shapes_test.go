package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"pave/flows/value"
)

// TestShapes plays, from recorded calls to runs against the real tools, flows that are no plain sequences.
func TestShapes(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/shapes", Setup: setupDepot, Cmds: map[string]func(*testscript.TestScript, bool, []string){
		"jsonenv": cmdJSONEnv,
		"cmpjson": cmdCmpJSON,
	}})
}

// The depot: everything of number i. Every third parcel was sent.
var depot = map[string]struct {
	arg, fields string
	of          func(i int) map[string]any
}{
	"get_order": {"order", "parcel: {type: string}, state: {type: string}, customer: {type: string}", func(i int) map[string]any {
		return map[string]any{"parcel": fmt.Sprintf("P-%d", i), "state": []string{"sent", "open", "paid"}[i%3], "customer": fmt.Sprintf("C-%d", i)}
	}},
	"track_parcel": {"parcel", "at: {type: string}", func(i int) map[string]any { return map[string]any{"at": fmt.Sprintf("depot-%d", i%4)} }},
	"get_customer": {"customer", "box: {type: string}", func(i int) map[string]any { return map[string]any{"box": fmt.Sprintf("B-%d", i)} }},
	"get_box":      {"box", "free: {type: integer}", func(i int) map[string]any { return map[string]any{"free": i % 9} }},
	"get_advert":   {"place", "text: {type: string}", func(i int) map[string]any { return map[string]any{"text": fmt.Sprintf("buy %d", i%5)} }},
	"get_news":     {"day", "title: {type: string}", func(i int) map[string]any { return map[string]any{"title": fmt.Sprintf("news %d", i%7)} }},
	"get_weather":  {"town", "degrees: {type: integer}", func(i int) map[string]any { return map[string]any{"degrees": i % 30} }},
}

// setupDepot gives a script the recorded calls, the tool file and the server behind it.
func setupDepot(e *testscript.Env) error {
	mux := http.NewServeMux()
	var file strings.Builder
	server := httptest.NewServer(mux)
	e.Defer(server.Close)
	for name, tool := range depot {
		mux.HandleFunc("GET /"+name+"/{id}", func(w http.ResponseWriter, r *http.Request) {
			_, number, _ := strings.Cut(r.PathValue("id"), "-")
			i, err := strconv.Atoi(number)
			if err != nil {
				http.Error(w, `{"error":"no such thing"}`, http.StatusNotFound)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(tool.of(i))
		})
		fmt.Fprintf(&file, `kind: Tool
name: %s
description: Of the depot.
input_schema: {type: object, properties: {%s: {type: string}}, required: [%s], additionalProperties: false}
output_schema: {type: object, properties: {%s}}
safety: {side_effects: read, idempotent: true, source: declared}
timeout_seconds: 5
binding: {kind: http, method: GET, url: "%s/%s/{%s}"}
---
`, name, tool.arg, tool.arg, tool.fields, server.URL, name, tool.arg)
	}
	e.Setenv("PAVE_EGRESS_ALLOW", strings.TrimPrefix(server.URL, "http://"))
	e.Setenv("PAVE_DATA", filepath.Join(e.WorkDir, "data"))
	e.Setenv("USER", "tester")
	for name, content := range map[string]string{
		"optional.jsonl": depotCalls(60, trackSent), "gapped.jsonl": depotCalls(48, stroll), "tools.yaml": file.String(),
	} {
		if err := os.WriteFile(filepath.Join(e.WorkDir, name), []byte(content), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// trackSent tracks the parcels that were sent, between the order and its customer.
func trackSent(i int) [][2]string {
	calls := [][2]string{{"get_order", "W"}, {"track_parcel", "P"}, {"get_customer", "C"}, {"get_box", "B"}}
	if i%3 != 0 {
		calls = append(calls[:1], calls[2:]...)
	}
	return calls
}

// stroll reads one to three other things between the order and its customer.
func stroll(i int) [][2]string {
	calls := [][2]string{{"get_order", "W"}}
	for k := range 1 + i%3 {
		calls = append(calls, [][2]string{{"get_advert", "A"}, {"get_news", "N"}, {"get_weather", "T"}}[(i*7+k*5+i/3)%3])
	}
	return append(calls, [2]string{"get_customer", "C"})
}

// depotCalls are n sessions, each of the calls that the agent makes: tools and the letters of their arguments.
func depotCalls(n int, calls func(i int) [][2]string) string {
	var b strings.Builder
	write := func(i, second int, record map[string]any) {
		record["session_id"], record["agent"] = fmt.Sprintf("s%02d", i), fmt.Sprintf("desk-%d", i%4)
		record["start"] = time.Date(2026, 11, 1+i%20, 9, i, second, 0, time.UTC).Format(time.RFC3339)
		raw, err := json.Marshal(record)
		if err != nil {
			panic(err)
		}
		b.Write(append(raw, '\n'))
	}
	for i := range n {
		write(i, 0, map[string]any{"event": "user_message", "text": fmt.Sprintf("what about order W-%d?", i)})
		for turn, c := range calls(i) {
			tool := depot[c[0]]
			write(i, 2*turn+1, map[string]any{"event": "llm_call", "turn": turn, "model": "test-model", "input_tokens": 1000, "output_tokens": 50, "duration_ms": 900})
			write(i, 2*turn+2, map[string]any{"event": "tool_call", "turn": turn, "call_id": fmt.Sprintf("%d-%d", i, turn), "tool": c[0],
				"args": map[string]any{tool.arg: fmt.Sprintf("%s-%d", c[1], i)}, "result": tool.of(i), "status": "ok", "duration_ms": 20})
		}
	}
	return b.String()
}

// cmdCmpJSON compares what a JSON pointer finds in the last standard output with a file: cmpjson POINTER FILE
func cmdCmpJSON(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: cmpjson POINTER FILE")
	}
	doc, err := value.Decode([]byte(ts.ReadFile("stdout")))
	ts.Check(err)
	got, ok := value.Lookup(doc, args[0])
	if !ok {
		ts.Fatalf("nothing at %s", args[0])
	}
	want, err := value.Decode([]byte(ts.ReadFile(args[1])))
	ts.Check(err)
	if !value.Equal(got, want) {
		ts.Fatalf("%s is %s, want %s", args[0], value.Encode(got), value.Encode(want))
	}
}
