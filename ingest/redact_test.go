package ingest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pave/ingest/rawjson"
	"pave/ingest/secrets"
)

func TestRedactor(t *testing.T) {
	r := NewRedactor([]byte("key"), secrets.Options{})
	hide := func(s string) string {
		out := string(r.Redact(json.RawMessage(s)))
		require.NoError(t, rawjson.Valid([]byte(out), rawjson.Limits{}), out)
		require.Equal(t, out, string(r.Redact(json.RawMessage(out))), "hiding twice changes nothing")
		return out
	}
	token := func(kind, secret string) string { return r.token(kind, secret) }
	for in, want := range map[string]string{
		`{"order_id":"o-1","n":9007199254740993}`:                                       `{"order_id":"o-1","n":9007199254740993}`,
		`{"user_password":"hunter2"}`:                                                   `{"user_password":"` + token("secret", "hunter2") + `"}`,
		`{"a":[{"accessToken":"t1"},{"next_page_token":"p1"}]}`:                         `{"a":[{"accessToken":"` + token("secret", "t1") + `"},{"next_page_token":"p1"}]}`,
		`{"pass\u0077ord":"x1"}`:                                                        `{"pass\u0077ord":"` + token("secret", "x1") + `"}`,
		`{"headers":{"Authorization":"Bearer abc123def"}}`:                              `{"headers":{"Authorization":"Bearer ` + token("secret", "abc123def") + `"}}`,
		`{"headers":[{"name":"X-Api-Key","value":"k1"}]}`:                               `{"headers":[{"name":"X-Api-Key","value":"` + token("secret", "k1") + `"}]}`,
		`{"headers":[["Authorization","Basic dXNlcjpwYXNz"]]}`:                          `{"headers":[["Authorization","Basic ` + token("secret", "dXNlcjpwYXNz") + `"]]}`,
		`{"cmd":"curl -H 'Authorization: Bearer abc123def' u"}`:                         `{"cmd":"curl -H 'Authorization: Bearer ` + token("secret", "abc123def") + `' u"}`,
		`{"body":"{\"password\":\"hunter2\",\"x\":1}"}`:                                 `{"body":"{\"password\":\"` + token("secret", "hunter2") + `\",\"x\":1}"}`,
		`{"body":"[\"{\\\"token\\\":\\\"t1\\\"}\"]"}`:                                   `{"body":"[\"{\\\"token\\\":\\\"` + token("secret", "t1") + `\\\"}\"]"}`,
		`{"url":"https://x.example/?api_key=k1k1&q=1"}`:                                 `{"url":"https://x.example/?api_key=` + token("secret", "k1k1") + `&q=1"}`,
		`{"card":4111111111111111,"s":"4111 1111 1111 1111"}`:                           `{"card":"` + token("card", "4111111111111111") + `","s":"` + token("card", "4111 1111 1111 1111") + `"}`,
		`{"pem":"-----BEGIN EC PRIVATE KEY-----\nMII\n-----END EC PRIVATE KEY-----\n"}`: `{"pem":"` + token("secret", "-----BEGIN EC PRIVATE KEY-----\nMII\n-----END EC PRIVATE KEY-----") + `\n"}`,
		`"sk-abcdefghijklmnop1234"`:                                                     `"` + token("secret", "sk-abcdefghijklmnop1234") + `"`,
	} {
		require.Equal(t, want, hide(in), in)
	}
	require.Contains(t, hide(`{"result":{"access_token":"same1"},"next":"token=same1"}`), "token="+token("secret", "same1"), "one secret has one token wherever it stands")
	deep := strings.Repeat(`[`, 900) + `{"password":"x"}` + strings.Repeat(`]`, 900)
	require.NotContains(t, string(r.Redact(json.RawMessage(deep))), `"x"`)
	require.Equal(t, "the key "+token("secret", "sk-abcdefghijklmnop1234")+" was refused", r.RedactText("the key sk-abcdefghijklmnop1234 was refused"))
	require.Equal(t, `{"token":"`+token("secret", "t1")+`"}`, r.RedactText(`{"token":"t1"}`))
	same := json.RawMessage(`{"order_id":"o-1"}`)
	require.Same(t, &same[0], &r.Redact(same)[0], "what is clean is not copied")
}

// TestNoCanaryIsStored: secrets in every place of an event that can hold one.
func TestNoCanaryIsStored(t *testing.T) {
	const canary = "hunter2canary7"
	store := &log{}
	rec := newTestRecorder(t, store, RecorderOptions{})
	forms := []string{`{"password":"%s"}`, `{"headers":{"Authorization":"Bearer %s"}}`, `{"dynamic_params":{"api_key":["%s"]}}`, `{"q":"x&token=%s&y"}`, `{"json":"{\"client_secret\":\"%s\"}"}`,
		`{"h":[{"key":"Cookie","value":"%s"}]}`, `{"u":"redis://u:%s@h:1"}`, `"export SECRET_KEY=%s"`, `{"k":"sk-%s-abcdefgh"}`}
	var events []Event
	for i, form := range forms {
		payload := json.RawMessage(fmt.Sprintf(form, canary))
		e := call("s", fmt.Sprint("c", i), "{}")
		e.Call.Args, e.Call.Result, e.Metadata = payload, payload, payload
		e.Call.Error = "refused: " + string(payload)
		events = append(events, e, Event{Kind: KindUserMessage, SessionID: "s", OriginKind: OriginAgent, User: &UserMessage{Text: "my password: " + canary + " and " + string(payload)}})
	}
	_, err := rec.Record(t.Context(), "t", events)
	require.NoError(t, err)
	for i, e := range store.events() {
		line := string(AppendRecord(nil, &e))
		require.NotContains(t, line, canary, "event %d", i)
		require.Contains(t, line, "[redacted:secret:")
	}
}

// BenchmarkRedact: the cost of looking at a clean call of about 500 bytes, and at one with a secret member.
func BenchmarkRedact(b *testing.B) {
	r := NewRedactor([]byte("key"), secrets.Options{})
	clean := json.RawMessage(`{"order_id":"o-1234","status":"delivered","items":["` + strings.Repeat("blue widget, ", 33) + `"],"total":12.5}`)
	secret := json.RawMessage(strings.Replace(string(clean), `"status"`, `"password":"hunter2","status"`, 1))
	for name, raw := range map[string]json.RawMessage{"clean": clean, "secret": secret} {
		b.Run(name, func(b *testing.B) {
			start := cpuTime(b)
			for b.Loop() {
				r.Redact(raw)
			}
			b.ReportMetric(float64((cpuTime(b)-start).Nanoseconds())/float64(b.N)/1000, "cpu-us/payload")
		})
	}
}

// FuzzRedact: valid JSON stays valid, and hiding twice changes nothing.
func FuzzRedact(f *testing.F) {
	for _, seed := range []string{`{"password":"x","a":[1,"Bearer abcdef123456"]}`, `{"j":"{\"token\":\"t1\"}"}`, `[["Cookie","a=b"]]`, `{"name":"X-Api-Key","value":[1]}`, `"4111111111111111"`, `4111111111111111`} {
		f.Add([]byte(seed))
	}
	r := NewRedactor([]byte("key"), secrets.Options{Emails: true})
	f.Fuzz(func(t *testing.T, raw []byte) {
		if rawjson.Valid(raw, rawjson.Limits{}) != nil {
			r.RedactText(string(raw))
			return
		}
		once := r.Redact(raw)
		if err := rawjson.Valid(once, rawjson.Limits{Tokens: 1 << 20}); err != nil {
			t.Fatalf("%q became %q: %v", raw, once, err)
		}
		if twice := r.Redact(once); string(twice) != string(once) {
			t.Fatalf("%q became %q, then %q", raw, once, twice)
		}
	})
}
