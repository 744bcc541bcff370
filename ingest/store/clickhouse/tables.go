package clickhouse

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// table is one INSERT target with its columns, in the order in which values are given.
type table struct {
	name    string
	columns []clickhouse.ColumnNameAndType
	insert  string
}

// newTable takes columns as "name type" lines.
func newTable(name string, columns ...string) table {
	t := table{name: name}
	var names []string
	for _, c := range columns {
		column, kind, _ := strings.Cut(c, " ")
		names = append(names, column)
		t.columns = append(t.columns, clickhouse.ColumnNameAndType{Name: column, Type: kind})
	}
	t.insert = "INSERT INTO " + name + " (" + strings.Join(names, ", ") + ")"
	return t
}

// send inserts whole columns as one block. A block sent again with the same token is stored once.
func (t table) send(ctx context.Context, conn driver.Conn, token string, values []any) error {
	ctx = clickhouse.Context(ctx,
		clickhouse.WithColumnNamesAndTypes(t.columns),
		clickhouse.WithSettings(clickhouse.Settings{
			"async_insert":               0, // a server profile may switch it on, and an acknowledged block would not be stored yet
			"insert_deduplicate":         1,
			"insert_deduplication_token": token,
		}))
	batch, err := conn.PrepareBatch(ctx, t.insert)
	if err != nil {
		return fmt.Errorf("prepare %s: %w", t.name, err)
	}
	defer batch.Close()
	for i, v := range values {
		if err := batch.Column(i).Append(v); err != nil {
			return fmt.Errorf("column %s of %s: %w", t.columns[i].Name, t.name, err)
		}
	}
	if err := batch.Send(); err != nil {
		return fmt.Errorf("insert into %s: %w", t.name, err)
	}
	return nil
}

const (
	lowCardinality = "LowCardinality(String)"
	instantType    = "DateTime64(9, 'UTC')"
)

var eventsTable = newTable("events",
	"tenant "+lowCardinality, "arrival Int64", "spool UInt64", "kind UInt8", "present UInt8",
	"origin String", "session_id String", "trace_id String", "span_id String", "parent_span_id String", "run_id String",
	"agent "+lowCardinality, "source "+lowCardinality, "origin_kind "+lowCardinality,
	"seq Int64", "turn Int32", "started "+instantType, "duration Int64", "received "+instantType, "identity String", "metadata String",
	"tool "+lowCardinality, "call_id String", "args String", "result String", "status "+lowCardinality, "error String",
	"model "+lowCardinality, "llm_calls Int32", "input_tokens Int64", "output_tokens Int64", "cached_tokens Int64", "cost_usd Float64",
	"text String")

// eventBatch is a block of the events table.
type eventBatch struct {
	tenant                                  []string
	arrival                                 []int64
	spool                                   []uint64
	kind, present                           []uint8
	origin, session, trace, span, parent    []string
	run, agent, source, originKind          []string
	seq                                     []int64
	turn                                    []int32
	start                                   []time.Time
	duration                                []int64
	received                                []time.Time
	identity, metadata                      []string
	tool, callID, args, result, status, err []string
	model                                   []string
	calls                                   []int32
	input, output, cached                   []int64
	cost                                    []float64
	text                                    []string
}

func (b *eventBatch) appendPart(p *part) {
	b.tool = append(b.tool, p.tool)
	b.callID = append(b.callID, p.callID)
	b.args = append(b.args, p.args)
	b.result = append(b.result, p.result)
	b.status = append(b.status, p.status)
	b.err = append(b.err, p.error)
	b.model = append(b.model, p.model)
	b.calls = append(b.calls, p.calls)
	b.input = append(b.input, p.input)
	b.output = append(b.output, p.output)
	b.cached = append(b.cached, p.cached)
	b.cost = append(b.cost, p.cost)
	b.text = append(b.text, p.text)
}

func (b *eventBatch) values() []any {
	return []any{
		b.tenant, b.arrival, b.spool, b.kind, b.present,
		b.origin, b.session, b.trace, b.span, b.parent, b.run,
		b.agent, b.source, b.originKind,
		b.seq, b.turn, b.start, b.duration, b.received, b.identity, b.metadata,
		b.tool, b.callID, b.args, b.result, b.status, b.err,
		b.model, b.calls, b.input, b.output, b.cached, b.cost,
		b.text,
	}
}

var runsTable = newTable("runs",
	"tenant "+lowCardinality, "id String", "version Int64", "flow "+lowCardinality, "flow_version "+lowCardinality,
	"status "+lowCardinality, "caller String", "has_start UInt8", "started "+instantType, "duration Int64", "steps Int64",
	"steps_done Int64", "error_code "+lowCardinality, "result String", "llm_calls_avoided Float64", "tokens_avoided Float64",
	"cost_avoided_usd Float64", "latency_avoided Int64")

// runBatch is a block of the runs table.
type runBatch struct {
	tenant, id                        []string
	version                           []int64
	flow, flowVersion, status, caller []string
	hasStart                          []uint8
	start                             []time.Time
	duration, steps, stepsDone        []int64
	errorCode, result                 []string
	llmCalls, tokens, cost            []float64
	latency                           []int64
}

func (b *runBatch) values() []any {
	return []any{
		b.tenant, b.id, b.version, b.flow, b.flowVersion, b.status, b.caller, b.hasStart, b.start, b.duration, b.steps,
		b.stepsDone, b.errorCode, b.result, b.llmCalls, b.tokens, b.cost, b.latency,
	}
}

var originsTable = newTable("origins",
	"tenant "+lowCardinality, "origin String", "session String", "spool UInt64", "entry Int64", "events UInt64", "tool_calls UInt64",
	"bytes UInt64", "first_arrival Int64", "last_arrival Int64", "last_received Int64")

// originBatch is a block of the origins table, one row per entry, origin and explicit session.
type originBatch struct {
	tenant, origin, session           []string
	spool                             []uint64
	entry                             []int64
	events, toolCalls, bytes          []uint64
	firstArrival, lastArrival, newest []int64
}

func (b *originBatch) values() []any {
	return []any{
		b.tenant, b.origin, b.session, b.spool, b.entry, b.events, b.toolCalls, b.bytes, b.firstArrival, b.lastArrival, b.newest,
	}
}

var (
	bindingsTable = newTable("bindings", "tenant "+lowCardinality, "session String", "origin String")
	touchesTable  = newTable("touches", "tenant "+lowCardinality, "spool UInt64", "origin String")
	toolsTable    = newTable("tools", "tenant "+lowCardinality, "name String", "added SimpleAggregateFunction(min, Int64)")
)
