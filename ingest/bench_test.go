package ingest

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
)

// cpuTime is the user and system time of the process.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

const benchCalls = 1000

// benchBody is NDJSON of calls with about 500 bytes of arguments and result.
func benchBody() []byte {
	var body bytes.Buffer
	for i := range benchCalls {
		fmt.Fprintf(&body, `{"session_id":"s%d","call_id":"c%d","turn":%d,"tool":"get_order_details","args":{"order_id":"o-%d"},"result":{"status":"delivered","items":["%s"]},"status":"ok","start":"2026-11-30T09:00:00.123Z","duration_ms":41}`+"\n",
			i/10, i, i%10, i, strings.Repeat("x", 420))
	}
	return body.Bytes()
}

func perCall(b *testing.B, start time.Duration) {
	b.ReportMetric(float64((cpuTime(b)-start).Nanoseconds())/float64(b.N*benchCalls)/1000, "cpu-us/call")
}

func BenchmarkDecodeRecords(b *testing.B) {
	body := benchBody()
	b.ReportAllocs()
	start := cpuTime(b)
	for b.Loop() {
		for _, err := range DecodeRecords(bytes.NewReader(body), DecodeOptions{}) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	perCall(b, start)
}

type nowhere struct{}

func (nowhere) Append(context.Context, string, []Event) error { return nil }

// BenchmarkRecord: redaction, identity, repeats and grouping, without a store.
func BenchmarkRecord(b *testing.B) {
	var events []Event
	for e := range DecodeRecords(bytes.NewReader(benchBody()), DecodeOptions{}) {
		events = append(events, e)
	}
	r := NewRecorder(nowhere{}, RecorderOptions{Limits: Limits{Linger: time.Nanosecond}})
	defer func() { _ = r.Close() }()
	batch := make([]Event, len(events))
	b.ReportAllocs()
	start := cpuTime(b)
	for n := 0; b.Loop(); n++ {
		copy(batch, events)
		for i := range batch {
			batch[i].Turn = int32(n) // a call that was not seen before
		}
		if _, err := r.Record(b.Context(), "t", batch); err != nil {
			b.Fatal(err)
		}
	}
	perCall(b, start)
}

func BenchmarkAssemble(b *testing.B) {
	var events []Event
	for e := range DecodeRecords(bytes.NewReader(benchBody()), DecodeOptions{}) {
		events = append(events, e)
	}
	b.ReportAllocs()
	start := cpuTime(b)
	for b.Loop() {
		AssembleAll("t", events, AssembleOptions{})
	}
	perCall(b, start)
}
