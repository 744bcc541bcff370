package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"pave/api"
	"pave/api/apitest"
	"pave/api/gen"
	"pave/flows"
	"pave/governance"
)

// open opens an App in a fresh directory and closes it with the test.
func open(t *testing.T, change func(*Options)) *App {
	t.Helper()
	opts := Options{DataDir: t.TempDir(), LocalPrincipal: "local:tester", Logger: slog.New(slog.DiscardHandler), Version: "test"}
	if change != nil {
		change(&opts)
	}
	a, err := Open(t.Context(), opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, a.Close()) })
	return a
}

// clientOf is a client whose every answer is checked against the contract. key "" acts as the local user.
func clientOf(t *testing.T, a *App, key string) *gen.ClientWithResponses {
	t.Helper()
	var actor *governance.Actor
	if key == "" {
		local := a.localActor()
		actor = &local
	}
	c, err := gen.NewClientWithResponses("http://localhost",
		gen.WithHTTPClient(&http.Client{Transport: apitest.Transport(t, api.Transport(a.Handler(), actor))}),
		gen.WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
			if key != "" {
				r.Header.Set("Authorization", "Bearer "+key)
			}
			return nil
		}))
	require.NoError(t, err)
	return c
}

func newKey(t *testing.T, a *App, principal string, expires time.Time, scopes ...gen.Scope) (secret, id string) {
	t.Helper()
	resp, err := clientOf(t, a, "").CreateAPIKeyWithResponse(t.Context(), gen.APIKeyCreate{Principal: principal, Scopes: scopes, ExpiresAt: expires})
	require.NoError(t, err)
	require.Equal(t, http.StatusCreated, resp.StatusCode(), string(resp.Body))
	return resp.JSON201.Secret, resp.JSON201.Key.ID
}

type declared struct {
	method, path, id string
	scopes           []string
	public           bool
}

var pathParameter = regexp.MustCompile(`\{[^}]+\}`)

// nothing is the operation's path to an object that is not there.
func (d *declared) nothing() string {
	return pathParameter.ReplaceAllString(strings.ReplaceAll(d.path, "{version}", "9.9.9"), "none")
}

// operations reads the operations and their scopes from the contract itself.
func operations(t *testing.T) []declared {
	t.Helper()
	var doc struct {
		Paths map[string]map[string]struct {
			OperationID string                 `yaml:"operationId"`
			Security    *[]map[string][]string `yaml:"security"`
		} `yaml:"paths"`
	}
	require.NoError(t, yaml.Unmarshal(api.SpecYAML(), &doc))
	var out []declared
	for path, methods := range doc.Paths {
		for method, op := range methods {
			require.NotNil(t, op.Security, "%s declares no security", op.OperationID)
			d := declared{method: strings.ToUpper(method), path: path, id: op.OperationID, public: len(*op.Security) == 0}
			for _, requirement := range *op.Security {
				d.scopes = append(d.scopes, requirement["apiKey"]...)
			}
			out = append(out, d)
		}
	}
	slices.SortFunc(out, func(a, b declared) int { return strings.Compare(a.id, b.id) })
	return out
}

// S4: every operation of the contract refuses no key, a wrong, an expired and a revoked one with 401, and each scope that it does not
// declare with 403; it lets the declared scope in.
func TestScenarioS4ScopesAreAsTheContractDeclares(t *testing.T) {
	a := open(t, nil)
	expired, _ := newKey(t, a, "person:late", time.Now().Add(time.Second), "admin")
	revoked, id := newKey(t, a, "person:gone", time.Time{}, "admin")
	done, err := clientOf(t, a, "").RevokeAPIKeyWithResponse(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, http.StatusNoContent, done.StatusCode())
	keys := map[string]string{}
	for _, scope := range governance.AllScopes {
		keys[string(scope)], _ = newKey(t, a, "service:"+string(scope), time.Time{}, gen.Scope(scope))
	}
	client := &http.Client{Transport: apitest.Transport(t, api.Transport(a.Handler(), nil))}
	call := func(op declared, key string) (int, string) {
		path := op.nothing()
		body := "{}"
		if op.id == "pollWorkerPool" { // which waits for a call otherwise
			body = `{"wait_ms":1}`
		}
		r, err := http.NewRequestWithContext(t.Context(), op.method, "http://localhost"+path, strings.NewReader(body))
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/json")
		if key != "" {
			r.Header.Set("Authorization", "Bearer "+key)
		}
		resp, err := client.Do(r)
		require.NoError(t, err)
		raw, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		var p gen.Problem
		_ = json.Unmarshal(raw, &p) // not every answer is a problem
		return resp.StatusCode, p.Code
	}
	require.Eventually(t, func() bool {
		status, _ := call(declared{method: "GET", path: "/api/v1/flows"}, expired)
		return status == 401
	},
		10*time.Second, 20*time.Millisecond)
	for _, op := range operations(t) {
		for name, key := range map[string]string{"none": "", "wrong": "pave_aaaaaaaa_wrong", "expired": expired, "revoked": revoked} {
			status, _ := call(op, key)
			switch {
			case op.id == "signIn": // takes the key in its body
			case op.public && op.id != "getMe": // which asks for a key, whatever its scopes
				require.NotEqual(t, 401, status, op.id)
			default:
				require.Equal(t, 401, status, "%s with key %s", op.id, name)
			}
		}
		if op.id == "signIn" {
			continue
		}
		for scope, key := range keys {
			allowed := op.public || scope == "admin" || len(op.scopes) == 1 && op.scopes[0] == scope
			status, code := call(op, key)
			if allowed {
				require.False(t, status == 401 || status == 403 && code == "forbidden", "%s refuses the scope %s: %d %s", op.id, scope, status, code)
			} else {
				require.Equal(t, 403, status, "%s lets the scope %s in", op.id, scope)
			}
		}
	}
}

// S4: other spellings of a path reach nothing without a key: what is not exactly in the contract is not there.
func TestScenarioS4PathTricksReachNothing(t *testing.T) {
	a := open(t, nil)
	reader, _ := newKey(t, a, "person:reader", time.Time{}, "read")
	tricks := map[string]func(path string) string{
		"double slash": func(p string) string { return strings.Replace(p, "/api/", "/api//", 1) },
		"encoded":      func(p string) string { return strings.Replace(p, "/v1/", "%2fv1%2f", 1) },
		"dots":         func(p string) string { return strings.Replace(p, "/api/", "/openapi.yaml/../api/", 1) },
		"dots encoded": func(p string) string { return strings.Replace(p, "/api/", "/healthz/%2e%2e/api/", 1) },
		"case":         func(p string) string { return strings.Replace(p, "/api/", "/API/", 1) },
		"slash":        func(p string) string { return p + "/" },
		"public":       func(p string) string { return p + ";/healthz" },
		"suffix":       func(p string) string { return p + "%00" },
	}
	for _, op := range operations(t) {
		if op.public || !strings.HasPrefix(op.path, "/api/") {
			continue
		}
		path := op.nothing()
		for name, trick := range tricks {
			for _, key := range []string{"", reader} {
				r := httptest.NewRequest(op.method, trick(path), strings.NewReader("{}"))
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set("X-HTTP-Method-Override", "GET")
				r.Header.Set("X-Original-URL", "/healthz")
				if key != "" {
					r.Header.Set("Authorization", "Bearer "+key)
				}
				w := httptest.NewRecorder()
				a.Handler().ServeHTTP(w, r)
				if key == "" {
					require.Contains(t, []int{400, 401, 404, 405}, w.Code, "%s: %s", op.id, name)
				} else if op.scopes[0] != "read" {
					require.GreaterOrEqual(t, w.Code, 400, "%s: %s", op.id, name)
				}
			}
		}
	}
}

// Every read answers as the contract says on an empty installation, and every object that is not there is a 404.
func TestEmptyInstallation(t *testing.T) {
	a := open(t, nil)
	c := clientOf(t, a, "")
	ctx := t.Context()
	sessions, err := c.ListSessionsWithResponse(ctx, &gen.ListSessionsParams{})
	require.NoError(t, err)
	require.Empty(t, sessions.JSON200.Items)
	report, err := c.GetSavingsReportWithResponse(ctx, &gen.GetSavingsReportParams{})
	require.NoError(t, err)
	require.Zero(t, report.JSON200.Total.Runs)
	policy, err := c.GetPolicyWithResponse(ctx)
	require.NoError(t, err)
	require.Equal(t, 2, policy.JSON200.Approvals["write"])
	for name, status := range map[string]func() (int, error){
		"session":  func() (int, error) { r, err := c.GetSessionWithResponse(ctx, "none"); return r.StatusCode(), err },
		"proposal": func() (int, error) { r, err := c.GetProposalWithResponse(ctx, "none"); return r.StatusCode(), err },
		"flow":     func() (int, error) { r, err := c.GetFlowWithResponse(ctx, "none"); return r.StatusCode(), err },
		"version": func() (int, error) {
			r, err := c.GetFlowVersionWithResponse(ctx, "none", "1.0.0")
			return r.StatusCode(), err
		},
		"tool": func() (int, error) { r, err := c.GetToolWithResponse(ctx, "none"); return r.StatusCode(), err },
		"run":  func() (int, error) { r, err := c.GetRunWithResponse(ctx, "none"); return r.StatusCode(), err },
		"pass": func() (int, error) { r, err := c.GetMiningRunWithResponse(ctx, "none"); return r.StatusCode(), err },
		"patterns": func() (int, error) {
			r, err := c.ListPatternsWithResponse(ctx, &gen.ListPatternsParams{})
			return r.StatusCode(), err
		},
		"key": func() (int, error) { r, err := c.RevokeAPIKeyWithResponse(ctx, "none"); return r.StatusCode(), err },
	} {
		got, err := status()
		require.NoError(t, err)
		require.Equal(t, http.StatusNotFound, got, name)
	}
}

// A policy and a tool change only over what was read.
func TestConditionalChanges(t *testing.T) {
	a := open(t, nil)
	c := clientOf(t, a, "")
	ctx := t.Context()
	read, err := c.GetPolicyWithResponse(ctx)
	require.NoError(t, err)
	tag := read.HTTPResponse.Header.Get("ETag")
	policy := *read.JSON200
	policy.Solo = true
	none, err := c.PutPolicyWithResponse(ctx, &gen.PutPolicyParams{}, policy)
	require.NoError(t, err)
	require.Equal(t, http.StatusPreconditionRequired, none.StatusCode())
	first, err := c.PutPolicyWithResponse(ctx, &gen.PutPolicyParams{IfMatch: tag}, policy)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, first.StatusCode(), string(first.Body))
	require.True(t, first.JSON200.Solo)
	stale, err := c.PutPolicyWithResponse(ctx, &gen.PutPolicyParams{IfMatch: tag}, policy)
	require.NoError(t, err)
	require.Equal(t, http.StatusPreconditionFailed, stale.StatusCode())

	tool := json.RawMessage(`{"kind":"Tool","name":"add","input_schema":{"type":"object","properties":{"a":{"type":"integer"}}}}`)
	made, err := c.PutToolWithResponse(ctx, "add", &gen.PutToolParams{}, tool)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, made.StatusCode(), string(made.Body))
	again, err := c.PutToolWithResponse(ctx, "add", &gen.PutToolParams{}, tool)
	require.NoError(t, err)
	require.Equal(t, http.StatusPreconditionRequired, again.StatusCode())
	other, err := c.PutToolWithResponse(ctx, "sub", &gen.PutToolParams{}, tool)
	require.NoError(t, err)
	require.Equal(t, http.StatusBadRequest, other.StatusCode())
	changed := json.RawMessage(`{"kind":"Tool","name":"add","description":"Adds."}`)
	over, err := c.PutToolWithResponse(ctx, "add", &gen.PutToolParams{IfMatch: made.HTTPResponse.Header.Get("ETag")}, changed)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, over.StatusCode(), string(over.Body))
	late, err := c.PutToolWithResponse(ctx, "add", &gen.PutToolParams{IfMatch: made.HTTPResponse.Header.Get("ETag")}, changed)
	require.NoError(t, err)
	require.Equal(t, http.StatusPreconditionFailed, late.StatusCode())

	audit, err := c.ListAuditEventsWithResponse(ctx, &gen.ListAuditEventsParams{Limit: 2})
	require.NoError(t, err)
	require.Len(t, audit.JSON200.Items, 2)
	rest, err := c.ListAuditEventsWithResponse(ctx, &gen.ListAuditEventsParams{Cursor: audit.JSON200.NextCursor})
	require.NoError(t, err)
	require.Equal(t, audit.JSON200.Items[1].Sum, rest.JSON200.Items[0].PrevSum)
}

// Tools apply as a JSON array as they do as YAML.
func TestApplyToolsOfBothForms(t *testing.T) {
	a := open(t, nil)
	c := clientOf(t, a, "")
	one, err := c.ApplyToolsWithResponse(t.Context(), json.RawMessage(`[{"kind":"Tool","name":"a"},{"kind":"Tool","name":"b"}]`))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, one.StatusCode(), string(one.Body))
	require.Len(t, one.JSON200.Items, 2)
	two, err := c.ApplyToolsWithBodyWithResponse(t.Context(), "application/yaml", strings.NewReader("kind: Tool\nname: a\n---\nkind: Tool\nname: c\n"))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, two.StatusCode(), string(two.Body))
	require.Equal(t, gen.ToolChangeChangeUnchanged, two.JSON200.Items[0].Change)
	require.Equal(t, gen.ToolChangeChangeCreated, two.JSON200.Items[1].Change)
	bad, err := c.ApplyToolsWithBodyWithResponse(t.Context(), "application/yaml", strings.NewReader("kind: Tool\nname: [\n"))
	require.NoError(t, err)
	require.Equal(t, http.StatusBadRequest, bad.StatusCode())

	page, err := c.ListToolsWithResponse(t.Context(), &gen.ListToolsParams{Limit: 2})
	require.NoError(t, err)
	require.Len(t, page.JSON200.Items, 2)
	last, err := c.ListToolsWithResponse(t.Context(), &gen.ListToolsParams{Limit: 2, Cursor: page.JSON200.NextCursor})
	require.NoError(t, err)
	require.Equal(t, "c", last.JSON200.Items[0].Name)
	require.Empty(t, last.JSON200.NextCursor)
}

// One bad record of a batch is reported by its index; the others are recorded and readable at once.
func TestRecordAndReadASession(t *testing.T) {
	a := open(t, nil)
	c := clientOf(t, a, "")
	body := `{"event":"user_message","session_id":"s","text":"hi"}
{"event":"llm_call","session_id":"s","turn":0,"model":"m","input_tokens":10,"output_tokens":2,"duration_ms":500}
{"tool":"a","session_id":"s","turn":0,"args":{"x":12345678901234567890},"result":{"y":1},"status":"ok","shop":"north"}
{"tool":"a","session_id":"s","args":7,"seq":"x"}
`
	resp, err := c.RecordToolCallsWithBodyWithResponse(t.Context(), &gen.RecordToolCallsParams{Assemble: true}, "application/x-ndjson", strings.NewReader(body))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode(), string(resp.Body))
	require.Equal(t, 3, resp.JSON200.Accepted)
	require.Equal(t, 1, resp.JSON200.RejectedCount)
	require.Equal(t, 3, resp.JSON200.Rejected[0].Index)
	require.Equal(t, 1, resp.JSON200.SessionsAssembled)

	list, err := c.ListSessionsWithResponse(t.Context(), &gen.ListSessionsParams{})
	require.NoError(t, err)
	require.Len(t, list.JSON200.Items, 1)
	require.Equal(t, 1, list.JSON200.Items[0].ToolCalls)
	one, err := c.GetSessionWithResponse(t.Context(), "s")
	require.NoError(t, err)
	call := one.JSON200.Runs[0].Calls[0]
	require.JSONEq(t, `{"x":12345678901234567890}`, string(call.Args))
	require.True(t, bytes.Contains(call.Args, []byte("12345678901234567890")), "digits are kept")
	require.JSONEq(t, `{"shop":"north"}`, string(call.Metadata), "an unknown field is kept")
	require.EqualValues(t, 10, *one.JSON200.Runs[0].LlmCalls[0].InputTokens)
	require.Nil(t, one.JSON200.Runs[0].LlmCalls[0].CachedTokens)
	require.Equal(t, "hi", one.JSON200.Runs[0].UserMessages[0].Text)
}

func TestSecondOpenNamesTheHolder(t *testing.T) {
	a := open(t, nil)
	require.NoError(t, a.lock.announce("http://127.0.0.1:9"))
	_, err := Open(t.Context(), Options{DataDir: a.opts.DataDir})
	held := new(HeldError)
	require.ErrorAs(t, err, &held)
	require.Equal(t, "http://127.0.0.1:9", held.Address)
	require.Positive(t, held.PID)
	require.Contains(t, err.Error(), fmt.Sprint(held.PID))
}

// notify is a log that tells of its first line.
type notify chan string

func (n notify) Write(p []byte) (int, error) {
	select {
	case n <- string(p):
	default:
	}
	return len(p), nil
}

// A process that is no server is waited for, and said to be.
func TestOpenWaitsForAnotherCommand(t *testing.T) {
	a := open(t, nil)
	logged, opened := make(notify, 1), make(chan error, 1)
	go func() {
		second, err := Open(context.Background(), Options{DataDir: a.opts.DataDir, Logger: slog.New(slog.NewTextHandler(logged, nil))})
		if err == nil {
			err = second.Close()
		}
		opened <- err
	}()
	line := <-logged
	require.Contains(t, line, "another process has the data directory; waiting for it")
	require.Contains(t, line, fmt.Sprintf("process=%d", os.Getpid()))
	require.NoError(t, a.Close())
	require.NoError(t, <-opened)
}

// The zero options but the directory are enough.
func TestOpenNeedsADirectoryOnly(t *testing.T) {
	a, err := Open(t.Context(), Options{DataDir: filepath.Join(t.TempDir(), "new", "data")})
	require.NoError(t, err)
	key, err := AdminKey(a.opts.DataDir)
	require.NoError(t, err)
	resp, err := clientOf(t, a, key).ListAPIKeysWithResponse(t.Context())
	require.NoError(t, err)
	require.Equal(t, "local:admin", resp.JSON200.Items[0].Principal)
	require.NoError(t, a.Close())
}

// Tools may come as any JSON: escaped surrogate pairs and characters that YAML does not take are JSON's own.
func TestToolsAsJSON(t *testing.T) {
	a := open(t, nil)
	c := clientOf(t, a, "")
	const doc = "[{\"kind\":\"Tool\",\"name\":\"smile\",\"description\":\"\\ud83d\\ude00 \\/ \x7f\"}]"
	done, err := c.ApplyToolsWithBodyWithResponse(t.Context(), "application/json", strings.NewReader(doc))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, done.StatusCode(), string(done.Body))
	got, err := c.GetToolWithResponse(t.Context(), "smile")
	require.NoError(t, err)
	var tool flows.Tool
	require.NoError(t, json.Unmarshal(got.JSON200.Tool, &tool))
	require.Equal(t, "\U0001F600 / \x7f", tool.Description)
}

func TestDirectoryOfClickHouseIsNotOpenedOnSQLite(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, spoolFile), nil, 0o600))
	_, err := Open(t.Context(), Options{DataDir: dir})
	e := new(flows.Error)
	require.ErrorAs(t, err, &e)
	require.Equal(t, flows.CodeConflict, e.Code)
	require.Contains(t, e.Message, "--clickhouse")
	require.NoFileExists(t, filepath.Join(dir, eventsFile))

	require.NoError(t, os.Remove(filepath.Join(dir, spoolFile)))
	a, err := Open(t.Context(), Options{DataDir: dir})
	require.NoError(t, err, "the failed opening let go of the directory")
	require.NoError(t, a.Close())
}
