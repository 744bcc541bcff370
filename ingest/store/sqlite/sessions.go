package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"pave/ingest"
	"pave/ingest/store"
)

// summaryVersion is the first byte of sessions.summary.
const summaryVersion = 1

// summary encodes what is not in columns.
func (e *encoder) summary(s *ingest.SessionSummary, sources []uint32) {
	e.byte(summaryVersion)
	e.time(s.Start, 0)
	e.time(s.End, 0)
	for _, n := range [...]int{s.Errors, s.Repeats, s.UserTurns, s.Conflicts} {
		e.int(int64(n))
	}
	l := &s.LLM
	for _, n := range [...]int64{
		l.InputTokens, l.OutputTokens, l.CachedTokens, l.CallsWithTokens, l.CallsWithCost, int64(l.Duration), l.CallsWithDuration,
	} {
		e.int(n)
	}
	e.float(l.CostUSD)
	e.uint(uint64(len(sources)))
	for _, id := range sources {
		e.uint(uint64(id))
	}
}

func decodeSummary(data []byte, s *ingest.SessionSummary, sources []string) error {
	d := decoder{b: data}
	if d.byte() != summaryVersion {
		return errDamaged
	}
	s.Start, s.End = d.time(0), d.time(0)
	for _, n := range [...]*int{&s.Errors, &s.Repeats, &s.UserTurns, &s.Conflicts} {
		*n = int(d.int())
	}
	l := &s.LLM
	for _, n := range [...]*int64{&l.InputTokens, &l.OutputTokens, &l.CachedTokens, &l.CallsWithTokens, &l.CallsWithCost} {
		*n = d.int()
	}
	l.Duration, l.CallsWithDuration = time.Duration(d.int()), d.int()
	l.CostUSD = d.float()
	for range d.count() {
		id := d.uint()
		if id >= uint64(len(sources)) {
			return errDamaged
		}
		s.Sources = append(s.Sources, sources[id])
	}
	return d.err
}

// PutSessions replaces derived rows in one transaction; see store.Store.
func (s *Store) PutSessions(ctx context.Context, tenant string, rows []store.SessionRow) error {
	if len(rows) == 0 {
		return nil
	}
	return s.wrap("put sessions into", s.w.transaction(ctx, func(ctx context.Context) error {
		id, err := s.w.tenant(ctx, tenant)
		if err != nil {
			return err
		}
		p := sessionPutter{writer: s.w, tenant: id}
		return p.put(ctx, rows)
	}))
}

// sessionPutter replaces sessions inside a transaction.
type sessionPutter struct {
	*writer
	tenant                 int64
	tools, agents, sources *dictionary
	sessions, calls, llm   int64 // change of the tenant's counters
}

func (p *sessionPutter) put(ctx context.Context, rows []store.SessionRow) error {
	for kind, d := range map[wordKind]**dictionary{wordTool: &p.tools, wordAgent: &p.agents, wordSource: &p.sources} {
		var err error
		if *d, err = p.dictionary(ctx, p.tenant, kind); err != nil {
			return err
		}
	}
	// The old rows go first, so that the new ones can be written many at a time.
	last := make(map[int64]*store.SessionRow, len(rows))
	for i := range rows {
		id, _, err := p.name(ctx, nameKey{p.tenant, rows[i].ID})
		if err != nil {
			return err
		}
		if last[id] == nil {
			if err := p.drop(ctx, id); err != nil {
				return err
			}
		}
		if _, err := p.clean.ExecContext(ctx, id, rows[i].Watermark); err != nil {
			return err
		}
		last[id] = &rows[i]
	}
	ids := make([]int64, 0, len(last))
	for id := range last {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		if err := p.add(ctx, id, last[id]); err != nil {
			return err
		}
	}
	for _, bulk := range []*bulk{p.names, p.words, p.writer.sessions, p.sequences} {
		if err := bulk.flush(ctx); err != nil {
			return err
		}
	}
	_, err := p.count.ExecContext(ctx, 0, 0, p.sessions, p.calls, p.llm, p.tenant)
	return err
}

// drop removes the derived rows of a session.
func (p *sessionPutter) drop(ctx context.Context, id int64) error {
	var calls, llm int64
	err := p.dropSession.QueryRowContext(ctx, id).Scan(&calls, &llm)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	p.sessions--
	p.calls -= calls
	p.llm -= llm
	_, err = p.dropSequences.ExecContext(ctx, p.tenant, id)
	return err
}

// add queues the rows of a session that has something in it.
func (p *sessionPutter) add(ctx context.Context, id int64, row *store.SessionRow) error {
	sum := &row.Summary
	if sum.ToolCalls == 0 && sum.LLM.Calls == 0 && sum.UserTurns == 0 {
		return nil
	}
	var used []uint32
	for i := range row.Sequences {
		seq := &row.Sequences[i]
		agent, err := p.word(ctx, p.agents, seq.Agent)
		if err != nil {
			return err
		}
		tools, err := p.ids(ctx, p.tools, seq.Tools)
		if err != nil {
			return err
		}
		var e encoder
		e.sequence(seq, agent, tools)
		if err := p.sequences.add(ctx, p.tenant, id, seq.RunIndex, nanos(seq.Start), e.b); err != nil {
			return err
		}
		used = append(used, tools...)
	}
	slices.Sort(used)
	agents, err := p.ids(ctx, p.agents, sum.Agents)
	if err != nil {
		return err
	}
	sources, err := p.ids(ctx, p.sources, sum.Sources)
	if err != nil {
		return err
	}
	var e encoder
	e.summary(sum, sources)
	p.sessions++
	p.calls += int64(sum.ToolCalls)
	p.llm += sum.LLM.Calls
	return p.writer.sessions.add(ctx, id, p.tenant, row.ID, nanos(sum.Start), sum.ToolCalls, sum.LLM.Calls,
		wordSet(slices.Compact(used)), wordSet(agents), e.b)
}

func (p *sessionPutter) ids(ctx context.Context, d *dictionary, words []string) ([]uint32, error) {
	ids := make([]uint32, len(words))
	for i, word := range words {
		var err error
		if ids[i], err = p.word(ctx, d, word); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// Sessions pages through summaries; see store.Store.
func (s *Store) Sessions(ctx context.Context, tenant string, filter store.SessionFilter) (store.Page[ingest.SessionSummary], error) {
	var page store.Page[ingest.SessionSummary]
	where, args := timeRange(store.SequenceFilter{From: filter.From, To: filter.To})
	limit, after, afterArgs, err := pageBounds(filter.Limit, filter.Cursor, "name")
	if err != nil {
		return page, err
	}
	args = append(append([]any{tenant}, args...), afterArgs...)
	err = s.snapshot(ctx, "list sessions of", func(tx *sql.Tx) error {
		for _, member := range []struct {
			kind   wordKind
			word   string
			column string
		}{{wordTool, filter.Tool, "tools"}, {wordAgent, filter.Agent, "agents"}} {
			if member.word == "" {
				continue
			}
			id, ok, err := findWord(ctx, tx, tenant, member.kind, member.word)
			if err != nil || !ok {
				return err
			}
			where += " AND instr(" + member.column + ", :" + member.column + ") > 0"
			args = append(args, sql.Named(member.column, appendToSet(nil, id)))
		}
		rows, err := tx.QueryContext(ctx, "SELECT name, start, tool_calls, llm_calls, agents, summary FROM sessions WHERE tenant = "+tenantID+
			where+after+" ORDER BY start DESC, name LIMIT :limit", append(args, sql.Named("limit", limit+1))...)
		if err != nil {
			return err
		}
		defer rows.Close()
		page, err = readSummaries(ctx, tx, tenant, rows, limit)
		return err
	})
	return page, err
}

func readSummaries(ctx context.Context, tx *sql.Tx, tenant string, rows *sql.Rows, limit int) (page store.Page[ingest.SessionSummary], err error) {
	agents, err := readWords(ctx, tx, tenant, wordAgent)
	if err != nil {
		return page, err
	}
	sources, err := readWords(ctx, tx, tenant, wordSource)
	if err != nil {
		return page, err
	}
	var last store.Position
	for rows.Next() {
		if len(page.Items) == limit {
			page.Next = last.Cursor()
			break
		}
		var sum ingest.SessionSummary
		var start int64
		var agentSet, data sql.RawBytes
		if err := rows.Scan(&sum.ID, &start, &sum.ToolCalls, &sum.LLM.Calls, &agentSet, &data); err != nil {
			return page, err
		}
		if err := decodeSummary(data, &sum, sources); err != nil {
			return page, err
		}
		for _, id := range members(agentSet) {
			if int(id) >= len(agents) {
				return page, errDamaged
			}
			sum.Agents = append(sum.Agents, agents[id])
		}
		page.Items = append(page.Items, sum)
		last = store.Position{Start: instant(start), ID: sum.ID}
	}
	return page, rows.Err()
}

// pageBounds gives the page size and the SQL, with its parameters, that goes on after the cursor in the order
// (start DESC, id column).
func pageBounds(limit int, cursor, id string) (int, string, []any, error) {
	if limit <= 0 {
		limit = store.DefaultLimit
	}
	if cursor == "" {
		return limit, "", nil, nil
	}
	after, err := store.ParseCursor(cursor)
	if err != nil {
		return 0, "", nil, err
	}
	return limit, " AND start <= :after AND (start < :after OR " + id + " > :after_id)",
		[]any{sql.Named("after", nanos(after.Start)), sql.Named("after_id", after.ID)}, nil
}
