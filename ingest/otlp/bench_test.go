package otlp

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
)

// BenchmarkTracesProto: decoding and mapping of a request of 200 tool calls with about 500 bytes of arguments and
// result each, an agent span and a model call per four calls.
func BenchmarkTracesProto(b *testing.B) {
	const calls = 200
	td, ss := scope()
	td.ResourceSpans().At(0).Resource().Attributes().PutStr("service.name", "support")
	id := func(i int) pcommon.SpanID { return pcommon.SpanID{1, byte(i >> 8), byte(i)} }
	for i := range calls {
		s := spanOf(ss, 0, 9, "execute_tool get_order_details", attrs{"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "get_order_details",
			"gen_ai.tool.call.id": fmt.Sprint("call_", i), "gen_ai.tool.type": "function", "gen_ai.tool.call.arguments": fmt.Sprintf(`{"order_id":"o-%d"}`, i),
			"gen_ai.tool.call.result": `{"order_id":"o-1","status":"delivered","items":["` + strings.Repeat("x", 400) + `"]}`})
		s.SetSpanID(id(2 * i))
		if i%4 == 0 {
			m := spanOf(ss, 0, 9, "chat m", attrs{"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.usage.input_tokens": int64(1000), "gen_ai.usage.output_tokens": int64(20)})
			m.SetSpanID(id(2*i + 1))
		}
	}
	spanOf(ss, 9, 0, "invoke_agent support", attrs{"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "support", "gen_ai.conversation.id": "s"})
	body, err := ptraceotlp.NewExportRequestFromTraces(td).MarshalProto()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	start := cpuTime(b)
	for b.Loop() {
		events, _, err := Reader{}.Traces(body, Protobuf)
		if err != nil || len(events) != calls+calls/4+1 {
			b.Fatal(len(events), err)
		}
	}
	b.ReportMetric(float64((cpuTime(b)-start).Nanoseconds())/float64(b.N*calls)/1000, "cpu-us/call")
}

// cpuTime is the user and system time of the process.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
