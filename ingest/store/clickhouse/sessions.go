package clickhouse

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"pave/ingest"
	"pave/ingest/store"
)

var sessionsTable = newTable("sessions",
	"tenant "+lowCardinality, "id String", "version Int64", "removed UInt8", "watermark Int64", "has_start UInt8", "has_end UInt8",
	"started "+instantType, "ended "+instantType, "agents Array(String)", "sources Array(String)", "tool_calls Int64", "errors Int64",
	"repeats Int64", "user_turns Int64", "conflicts Int64", "llm_calls Int64", "input_tokens Int64", "output_tokens Int64",
	"cached_tokens Int64", "calls_with_tokens Int64", "cost_usd Float64", "calls_with_cost Int64", "llm_duration Int64",
	"calls_with_duration Int64", "tools Array(LowCardinality(String))", "sequence_agents Array(LowCardinality(String))",
	"sequences_from Int64", "sequences_to Int64", "sequences String")

// sessionBatch is a block of the sessions table.
type sessionBatch struct {
	tenant, id                                            []string
	version, watermark                                    []int64
	removed, hasStart, hasEnd                             []uint8
	start, end                                            []time.Time
	agents, sources                                       [][]string
	toolCalls, errors, repeats, userTurns, conflicts      []int64
	llmCalls, input, output, cached, withTokens, withCost []int64
	cost                                                  []float64
	llmDuration, withDuration                             []int64
	tools, sequenceAgents                                 [][]string
	from, to                                              []int64
	sequences                                             []string
	bytes                                                 int
}

func (b *sessionBatch) values() []any {
	return []any{
		b.tenant, b.id, b.version, b.removed, b.watermark, b.hasStart, b.hasEnd,
		b.start, b.end, b.agents, b.sources, b.toolCalls, b.errors,
		b.repeats, b.userTurns, b.conflicts, b.llmCalls, b.input, b.output,
		b.cached, b.withTokens, b.cost, b.withCost, b.llmDuration,
		b.withDuration, b.tools, b.sequenceAgents,
		b.from, b.to, b.sequences,
	}
}

func (b *sessionBatch) add(tenant string, version int64, row *store.SessionRow) {
	sum, seqs := row.Summary, row.Sequences
	removed := sum.ToolCalls == 0 && sum.LLM.Calls == 0 && sum.UserTurns == 0
	if removed {
		sum, seqs = ingest.SessionSummary{}, nil
	}
	b.tenant = append(b.tenant, tenant)
	b.id = append(b.id, row.ID)
	b.version = append(b.version, version)
	b.removed = append(b.removed, bit(removed))
	b.watermark = append(b.watermark, row.Watermark)
	b.hasStart = append(b.hasStart, bit(!sum.Start.IsZero()))
	b.hasEnd = append(b.hasEnd, bit(!sum.End.IsZero()))
	b.start = append(b.start, stored(sum.Start))
	b.end = append(b.end, stored(sum.End))
	b.agents = append(b.agents, sum.Agents)
	b.sources = append(b.sources, sum.Sources)
	for _, c := range [...]struct {
		column *[]int64
		value  int64
	}{
		{&b.toolCalls, int64(sum.ToolCalls)}, {&b.errors, int64(sum.Errors)}, {&b.repeats, int64(sum.Repeats)},
		{&b.userTurns, int64(sum.UserTurns)}, {&b.conflicts, int64(sum.Conflicts)}, {&b.llmCalls, sum.LLM.Calls},
		{&b.input, sum.LLM.InputTokens}, {&b.output, sum.LLM.OutputTokens}, {&b.cached, sum.LLM.CachedTokens},
		{&b.withTokens, sum.LLM.CallsWithTokens}, {&b.withCost, sum.LLM.CallsWithCost},
		{&b.llmDuration, int64(sum.LLM.Duration)}, {&b.withDuration, sum.LLM.CallsWithDuration},
	} {
		*c.column = append(*c.column, c.value)
	}
	b.cost = append(b.cost, sum.LLM.CostUSD)
	b.addSequences(seqs)
}

func (b *sessionBatch) addSequences(seqs []store.NamedSequence) {
	tools, agents := []string{}, []string{}
	from, to := int64(math.MaxInt64), int64(math.MinInt64)
	for _, q := range seqs {
		tools = append(tools, q.Tools...)
		agents = append(agents, q.Agent)
		if !q.Start.IsZero() {
			from, to = min(from, nanos(q.Start)), max(to, nanos(q.Start))
		}
	}
	packed := encodeSequences(seqs)
	b.tools = append(b.tools, tools)
	b.sequenceAgents = append(b.sequenceAgents, agents)
	b.from = append(b.from, from)
	b.to = append(b.to, to)
	b.sequences = append(b.sequences, packed)
	b.bytes += len(packed) + 16*len(tools)
}

func bit(on bool) uint8 {
	if on {
		return 1
	}
	return 0
}

// stored is a time as the driver takes it: inside the column's range, the epoch where there is none.
func stored(t time.Time) time.Time {
	if t.IsZero() {
		return time.Unix(0, 0)
	}
	return time.Unix(0, nanos(t))
}

// putToken is the deduplication token of a block of versioned rows.
func putToken(version int64, block int) string { return fmt.Sprintf("put-%d-%d", version, block) }

// PutSessions replaces assembled sessions. A session's rows are one row of one table, so each session is replaced
// whole; a call of many sessions is several blocks. See store.Store.
func (s *Store) PutSessions(ctx context.Context, tenant string, rows []store.SessionRow) error {
	if err := s.ready(ctx); err != nil || len(rows) == 0 {
		return err
	}
	newest := make(map[string]int, len(rows)) // of one id the last row counts
	for i := range rows {
		newest[rows[i].ID] = i
	}
	version := s.nextVersion()
	t := s.tenant(tenant)
	if err := s.addTools(ctx, tenant, &t.tools, version, rows); err != nil {
		return err
	}
	b, block := sessionBatch{}, 1
	send := func() error {
		if err := sessionsTable.send(ctx, s.conn, putToken(version, block), b.values()); err != nil {
			return s.failed(ctx, "store sessions", err)
		}
		b, block = sessionBatch{}, block+1
		return nil
	}
	for i := range rows {
		if newest[rows[i].ID] != i {
			continue
		}
		b.add(tenant, version, &rows[i])
		if len(b.id) == s.limits.BatchRows || int64(b.bytes) > s.limits.BatchBytes {
			if err := send(); err != nil {
				return err
			}
		}
	}
	if len(b.id) > 0 {
		if err := send(); err != nil {
			return err
		}
	}
	t.dirty.mu.Lock()
	defer t.dirty.mu.Unlock()
	for id, i := range newest {
		t.dirty.put(id, rows[i].Watermark)
	}
	return nil
}

// sessionsSQL chooses the page's ids first, so that only their rows are read whole. Rows sort by known start, start
// descending, then id.
const sessionsSQL = `
SELECT
    id, has_start, toUnixTimestamp64Nano(started), has_end, toUnixTimestamp64Nano(ended), agents, sources, tool_calls, errors, repeats,
    user_turns, conflicts, llm_calls, input_tokens, output_tokens, cached_tokens, calls_with_tokens, cost_usd, calls_with_cost,
    llm_duration, calls_with_duration
FROM sessions FINAL
WHERE tenant = {tenant:String} AND id IN (
    SELECT id FROM sessions FINAL
    WHERE tenant = {tenant:String} AND removed = 0
      AND ({timed:UInt8} = 0 OR has_start AND toUnixTimestamp64Nano(started) >= {from:Int64} AND toUnixTimestamp64Nano(started) < {to:Int64})
      AND ({agent:String} = '' OR has(agents, {agent:String}))
      AND ({tool:String} = '' OR has(tools, {tool:String}))
      AND ({paged:UInt8} = 0
           OR has_start < {after_known:UInt8}
           OR has_start = {after_known:UInt8} AND (toUnixTimestamp64Nano(started) < {after:Int64}
                                                   OR toUnixTimestamp64Nano(started) = {after:Int64} AND id > {after_id:String}))
    ORDER BY has_start DESC, started DESC, id
    LIMIT {limit:Int64})
ORDER BY has_start DESC, started DESC, id`

// Sessions lists summaries. See store.Store.
func (s *Store) Sessions(ctx context.Context, tenant string, filter store.SessionFilter) (store.Page[ingest.SessionSummary], error) {
	var page store.Page[ingest.SessionSummary]
	limit := or(filter.Limit, store.DefaultLimit)
	cursor, err := cursorArgs(filter.Cursor)
	if err != nil {
		return page, err
	}
	if err := s.ready(ctx); err != nil {
		return page, err
	}
	args := append(timeArgs(filter.From, filter.To), cursor...)
	args = append(args, arg("tenant", tenant), arg("agent", filter.Agent), arg("tool", filter.Tool), arg("limit", int64(limit)+1))
	err = s.query(ctx, "list sessions", sessionsSQL, args, func(rows driver.Rows) error {
		sum, err := scanSummary(rows)
		page.Items = append(page.Items, sum)
		return err
	})
	if err != nil {
		return store.Page[ingest.SessionSummary]{}, err
	}
	if len(page.Items) > limit {
		page.Items = page.Items[:limit]
		last := page.Items[limit-1]
		page.Next = store.Position{Start: last.Start, ID: last.ID}.Cursor()
	}
	return page, nil
}

func scanSummary(rows driver.Rows) (ingest.SessionSummary, error) {
	var sum ingest.SessionSummary
	var hasStart, hasEnd uint8
	var start, end, calls, errors, repeats, turns, conflicts, duration int64
	err := rows.Scan(
		&sum.ID, &hasStart, &start, &hasEnd, &end, &sum.Agents, &sum.Sources, &calls, &errors, &repeats,
		&turns, &conflicts, &sum.LLM.Calls, &sum.LLM.InputTokens, &sum.LLM.OutputTokens, &sum.LLM.CachedTokens, &sum.LLM.CallsWithTokens,
		&sum.LLM.CostUSD, &sum.LLM.CallsWithCost, &duration, &sum.LLM.CallsWithDuration)
	sum.Start, sum.End = instant(hasStart == 1, start), instant(hasEnd == 1, end)
	sum.ToolCalls, sum.Errors, sum.Repeats, sum.UserTurns, sum.Conflicts = int(calls), int(errors), int(repeats), int(turns), int(conflicts)
	sum.LLM.Duration = time.Duration(duration)
	if len(sum.Agents) == 0 {
		sum.Agents = nil
	}
	if len(sum.Sources) == 0 {
		sum.Sources = nil
	}
	return sum, err
}

// cursorArgs are the parameters that continue a list after a page.
func cursorArgs(cursor string) ([]any, error) {
	var after store.Position
	paged := uint8(0)
	if cursor != "" {
		var err error
		if after, err = store.ParseCursor(cursor); err != nil {
			return nil, err
		}
		paged = 1
	}
	return []any{
		arg("paged", paged), arg("after_known", bit(!after.Start.IsZero())),
		arg("after", stored(after.Start).UnixNano()), arg("after_id", after.ID),
	}, nil
}
