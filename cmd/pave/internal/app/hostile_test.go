package app

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"

	"pave/api"
	"pave/api/gen"
	"pave/governance"
)

// stranger makes requests of its own, which no client library keeps well-formed.
type stranger struct {
	a   *App
	key string
}

func (s stranger) ask(method, path, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://localhost", strings.NewReader(body))
	r.URL = &url.URL{Scheme: "http", Host: "localhost", Path: path}
	if at := strings.IndexByte(path, '?'); at >= 0 {
		r.URL.Path, r.URL.RawQuery = path[:at], path[at+1:]
	}
	r.RequestURI = path
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+s.key)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.a.Handler().ServeHTTP(w, r)
	return w
}

// zebra is in the name of everything that the tenant of these tests has.
const zebra = "zebra"

const zebraFlow = `{"format_version":"1.1","type":"Flow","name":"zebra_flow","version":"0.1.0","description":"Copies.",
	"input_schema":{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]},
	"steps":[{"tool_name":"passthrough","output_as":"copied"}],"returns":{"a":"/copied/a"}}`

// inhabited fills an installation and returns the ids of what it has, by the collection that they are of.
func inhabited(t *testing.T, a *App) map[string]string {
	c, ctx := clientOf(t, a, ""), t.Context()
	v := activate(t, a, zebraFlow)
	ids := map[string]string{"flows": "zebra_flow", "tools": "zebra_tool", "sessions": "zebra-session", "workers": "zebra", "reports": "coverage",
		"proposals": v.ProposalID, "schemas": "zebra:Schema", "versions": v.Version}
	schema, err := c.PutSchemaWithResponse(ctx, ids["schemas"], &gen.PutSchemaParams{IfMatch: `"0"`}, gen.JSONSchema(`{"title":"zebra"}`))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, schema.StatusCode(), string(schema.Body))
	tools, err := c.ApplyToolsWithResponse(ctx, json.RawMessage(`[{"kind":"Tool","name":"zebra_tool","description":"zebra"}]`))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, tools.StatusCode())
	recorded, err := c.RecordToolCallsWithBodyWithResponse(ctx, &gen.RecordToolCallsParams{Assemble: true}, "application/x-ndjson",
		strings.NewReader(`{"session_id":"zebra-session","tool":"zebra_tool","call_id":"c","args":{"zebra":1},"result":{},"status":"ok","agent":"zebra"}`))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, recorded.StatusCode())
	run, err := c.RunFlowWithResponse(ctx, "zebra_flow", &gen.RunFlowParams{}, gen.RunRequest{Input: json.RawMessage(`{"a":7}`)})
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, run.StatusCode(), string(run.Body))
	ids["runs"] = run.JSON200.ID
	hook, err := c.CreateWebhookWithResponse(ctx, nil, gen.WebhookCreate{URL: "http://zebra.example/hook"})
	require.NoError(t, err)
	ids["webhooks"] = hook.JSON201.Webhook.ID
	tried, err := c.TestWebhookWithResponse(ctx, ids["webhooks"])
	require.NoError(t, err)
	ids["deliveries"] = tried.JSON202.ID
	_, ids["api-keys"] = newKey(t, a, "person:zebra", time.Time{}, "read")
	return ids
}

// filled is the operation's path to what is there, and to nothing in a collection of which there is nothing.
func (d *declared) filled(ids map[string]string) string {
	parts := strings.Split(d.path, "/")
	for i, part := range parts {
		if pathParameter.MatchString(part) {
			parts[i] = cmp.Or(ids[parts[i-1]], "none")
		}
	}
	return strings.Join(parts, "/")
}

// ownTime are operations whose answer tells of the time, of the process or of who asks.
var ownTime = []string{"streamMCP", "listApiKeys", "getUsage", "getService", "getMiningStatus"}

var requestID = regexp.MustCompile(`"instance":"[^"]*"`)

// S4: with every right in its own tenant a key reaches nothing of another one: it finds no object, sees no name and
// changes nothing, by no operation of the contract.
func TestScenarioS4AnotherTenantReachesNothing(t *testing.T) {
	a := open(t, nil)
	ids := inhabited(t, a)
	admin, err := AdminKey(a.opts.DataDir)
	require.NoError(t, err)
	own := stranger{a, admin}
	state := func() string {
		var all strings.Builder
		for _, op := range operations(t) {
			if op.method == http.MethodGet && strings.HasPrefix(op.path, "/api/") && len(op.scopes) > 0 && !slices.Contains(ownTime, op.id) {
				w := own.ask(op.method, op.filled(ids), "")
				fmt.Fprintln(&all, op.id, w.Code, requestID.ReplaceAllString(w.Body.String(), ""))
			}
		}
		return all.String()
	}
	before := state()
	require.Contains(t, before, "zebra_flow")
	require.Contains(t, before, "zebra-session")
	require.Contains(t, before, "zebra.example")

	elsewhere := governance.Actor{Tenant: "elsewhere", Principal: "person:mallory", Scopes: governance.AllScopes}
	_, key, err := a.gate.CreateKey(t.Context(), elsewhere, governance.KeyRequest{Principal: "person:mallory", Scopes: governance.AllScopes})
	require.NoError(t, err)
	mallory := stranger{a, key}
	for _, op := range operations(t) {
		if op.public {
			continue
		}
		body := "{}"
		if op.id == "pollWorkerPool" {
			body = `{"wait_ms":1}`
		}
		w := mallory.ask(op.method, op.filled(ids), body, "If-Match", `"1"`)
		if strings.Contains(op.path, "{id}") {
			require.GreaterOrEqual(t, w.Code, 400, "%s: %s", op.id, w.Body)
		}
		require.Less(t, w.Code, 500, "%s: %s", op.id, w.Body)
		answer := w.Body.String()
		for _, name := range []string{"zebra_flow", "zebra_tool", "zebra-session", "zebra"} { // what the request itself said may come back in a refusal
			answer = strings.ReplaceAll(answer, `\"`+name+`\"`, "")
		}
		if w.Code < 400 {
			require.NotContains(t, answer, zebra, op.id)
		}
	}
	require.Equal(t, before, state(), "nothing of the first tenant changed")
}

// S5: whoever tries to get a draft of their own approved or promoted finds each way closed, and each with its own code.
func TestScenarioS5FourEyes(t *testing.T) {
	a := open(t, nil)
	ctx := t.Context()
	mine, _ := newKey(t, a, "person:mallory", time.Time{}, "propose", "review", "promote", "read")
	second, _ := newKey(t, a, "person:mallory", time.Time{}, "review", "promote", "read")
	one, _ := newKey(t, a, "person:one", time.Time{}, "review", "promote", "read")
	oneAgain, _ := newKey(t, a, "person:one", time.Time{}, "review", "read")
	two, _ := newKey(t, a, "person:two", time.Time{}, "review", "promote", "read")
	local := clientOf(t, a, "")
	apply := func(tools string) {
		done, err := local.ApplyToolsWithBodyWithResponse(ctx, "application/yaml", strings.NewReader(tools))
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, done.StatusCode(), string(done.Body))
	}
	apply(strings.ReplaceAll(builtinTools, "side_effects: none", "side_effects: write"))
	made, err := clientOf(t, a, mine).SubmitProposalWithResponse(ctx, nil, gen.ProposalCreate{Flow: json.RawMessage(zebraFlow)})
	require.NoError(t, err)
	require.Equal(t, http.StatusCreated, made.StatusCode(), string(made.Body))
	id, digest, tag := made.JSON201.ID, made.JSON201.Digest, made.HTTPResponse.Header.Get("ETag")
	type outcome struct {
		status int
		code   string
	}
	read := func(status int, body []byte, header http.Header) outcome {
		var p gen.Problem
		_ = json.Unmarshal(body, &p) // an answer that is no problem has no code
		if next := header.Get("ETag"); next != "" {
			tag = next
		}
		return outcome{status, p.Code}
	}
	approve := func(key, of string) outcome {
		r, err := clientOf(t, a, key).ReviewProposalWithResponse(ctx, id, &gen.ReviewProposalParams{IfMatch: tag}, gen.ReviewCreate{Verdict: gen.VerdictApprove, Digest: of})
		require.NoError(t, err)
		return read(r.StatusCode(), r.Body, r.HTTPResponse.Header)
	}
	promote := func(key, at string) outcome {
		r, err := clientOf(t, a, key).PromoteProposalWithResponse(ctx, id, &gen.PromoteProposalParams{IfMatch: at}, gen.PromoteRequest{})
		require.NoError(t, err)
		return read(r.StatusCode(), r.Body, http.Header{})
	}
	require.Equal(t, outcome{403, "four_eyes"}, approve(mine, digest), "the author")
	require.Equal(t, outcome{403, "four_eyes"}, approve(second, digest), "the author, by another key")
	require.Equal(t, outcome{200, ""}, approve(one, digest))
	require.Equal(t, outcome{200, ""}, approve(oneAgain, digest))
	missing := promote(one, tag)
	require.Equal(t, "approvals_missing", missing.code, "two keys of one principal are one approval of two")
	require.Equal(t, outcome{200, ""}, approve(two, digest))

	edited := strings.Replace(zebraFlow, "Copies.", "Copies, and more.", 1)
	patched, err := clientOf(t, a, mine).UpdateProposalWithResponse(ctx, id, &gen.UpdateProposalParams{IfMatch: tag}, gen.ProposalUpdate{Flow: json.RawMessage(edited)})
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, patched.StatusCode(), string(patched.Body))
	tag = patched.HTTPResponse.Header.Get("ETag")
	require.Equal(t, missing, promote(two, tag), "the edit dismissed both approvals")
	require.Equal(t, outcome{412, "stale"}, approve(one, digest), "what was read is not there any more")
	digest = patched.JSON200.Digest
	require.Equal(t, outcome{200, ""}, approve(one, digest))
	require.Equal(t, outcome{200, ""}, approve(two, digest))

	apply(strings.ReplaceAll(strings.ReplaceAll(builtinTools, "side_effects: none", "side_effects: write"),
		"input_schema: {type: object, additionalProperties: true}", "input_schema: {type: object, properties: {a: {type: integer}}, additionalProperties: true}"))
	require.Equal(t, outcome{409, "tool_drift"}, promote(two, tag), "the tool is not the one that was approved")
	require.Equal(t, outcome{200, ""}, approve(one, digest))
	require.Equal(t, missing, promote(two, tag), "the other one saw another tool")
	require.Equal(t, outcome{200, ""}, approve(two, digest))

	var wg sync.WaitGroup
	racers := make([]outcome, 2)
	for i, key := range []string{one, two} {
		at, client := tag, clientOf(t, a, key)
		wg.Go(func() {
			r, err := client.PromoteProposalWithResponse(ctx, id, &gen.PromoteProposalParams{IfMatch: at}, gen.PromoteRequest{})
			if err != nil {
				t.Error(err)
				return
			}
			var p gen.Problem
			_ = json.Unmarshal(r.Body, &p)
			racers[i] = outcome{r.StatusCode(), p.Code}
		})
	}
	wg.Wait()
	require.ElementsMatch(t, []outcome{{200, ""}, {412, "stale"}}, racers, "exactly one wins")
	require.Equal(t, outcome{412, "stale"}, promote(one, tag))
	versions, err := local.ListFlowsWithResponse(ctx, &gen.ListFlowsParams{})
	require.NoError(t, err)
	require.Len(t, versions.JSON200.Items, 1)
	require.Equal(t, []string{"four_eyes", "approvals_missing", "stale", "tool_drift"}, slices.Compact([]string{"four_eyes", missing.code, "stale", "tool_drift"}), "codes differ")
}

// injections are what people try against databases, one of each kind.
var injections = []string{
	`' OR '1'='1`, `'; DROP TABLE proposals; --`, `1); DELETE FROM sessions; --`, `" OR ""="`, `a' UNION SELECT hash FROM api_keys --`, `id; ATTACH DATABASE 'x' AS y`,
	`id DESC, (SELECT 1/0)`, `rank/**/OR/**/1=1`, `%' AND 1=randomblob(1000000000) --`, "\x00", "rank\n", `{"$ne":null}`, `$(id)`, "`id`", `..\..\etc`, `%00`, `;`, `\`, `_%`, `{tenant:String}`, `?`, `:name`, `@p1`,
}

// S9: text of a request never becomes part of a statement. Every parameter of every operation that reads takes every
// injection; what is a closed set refuses it, what is free text finds nothing, and all is there afterwards.
func TestScenarioS9Injections(t *testing.T) {
	a := open(t, nil)
	ids := inhabited(t, a)
	key, err := AdminKey(a.opts.DataDir)
	require.NoError(t, err)
	s := stranger{a, key}
	doc, err := openapi3.NewLoader().LoadFromData(api.SpecYAML())
	require.NoError(t, err)
	asked := 0
	for _, op := range operations(t) {
		item := doc.Paths.Value(op.path).GetOperation(op.method)
		if op.method != http.MethodGet || !strings.HasPrefix(op.path, "/api/") || op.id == "streamMCP" {
			continue
		}
		path := op.filled(ids)
		for _, p := range item.Parameters {
			if p.Value.In != "query" {
				continue
			}
			closed := p.Value.Name == "sort" || len(p.Value.Schema.Value.Enum) > 0 || p.Value.Name == "cursor"
			for _, injection := range injections {
				w := s.ask(op.method, path+"?"+p.Value.Name+"="+url.QueryEscape(injection), "")
				asked++
				require.Less(t, w.Code, 500, "%s %s=%q: %s", op.id, p.Value.Name, injection, w.Body)
				if closed {
					require.Equal(t, http.StatusBadRequest, w.Code, "%s %s=%q", op.id, p.Value.Name, injection)
				}
				require.NotContains(t, strings.ToLower(w.Body.String()), "sql", "%s tells what is behind it", op.id)
			}
		}
	}
	require.Greater(t, asked, 1000, "the contract has parameters")
	for _, injection := range injections {
		for _, op := range operations(t) {
			if op.method == http.MethodGet && pathParameter.MatchString(op.path) && strings.HasPrefix(op.path, "/api/") && op.scopes[0] == "read" {
				w := s.ask(op.method, pathParameter.ReplaceAllString(op.path, strings.ReplaceAll(injection, "/", "_")), "")
				require.Contains(t, []int{400, 404}, w.Code, "%s of %q: %s", op.id, injection, w.Body)
			}
		}
		record, err := json.Marshal(map[string]any{"session_id": "s" + injection, "tool": "zebra_tool", injection: injection, "args": map[string]any{injection: injection}, "status": "ok", "agent": injection})
		require.NoError(t, err)
		require.Less(t, s.ask("POST", "/api/v1/tool-calls?assemble=true", "["+string(record)+"]").Code, 500)
	}
	for _, path := range []string{"/api/v1/sessions/zebra-session", "/api/v1/proposals/" + ids["proposals"], "/api/v1/flows/zebra_flow", "/api/v1/runs/" + ids["runs"]} {
		require.Equal(t, http.StatusOK, s.ask("GET", path, "").Code, path)
	}
	n, err := a.gate.VerifyAudit(t.Context(), a.localActor())
	require.NoError(t, err)
	require.Positive(t, n)
}
