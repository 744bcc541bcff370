package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
)

// Load describes what the sender process sends: pre-encoded bodies, so that its work is not the server's.
type Load struct {
	URL      string // base of the server
	Path     string // one of the path names; files are not sent
	Requests int
	Calls    int // per request
	Senders  int
}

// Ways in.
const (
	pathJSON = "json"
	pathHTTP = "otlp_http"
	pathGRPC = "otlp_grpc"
	pathFile = "file"
)

// Sent is what the sender process prints.
type Sent struct {
	Calls    int     `json:"calls"`
	WallS    float64 `json:"wall_s"`
	AckP99MS float64 `json:"ack_p99_ms"`
}

// Send encodes all bodies, then waits for a byte on in, so that the server's clock can start, and sends them with
// the given number of concurrent senders. Each answer must be 200.
func Send(ctx context.Context, l Load, in io.Reader, out io.Writer) error {
	bodies, err := l.bodies(rand.New(rand.NewPCG(7, 7)), l.Requests)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "ready")
	if _, err := in.Read(make([]byte, 1)); err != nil {
		return err
	}
	deliver, done, err := l.deliverer()
	if err != nil {
		return err
	}
	defer done()
	work := make(chan []byte, len(bodies))
	for _, b := range bodies {
		work <- b
	}
	close(work)
	var mu sync.Mutex
	var acks []float64
	var failed error
	began := time.Now()
	var wg sync.WaitGroup
	for range l.Senders {
		wg.Go(func() {
			for b := range work {
				start := time.Now()
				err := deliver(ctx, b)
				took := time.Since(start)
				mu.Lock()
				acks = append(acks, float64(took.Microseconds())/1000)
				if err != nil && failed == nil {
					failed = err
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if failed != nil {
		return failed
	}
	slices.Sort(acks)
	return json.NewEncoder(out).Encode(Sent{Calls: l.Requests * l.Calls, WallS: time.Since(began).Seconds(), AckP99MS: acks[len(acks)*99/100]})
}

// deliverer is how a body is sent and acknowledged, and what ends it.
func (l Load) deliverer() (deliver func(context.Context, []byte) error, done func(), err error) {
	if l.Path == pathGRPC {
		conn, err := grpc.NewClient(l.URL, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return nil, nil, err
		}
		return func(ctx context.Context, body []byte) error {
			return conn.Invoke(ctx, "/opentelemetry.proto.collector.trace.v1.TraceService/Export", encoded(body), new(encoded), grpc.ForceCodecV2(encodedCodec{}))
		}, func() { _ = conn.Close() }, nil // what was sent is acknowledged
	}
	url, contentType := l.URL+"/v1/traces", "application/x-protobuf"
	if l.Path == pathJSON {
		url, contentType = l.URL+"/api/v1/tool-calls", "application/x-ndjson"
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: l.Senders}}
	return func(ctx context.Context, body []byte) error { return post(ctx, client, url, contentType, body) }, client.CloseIdleConnections, nil
}

// encoded is a message that is encoded already.
type encoded []byte

type encodedCodec struct{}

func (encodedCodec) Name() string { return "proto" }

func (encodedCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.(encoded))}, nil
}

func (encodedCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*encoded) = data.Materialize()
	return nil
}

func post(ctx context.Context, client *http.Client, url, contentType string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, "POST", url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", contentType)
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s %s", url, resp.Status, answer)
	}
	return nil
}

// payload is about 250 bytes of JSON with words that differ from call to call.
func payload(r *rand.Rand, key string) string {
	b := fmt.Appendf(nil, `{"%s":"%08x","customer":{"name":"Customer %d","email":"c%d@example.com"},"notes":"`, key, r.Uint32(), r.IntN(5000), r.IntN(5000))
	for len(b) < 235 {
		b = append(b, words[r.IntN(len(words))]...)
		b = append(b, ' ')
	}
	return string(append(b, `"}`...))
}

var words = []string{"order", "parcel", "delivered", "invoice", "northern", "blue", "kettle", "refund", "window", "seventeen", "status", "harbour", "quick", "paper", "customer", "lamp"}

var benchTools = []string{"get_order", "get_customer", "search", "track_parcel", "issue_refund", "send_message", "get_invoice", "list_items"}

// bodies encodes so many requests.
func (l Load) bodies(r *rand.Rand, requests int) ([][]byte, error) {
	bodies := make([][]byte, requests)
	for i := range bodies {
		var err error
		if bodies[i], err = l.body(r, i); err != nil {
			return nil, err
		}
	}
	return bodies, nil
}

func (l Load) body(r *rand.Rand, n int) ([]byte, error) {
	if l.Path == pathJSON || l.Path == pathFile {
		var b bytes.Buffer
		for i := range l.Calls {
			fmt.Fprintf(&b, `{"event":"tool_call","session_id":"s-%d-%d","call_id":"c%d","tool":"%s","args":%s,"result":%s,"status":"ok","start":"2026-11-01T10:00:%02d.000Z","duration_ms":12,"agent":"bench"}`+"\n",
				n, i/20, i, benchTools[r.IntN(len(benchTools))], payload(r, "order_id"), payload(r, "shipment_id"), i%60)
		}
		return b.Bytes(), nil
	}
	td := ptrace.NewTraces()
	rs := td.ResourceSpans().AppendEmpty()
	rs.Resource().Attributes().PutStr("service.name", "bench")
	spans := rs.ScopeSpans().AppendEmpty().Spans()
	at := time.Date(2026, 11, 1, 10, 0, 0, 0, time.UTC)
	var trace pcommon.TraceID
	for i := range l.Calls {
		if i%20 == 0 {
			for k := range trace {
				trace[k] = byte(r.Uint32())
			}
		}
		s := spans.AppendEmpty()
		tool := benchTools[r.IntN(len(benchTools))]
		s.SetName("execute_tool " + tool)
		s.SetTraceID(trace)
		var id pcommon.SpanID
		for k := range id {
			id[k] = byte(r.Uint32())
		}
		s.SetSpanID(id)
		s.SetStartTimestamp(pcommon.NewTimestampFromTime(at.Add(time.Duration(i) * time.Second)))
		s.SetEndTimestamp(pcommon.NewTimestampFromTime(at.Add(time.Duration(i)*time.Second + 12*time.Millisecond)))
		a := s.Attributes()
		a.PutStr("gen_ai.operation.name", "execute_tool")
		a.PutStr("gen_ai.tool.name", tool)
		a.PutStr("gen_ai.tool.call.id", fmt.Sprintf("call_%d", i))
		a.PutStr("gen_ai.tool.call.arguments", payload(r, "order_id"))
		a.PutStr("gen_ai.tool.call.result", payload(r, "shipment_id"))
	}
	return ptraceotlp.NewExportRequestFromTraces(td).MarshalProto()
}
