package ingest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"pave/flows"
	"pave/ingest/rawjson"
)

// decodeAll splits a stream into events and record errors; any other error fails the test.
func decodeAll(t testing.TB, body string, opts DecodeOptions) (events []Event, rejected []RecordError) {
	t.Helper()
	for e, err := range DecodeRecords(strings.NewReader(body), opts) {
		var re *RecordError
		if errors.As(err, &re) {
			rejected = append(rejected, *re)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, e)
	}
	return events, rejected
}

func TestDecodeDocumentedRecords(t *testing.T) {
	events, rejected := decodeAll(t, `{"event":"tool_call","session_id":"s1","call_id":"c1","seq":3,"turn":2,"tool":"get_order_details","args":{"order_id":"o-1"},"result":{"status":"delivered"},"status":"ok","error":null,"start":"2026-11-30T09:00:00.123Z","duration_ms":41,"agent":"support","run_id":"r1","trace_id":"","metadata":{}}
{"event":"llm_call","session_id":"s1","turn":2,"model":"gpt-4.1","input_tokens":1200,"output_tokens":40,"cached_tokens":0,"duration_ms":1900.5,"cost_usd":0.0041,"start":"2026-11-30T09:00:00Z"}
{"event":"user_message","session_id":"s1","turn":3,"text":"where is my order?"}
{"event":"session_end","session_id":"s1"}
`, DecodeOptions{})
	require.Empty(t, rejected)
	nine := time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)
	require.Equal(t, []Event{
		{Kind: KindToolCall, Origin: "session:s1", SessionID: "s1", RunID: "r1", Agent: "support", Source: "json", OriginKind: OriginAgent,
			Seq: 3, HasSeq: true, Turn: 2, HasTurn: true, Start: nine.Add(123 * time.Millisecond), Duration: 41 * time.Millisecond,
			Call: &ToolCall{Tool: "get_order_details", CallID: "c1", Args: json.RawMessage(`{"order_id":"o-1"}`),
				Result: json.RawMessage(`{"status":"delivered"}`), Status: StatusOK}},
		{Kind: KindLLMCall, Origin: "session:s1", SessionID: "s1", Source: "json", OriginKind: OriginAgent, Turn: 2, HasTurn: true,
			Start: nine, Duration: 1900500 * time.Microsecond,
			LLM: &LLMCall{Model: "gpt-4.1", Count: 1, InputTokens: 1200, OutputTokens: 40, CachedTokens: 0, CostUSD: 0.0041, HasCost: true}},
		{Kind: KindUserMessage, Origin: "session:s1", SessionID: "s1", Source: "json", OriginKind: OriginAgent, Turn: 3, HasTurn: true,
			User: &UserMessage{Text: "where is my order?"}},
		{Kind: KindSessionEnd, Origin: "session:s1", SessionID: "s1", Source: "json", OriginKind: OriginAgent},
	}, events)
}

func TestDecodeForms(t *testing.T) {
	for name, c := range map[string]struct {
		record string
		want   ToolCall
		meta   string
	}{
		"only a tool":            {record: `{"tool":"a"}`, want: ToolCall{Tool: "a", Status: StatusUnknown}},
		"aliases":                {record: `{"tool_name":"a","inputs":{"x":1},"outputs":[2],"result_status":"success","latency_ms":1.5,"turn_id":"t-7"}`, want: ToolCall{Tool: "a", Args: json.RawMessage(`{"x":1}`), Result: json.RawMessage(`[2]`), Status: StatusOK}, meta: `{"turn_id":"t-7"}`},
		"unknown to metadata":    {record: `{"tool":"a","dataset":"d","task\u0020id":{"n":1}, "metadata" : {"k":[1, 2]} ,"model":"m"}`, want: ToolCall{Tool: "a", Status: StatusUnknown}, meta: `{"k":[1, 2],"dataset":"d","task id":{"n":1},"model":"m"}`},
		"metadata no object":     {record: `{"tool":"a","metadata":[1]}`, want: ToolCall{Tool: "a", Status: StatusUnknown}, meta: `{"metadata":[1]}`},
		"result text is JSON":    {record: `{"tool":"a","result":"{\"id\": \"o-1\"}"}`, want: ToolCall{Tool: "a", Result: json.RawMessage(`{"id": "o-1"}`), Status: StatusOK}},
		"parsed once":            {record: `{"tool":"a","result":"[\"{\\\"b\\\":1}\"]"}`, want: ToolCall{Tool: "a", Result: json.RawMessage(`["{\"b\":1}"]`), Status: StatusOK}},
		"scalar text stays text": {record: `{"tool":"a","result":"10519.0"}`, want: ToolCall{Tool: "a", Result: json.RawMessage(`"10519.0"`), Status: StatusOK}},
		"broken JSON text":       {record: `{"tool":"a","result":"{not json}"}`, want: ToolCall{Tool: "a", Result: json.RawMessage(`"{not json}"`), Status: StatusOK}},
		"null result":            {record: `{"tool":"a","result":null,"error":null}`, want: ToolCall{Tool: "a", Result: json.RawMessage(`null`), Status: StatusOK}},
		"args as JSON text":      {record: `{"tool":"a","args":"{\"x\":1}"}`, want: ToolCall{Tool: "a", Args: json.RawMessage(`{"x":1}`), Status: StatusUnknown}},
		"args as text":           {record: `{"tool":"a","args":"Paris"}`, want: ToolCall{Tool: "a", Args: json.RawMessage(`{"input":"Paris"}`), Status: StatusUnknown}},
		"args as array":          {record: `{"tool":"a","args":[1,2]}`, want: ToolCall{Tool: "a", Args: json.RawMessage(`{"input":[1,2]}`), Status: StatusUnknown}},
		"args null":              {record: `{"tool":"a","args":null}`, want: ToolCall{Tool: "a", Status: StatusUnknown}},
		"error text":             {record: `{"tool":"a","error":"boom","result":null}`, want: ToolCall{Tool: "a", Status: StatusError, Error: "boom"}},
		"error object":           {record: `{"tool":"a","error":{"code":7,"message":"boom"}}`, want: ToolCall{Tool: "a", Status: StatusError, Error: "boom"}},
		"error flag":             {record: `{"tool":"a","error":true}`, want: ToolCall{Tool: "a", Status: StatusError}},
		"status beats error":     {record: `{"tool":"a","error":"warning","status":"OK"}`, want: ToolCall{Tool: "a", Status: StatusOK, Error: "warning"}},
		"big integer stays":      {record: `{"tool":"a","args":{"n":9007199254740993}}`, want: ToolCall{Tool: "a", Args: json.RawMessage(`{"n":9007199254740993}`), Status: StatusUnknown}},
		"repeated key":           {record: `{"tool":"a","tool":"b"}`, want: ToolCall{Tool: "b", Status: StatusUnknown}},
		"bad UTF-8":              {record: "{\"tool\":\"a\xff\"}", want: ToolCall{Tool: "a\uFFFD", Status: StatusUnknown}},
		"normalised stays":       {record: `{"tool":"a","args":{"x":1},"result":"{\"b\":1}","normalised":true}`, want: ToolCall{Tool: "a", Args: json.RawMessage(`{"x":1}`), Result: json.RawMessage(`"{\"b\":1}"`), Status: StatusOK}},
	} {
		t.Run(name, func(t *testing.T) {
			events, rejected := decodeAll(t, c.record, DecodeOptions{})
			require.Empty(t, rejected)
			require.Len(t, events, 1)
			require.Equal(t, c.want, *events[0].Call)
			require.Equal(t, c.meta, string(events[0].Metadata))
		})
	}
}

func TestDecodeRejects(t *testing.T) {
	for record, want := range map[string]string{
		`{"tool":""}`:                                 "/tool: a tool call needs the name of its tool",
		`{"args":{}}`:                                 "/tool: a tool call needs the name of its tool",
		`{"tool":7}`:                                  "/tool: must be a string",
		`{"tool_name":"a\u0000b"}`:                    "/tool_name: a tool's name has no control characters",
		`{"tool":"a","seq":"x"}`:                      "/seq: must be an integer from -9223372036854775808 to 9223372036854775807",
		`{"tool":"a","turn":-1}`:                      "/turn: must be an integer from 0 to 2147483647",
		`{"tool":"a","start":"yesterday"}`:            `/start: must be a time such as "2026-11-30T09:00:00.123Z"`,
		`{"tool":"a","start":"9999-01-01T00:00:00Z"}`: `/start: must be a time such as "2026-11-30T09:00:00.123Z"`,
		`{"tool":"a","duration_ms":-1}`:               "/duration_ms: a duration in milliseconds is 0 or more and below 300 years",
		`{"tool":"a","status":"perhaps"}`:             `/status: unknown status "perhaps"; use ok, error, unknown or requested`,
		`{"event":"other"}`:                           `/event: unknown event "other"; use tool_call, llm_call, user_message or session_end`,
		`{"event":"llm_call","input_tokens":1.5}`:     "/input_tokens: must be an integer from 0 to 9223372036854775807",
		`{"event":"llm_call","cost_usd":-1}`:          "/cost_usd: a cost is 0 or more",
		`{"tool":"a","args":{"x":nope}}`:              "/args/x: 'n' where a value is expected at byte 24",
		`{"tool":"a","args":{"x":1e400}}`:             "/args/x: a number beyond 1.7976931348623157e+308 at byte 24",
		`[1]`:                                         ": a record is a JSON object: '[' where an object is expected at byte 0",
		`"x"`:                                         ": a record is a JSON object: '\"' where an object is expected at byte 0",
		`{"tool":"a"`:                                 ": the document ends where a comma or '}' is expected at byte 11",
		`{"tool":"a","origin_kind":"x"}`:              "/origin_kind: origin_kind is agent, flow or flow_call",
		`{"tool":"a","session_id":"` + strings.Repeat("s", 513) + `"}`: "/session_id: at most 512 bytes",
		`{"tool":"` + strings.Repeat("t", 129) + `"}`:                  "/tool: a tool's name has at most 128 bytes",
	} {
		t.Run(record[:min(40, len(record))], func(t *testing.T) {
			events, rejected := decodeAll(t, `{"tool":"before"}`+"\n"+record+"\n"+`{"tool":"after"}`, DecodeOptions{Form: rawjson.Lines})
			require.Len(t, events, 2)
			require.Len(t, rejected, 1)
			require.Equal(t, want, rejected[0].Pointer+": "+rejected[0].Message)
			require.Equal(t, 1, rejected[0].Index)
			require.Equal(t, 2, rejected[0].Line)
		})
	}
	events, rejected := decodeAll(t, `{"tool":"`+strings.Repeat("t", 128)+`","session_id":"`+strings.Repeat("s", 512)+`"}`, DecodeOptions{})
	require.Empty(t, rejected)
	require.Len(t, events, 1)
}

func TestDecodeOneBadOfAThousand(t *testing.T) {
	for _, bad := range []string{`{"tool":7}`, `{"tool":nope}`, `"text"`} {
		var b strings.Builder
		for i := range 1000 {
			b.WriteString(map[bool]string{true: "[", false: ",\n"}[i == 0])
			if i == 617 {
				b.WriteString(bad)
				continue
			}
			fmt.Fprintf(&b, `{"tool":"t","session_id":"s","call_id":"c%d"}`, i)
		}
		b.WriteString("]")
		events, rejected := decodeAll(t, b.String(), DecodeOptions{})
		require.Len(t, events, 999)
		require.Len(t, rejected, 1)
		require.Equal(t, 617, rejected[0].Index)
		require.Equal(t, 618, rejected[0].Line)
		require.Equal(t, flows.CodeInvalid, rejected[0].Code)
		require.Equal(t, "c999", events[998].Call.CallID)
	}
}

func TestDecodeLimits(t *testing.T) {
	batch := func(n int) string { return "[" + strings.Repeat(`{"tool":"t"},`, n-1) + `{"tool":"t"}]` }
	opts := DecodeOptions{Limits: Limits{Batch: 3, Record: 64, Depth: 4, Tokens: 8}}
	events, _ := decodeAll(t, batch(3), opts)
	require.Len(t, events, 3)
	var last error
	for _, err := range DecodeRecords(strings.NewReader(batch(4)), opts) {
		last = err
	}
	require.Equal(t, flows.CodeTooLarge, flows.CodeOf(last))
	opts.NoBatchLimit = true
	events, _ = decodeAll(t, batch(4), opts)
	require.Len(t, events, 4)

	for record, ok := range map[string]bool{
		`{"tool":"t","args":{"a":[[1]]}}`:                 true,
		`{"tool":"t","args":{"a":[[[1]]]}}`:               false,
		`{"tool":"t","args":{"a":[1,2,3,4]}}`:             true,
		`{"tool":"t","args":{"a":[1,2,3,4,5]}}`:           false,
		`{"tool":"` + strings.Repeat("t", 64-11) + `"}`:   true,
		`{"tool":"` + strings.Repeat("t", 64-11+1) + `"}`: false,
	} {
		events, rejected := decodeAll(t, record, opts)
		require.Equal(t, ok, len(events) == 1, record)
		if !ok {
			require.Equal(t, flows.CodeTooLarge, rejected[0].Code)
		}
	}
}

func TestDecodeContext(t *testing.T) {
	line := `{"session_id":"s","seq":0,"turn":2,"tool":"t","args":{},"result":null,"error":null,"context":"hello\nthere","task_id":"9"}`
	events, rejected := decodeAll(t, line, DecodeOptions{Context: true})
	require.Empty(t, rejected)
	require.Len(t, events, 2)
	require.Equal(t, &UserMessage{Text: "hello\nthere"}, events[0].User)
	require.Equal(t, int32(2), events[0].Turn)
	require.False(t, events[0].HasSeq)
	require.Equal(t, `{"task_id":"9"}`, string(events[1].Metadata))
	events, _ = decodeAll(t, line, DecodeOptions{})
	require.Len(t, events, 1)
	require.Equal(t, `{"task_id":"9","context":"hello\nthere"}`, string(events[0].Metadata))
}

// genEvent draws any event that a record can carry.
func genEvent(t *rapid.T) Event {
	id := rapid.StringMatching(`[a-z0-9/é"\\]{0,8}`)
	raw := rapid.SampledFrom([]string{"", `{}`, `{"a":[1,"x\u00e9",null]}`, `{"n":12345678901234567890}`})
	payload := func(s string) json.RawMessage {
		if s == "" {
			return nil
		}
		return json.RawMessage(s)
	}
	e := Event{
		Kind: Kind(rapid.IntRange(1, 5).Draw(t, "kind")), SessionID: id.Draw(t, "session"), TraceID: rapid.SampledFrom([]string{"", "0af7651916cd43dd8448eb211c80319c"}).Draw(t, "trace"),
		SpanID: rapid.SampledFrom([]string{"", "b7ad6b7169203331"}).Draw(t, "span"), ParentSpanID: rapid.SampledFrom([]string{"", "00f067aa0ba902b7"}).Draw(t, "parent"),
		RunID: id.Draw(t, "run"), Agent: id.Draw(t, "agent"), Source: "otlp/" + id.Draw(t, "source"), Identity: id.Draw(t, "identity"),
		OriginKind: rapid.SampledFrom([]OriginKind{OriginAgent, OriginFlow, OriginFlowCall}).Draw(t, "origin"),
		Duration:   time.Duration(rapid.Int64Range(0, int64(100*time.Hour)).Draw(t, "duration")),
		Metadata:   payload(rapid.SampledFrom([]string{"", `{"k":"v"}`}).Draw(t, "metadata")),
	}
	if e.HasSeq = rapid.Bool().Draw(t, "hasSeq"); e.HasSeq {
		e.Seq = rapid.Int64().Draw(t, "seq")
	}
	if e.HasTurn = rapid.Bool().Draw(t, "hasTurn"); e.HasTurn {
		e.Turn = rapid.Int32Range(0, 1<<30).Draw(t, "turn")
	}
	if rapid.Bool().Draw(t, "hasStart") {
		e.Start = time.Unix(0, rapid.Int64Range(1, 1<<62).Draw(t, "start")).UTC()
	}
	switch e.Kind {
	case KindToolCall:
		e.Call = &ToolCall{Tool: "t" + id.Draw(t, "tool"), CallID: id.Draw(t, "call"), Args: payload(raw.Draw(t, "args")), Result: payload(raw.Draw(t, "result")),
			Status: rapid.SampledFrom([]Status{StatusOK, StatusError, StatusUnknown, StatusRequested}).Draw(t, "status"), Error: id.Draw(t, "error"), Truncated: rapid.Bool().Draw(t, "truncated")}
	case KindLLMCall:
		e.LLM = &LLMCall{Model: id.Draw(t, "model"), Count: rapid.Int32Range(1, 9).Draw(t, "count"), InputTokens: rapid.Int64Range(-1, 1<<40).Draw(t, "in"),
			OutputTokens: rapid.Int64Range(-1, 1<<40).Draw(t, "out"), CachedTokens: rapid.Int64Range(-1, 1<<40).Draw(t, "cached")}
		if e.LLM.HasCost = rapid.Bool().Draw(t, "hasCost"); e.LLM.HasCost {
			e.LLM.CostUSD = rapid.Float64Range(0, 100).Draw(t, "cost")
		}
	case KindUserMessage:
		e.User = &UserMessage{Text: rapid.String().Draw(t, "text")}
	}
	e.Origin = originOf(&e)
	return e
}

func TestRecordRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(rapid.Custom(genEvent), 1, 5).Draw(t, "events")
		var body []byte
		for i := range want {
			body = append(AppendRecord(body, &want[i]), '\n')
		}
		var got []Event
		for e, err := range DecodeRecords(bytes.NewReader(body), DecodeOptions{}) {
			if err != nil {
				t.Fatalf("%v\n%s", err, body)
			}
			got = append(got, e)
		}
		require.Equal(t, want, got, "%s", body)
	})
}

func TestAppendRecordIsOneLine(t *testing.T) {
	e := Event{Kind: KindToolCall, Call: &ToolCall{Tool: "t", Args: json.RawMessage("{\n \"a\": 1\r\n}"), Status: StatusOK}}
	require.Equal(t, `{"event":"tool_call","tool":"t","args":{"a":1},"status":"ok","origin_kind":"","normalised":true}`,
		strings.Replace(string(AppendRecord(nil, &e)), `"status":"ok",`, `"status":"ok","origin_kind":"",`, 1))
}

func TestInflate(t *testing.T) {
	limits := Limits{Body: 1 << 10, Inflated: 4 << 20, Ratio: 100}
	text := strings.Repeat("a", 2<<20)
	read := func(body []byte, encoding string, limits Limits) (int, error) {
		r, err := Inflate(bytes.NewReader(body), encoding, limits)
		if err != nil {
			return 0, err
		}
		defer r.Close()
		var out bytes.Buffer
		_, err = out.ReadFrom(r)
		return out.Len(), err
	}
	for encoding, pack := range map[string]func(string) []byte{"gzip": gzipped, "zstd": zstded, "": func(s string) []byte { return []byte(s) }} {
		t.Run("encoding "+encoding, func(t *testing.T) {
			n, err := read(pack(text[:1000]), encoding, limits)
			require.NoError(t, err)
			require.Equal(t, 1000, n)
			n, err = read(pack(text), encoding, Limits{Inflated: int64(len(text)), Ratio: 1 << 20})
			require.NoError(t, err)
			require.Equal(t, len(text), n)
			if encoding == "" { // as sent is as it is
				_, err = read(pack(text), encoding, Limits{Body: int64(len(text)) - 1})
				require.Equal(t, flows.CodeTooLarge, flows.CodeOf(err))
				return
			}
			_, err = read(pack(text), encoding, Limits{Inflated: int64(len(text)) - 1, Ratio: 1 << 20})
			require.Equal(t, flows.CodeTooLarge, flows.CodeOf(err))
			_, err = read(pack(text), encoding, limits)
			require.Equal(t, flows.CodeTooLarge, flows.CodeOf(err), "ratio")
			_, err = read([]byte("not compressed"), encoding, limits)
			require.Equal(t, flows.CodeInvalid, flows.CodeOf(err))
			_, err = read(pack(text[:5000])[:20], encoding, limits)
			require.Equal(t, flows.CodeInvalid, flows.CodeOf(err))
		})
	}
	_, err := Inflate(strings.NewReader(""), "br", limits)
	require.Equal(t, flows.CodeUnsupportedMedia, flows.CodeOf(err))
}

func gzipped(s string) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(s))
	_ = w.Close()
	return b.Bytes()
}

func zstded(s string) []byte {
	w, _ := zstd.NewWriter(nil)
	defer w.Close()
	return w.EncodeAll([]byte(s), nil)
}

func FuzzJSONIngest(f *testing.F) {
	for _, s := range []string{
		`[{"tool":"a","args":{"x":[1,2]},"result":"{\"y\":1}","error":null},{"event":"llm_call","model":"m"}]`,
		`{"event":"user_message","text":"hi"}`, `[{"tool":"a"},`, `{"tool":"\ud800","metadata":{},"x":1}`, "{\"tool\":\"a\xff\"}", `{"tool":"a","start":1e9}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) { fuzzDecode(t, data, rawjson.Auto) })
}

func FuzzNDJSON(f *testing.F) {
	for _, s := range []string{"{\"tool\":\"a\"}\n{\"tool\":\"b\",\"turn\":1}\n", "{bad\n{\"tool\":\"a\"}", "\n\n[]\n", `{"tool":"a","context":"c","seq":-1}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) { fuzzDecode(t, data, rawjson.Lines) })
}

// fuzzDecode: what is taken survives a round trip through the wire form, and storing it needs nothing more.
func fuzzDecode(t *testing.T, data []byte, form rawjson.Form) {
	for e, err := range DecodeRecords(bytes.NewReader(data), DecodeOptions{Form: form, Context: true, Limits: Limits{Record: 1 << 16}}) {
		if err != nil {
			continue
		}
		line := AppendRecord(nil, &e)
		if !json.Valid(line) {
			t.Fatalf("invalid wire form %q", line)
		}
		again, rejected := decodeAll(t, string(line), DecodeOptions{Form: rawjson.Lines, Limits: Limits{Record: 1 << 20, Tokens: 1 << 20, Depth: 80}})
		if len(rejected) > 0 || len(again) != 1 {
			t.Fatalf("%q became %q: %v", data, line, rejected)
		}
		if e.Metadata == nil {
			again[0].Metadata = nil
		}
		if second := AppendRecord(nil, &again[0]); !bytes.Equal(line, second) {
			t.Fatalf("%q became %q", line, second)
		}
	}
}
