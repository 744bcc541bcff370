package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// Customer c<i> has i%6 visits, and an account whose code is written in capital letters by every second office.
func visitsOf(i int) map[string]any {
	visits := []any{}
	for n := range i % 6 {
		visits = append(visits, map[string]any{"visit_id": fmt.Sprintf("v%dx%d", i, n), "office": fmt.Sprintf("office-%d", (i+n)%4)})
	}
	code := fmt.Sprintf("acc-%d", 100+i)
	if i%2 == 0 {
		code = strings.ToUpper(code)
	}
	return map[string]any{"account": map[string]any{accountKey(i): map[string]any{"open": true}}, "code": code, "visits": visits}
}

func accountKey(i int) string { return fmt.Sprintf("main-%d", i) }

// recordedVisits are n sessions of an agent that reads the visits of a customer who has some, and looks at them together:
// from the last one, with all of them, how many they are, the code of the account in small letters, and its key.
func recordedVisits(n int) string {
	return recordedSessions("v", n, asRecorded, func(i int, say func(string), call func(string, map[string]any, map[string]any)) {
		customer := 6*(i/5) + i%5 + 1
		visits := visitsOf(customer)
		var ids []string
		for _, v := range visits["visits"].([]any) {
			ids = append(ids, v.(map[string]any)["visit_id"].(string))
		}
		say(fmt.Sprintf("what do we know of customer c%d?", customer))
		call("list_visits", map[string]any{"customer_id": fmt.Sprintf("c%d", customer)}, visits)
		args := map[string]any{"last": ids[len(ids)-1], "all": strings.Join(ids, ","), "number": len(ids), "code": strings.ToLower(visits["code"].(string)),
			"account": accountKey(customer)}
		call("compare_visits", args, map[string]any{"seen": i})
	})
}

// handleVisits answers as visitsOf says, and repeats what it is asked to compare.
func handleVisits(mux *http.ServeMux) {
	mux.HandleFunc("GET /visits/{id}", func(w http.ResponseWriter, r *http.Request) {
		i, err := strconv.Atoi(strings.TrimPrefix(r.PathValue("id"), "c"))
		if err != nil {
			http.Error(w, `{"error":"no such customer"}`, http.StatusNotFound)
			return
		}
		writeVisits(w, visitsOf(i))
	})
	mux.HandleFunc("GET /compared", func(w http.ResponseWriter, r *http.Request) {
		writeVisits(w, map[string]any{"compared": r.URL.Query().Encode()})
	})
}

func writeVisits(w http.ResponseWriter, answer map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

func visitTools(url string) string {
	return fmt.Sprintf(`kind: Tool
name: list_visits
description: Of the test shop.
input_schema: {type: object, properties: {customer_id: {type: string}}, required: [customer_id]}
output_schema: {type: object, properties: {account: {type: object}, code: {type: string}, visits: {type: array, items: {type: object, properties: {visit_id: {type: string}}}}}, required: [account, code, visits]}
safety: {side_effects: read, idempotent: true, source: declared}
timeout_seconds: 5
binding: {kind: http, method: GET, url: "%[1]s/visits/{customer_id}"}
---
kind: Tool
name: compare_visits
description: Of the test shop.
input_schema: {type: object, properties: {last: {type: string}, all: {type: string}, number: {type: integer}, code: {type: string}, account: {type: string}}, required: [last, all, number, code, account]}
output_schema: {type: object, properties: {compared: {type: string}}}
safety: {side_effects: read, idempotent: true, source: declared}
timeout_seconds: 5
binding: {kind: http, method: GET, url: "%[1]s/compared?last={last}&all={all}&number={number}&code={code}&account={account}"}
---
`, url)
}
