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

// Versions of sessions.summary, its first byte: the first had every field and the start.
const (
	summaryFull    = 1
	summaryVersion = 2
)

// Bits of a summary's fields that are there; those of summaryNumbers are below.
const (
	bitStart = 1 << (iota + numSummaryNumbers) // start is not what its column says
	bitEnd
	bitCostSum
)

const numSummaryNumbers = 11

// summaryNumbers are the numbers of a summary in the order of their bits.
func summaryNumbers(s *ingest.SessionSummary) [numSummaryNumbers]int64 {
	l := &s.LLM
	return [...]int64{
		int64(s.Errors), int64(s.Repeats), int64(s.UserTurns), int64(s.Conflicts), l.InputTokens, l.OutputTokens, l.CachedTokens,
		l.CallsWithTokens, l.CallsWithCost, int64(l.Duration), l.CallsWithDuration,
	}
}

func setSummaryNumbers(s *ingest.SessionSummary, n [numSummaryNumbers]int64) {
	s.Errors, s.Repeats, s.UserTurns, s.Conflicts = int(n[0]), int(n[1]), int(n[2]), int(n[3])
	l := &s.LLM
	l.InputTokens, l.OutputTokens, l.CachedTokens, l.CallsWithTokens, l.CallsWithCost = n[4], n[5], n[6], n[7], n[8]
	l.Duration, l.CallsWithDuration = time.Duration(n[9]), n[10]
}

// summary encodes what is not in columns: which fields are there, and those, the end as the distance from the start.
func (e *encoder) summary(s *ingest.SessionSummary, sources []uint32) {
	e.byte(summaryVersion)
	numbers := summaryNumbers(s)
	var bits uint64
	for i, n := range numbers {
		if n != 0 {
			bits |= 1 << i
		}
	}
	if !inColumn(s.Start) {
		bits |= bitStart
	}
	if !s.End.IsZero() {
		bits |= bitEnd
	}
	if s.LLM.CostUSD != 0 {
		bits |= bitCostSum
	}
	e.uint(bits)
	for _, n := range numbers {
		if n != 0 {
			e.int(n)
		}
	}
	if bits&bitStart != 0 {
		e.time(s.Start, 0)
	}
	if bits&bitEnd != 0 {
		e.time(s.End, s.Start.Unix())
	}
	if bits&bitCostSum != 0 {
		e.float(s.LLM.CostUSD)
	}
	e.uint(uint64(len(sources)))
	for _, id := range sources {
		e.uint(uint64(id))
	}
}

// decodeSummary fills s from a summary and the start of its column.
func decodeSummary(data []byte, start int64, s *ingest.SessionSummary, sources []string) error {
	d := decoder{b: data}
	switch d.byte() {
	case summaryFull:
		d.summaryFull(s)
	case summaryVersion:
		d.summary(start, s)
	default:
		return errDamaged
	}
	for range d.count() {
		id := d.uint()
		if id >= uint64(len(sources)) {
			return errDamaged
		}
		s.Sources = append(s.Sources, sources[id])
	}
	return d.err
}

func (d *decoder) summary(start int64, s *ingest.SessionSummary) {
	bits := d.uint()
	var numbers [numSummaryNumbers]int64
	for i := range numbers {
		if bits&(1<<i) != 0 {
			numbers[i] = d.int()
		}
	}
	setSummaryNumbers(s, numbers)
	s.Start = instant(start)
	if bits&bitStart != 0 {
		s.Start = d.time(0)
	}
	if bits&bitEnd != 0 {
		s.End = d.time(s.Start.Unix())
	}
	if bits&bitCostSum != 0 {
		s.LLM.CostUSD = d.float()
	}
}

// summaryFull reads the fields of the first version.
func (d *decoder) summaryFull(s *ingest.SessionSummary) {
	s.Start, s.End = d.time(0), d.time(0)
	var numbers [numSummaryNumbers]int64
	for i := range numbers {
		numbers[i] = d.int()
	}
	setSummaryNumbers(s, numbers)
	s.LLM.CostUSD = d.float()
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
	return p.writer.sessions.add(ctx, id, p.tenant, nanos(sum.Start), sum.ToolCalls, sum.LLM.Calls,
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
	limit, after, err := pageBounds(filter.Limit, filter.Cursor)
	if err != nil {
		return page, err
	}
	args = append([]any{tenant}, args...)
	err = s.snapshot(ctx, "list sessions of", func(tx *sql.Tx) error {
		if after != nil {
			id, err := findSession(ctx, tx, tenant, after.ID)
			if err != nil {
				return err
			}
			more, moreArgs := following(after.Start, "session", id)
			where, args = where+more, append(args, moreArgs...)
		}
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
		rows, err := tx.QueryContext(ctx, `SELECT (SELECT name FROM names WHERE id = session), start, tool_calls, llm_calls, agents, summary
			FROM sessions WHERE tenant = `+tenantID+where+" ORDER BY start DESC, session LIMIT :limit", append(args, sql.Named("limit", limit+1))...)
		if err != nil {
			return err
		}
		defer rows.Close()
		page, err = readSummaries(ctx, tx, tenant, rows, limit)
		return err
	})
	return page, err
}

// findSession gives the id of a session, 0 when it is unknown.
func findSession(ctx context.Context, tx *sql.Tx, tenant, name string) (id int64, err error) {
	err = tx.QueryRowContext(ctx, selectName, tenant, hash(name), name).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return id, err
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
		if err := decodeSummary(data, start, &sum, sources); err != nil {
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

// pageBounds gives the page size and where the page before ended, nil at the first page.
func pageBounds(limit int, cursor string) (int, *store.Position, error) {
	if limit <= 0 {
		limit = store.DefaultLimit
	}
	if cursor == "" {
		return limit, nil, nil
	}
	after, err := store.ParseCursor(cursor)
	return limit, &after, err
}

// following is the SQL, with its parameters, that goes on after a start and an id in the order (start DESC, column).
func following(start time.Time, column string, id any) (string, []any) {
	return " AND start <= :after AND (start < :after OR " + column + " > :after_id)",
		[]any{sql.Named("after", nanos(start)), sql.Named("after_id", id)}
}
