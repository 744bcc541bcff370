package governance

import (
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"pave/flows"
	"pave/governance/store"
	eventstore "pave/ingest/store"
)

// ReportKind is a report by UTC day.
type ReportKind string

const (
	ReportSavings     ReportKind = "savings-by-day"
	ReportCoverage    ReportKind = "coverage"
	ReportDrift       ReportKind = "drift"
	ReportReliability ReportKind = "reliability"
	ReportAdoption    ReportKind = "adoption"
	ReportAgents      ReportKind = "adoption-by-agent"
)

// ReportKinds lists them.
var ReportKinds = []ReportKind{ReportSavings, ReportCoverage, ReportDrift, ReportReliability, ReportAdoption, ReportAgents}

// Report is a table: one row for each day, or for each day and flow version, that has something to say, in order.
// The cells of a row are as Columns say: day (YYYY-MM-DD), flow and version are strings, the others int64 or float64.
//
//   - savings-by-day: runs, llm_calls_avoided, tokens_avoided, cost_usd_avoided, latency_ms_avoided (measured means of the
//     replaced stretches times the runs), run_time_ms.
//   - coverage: sessions, tool_calls and llm_calls recorded; walked_calls are those that agents made by hand on the paths of
//     the flows that were offered to them, flow_steps those that flows made; coverage is both as a share of tool_calls, realised the second.
//   - drift: walks by hand, exact ones, conformance (exact / walks), taken_out: times that the version was sent to
//     needs_review because a tool changed or it did not hold.
//   - reliability: runs, succeeded, failed, handed_back, denied, failure_rate (failed / runs that were not denied),
//     mean_duration_ms.
//   - adoption: runs, walks by hand that the version could have replaced, because it was the one offered then, adoption
//     (runs / both).
//   - adoption-by-agent: of each agent, as its telemetry names it: flow_calls that its telemetry has, such walks by hand,
//     adoption (flow_calls / both). Calls by agents that send no telemetry are in none of its rows.
type Report struct {
	Kind     ReportKind
	From, To time.Time // zero: open
	Columns  []string
	Rows     [][]any
}

// Series are the sums by day that reports take from the event store.
type Series interface {
	eventstore.Series
}

// dayKey is a row's key.
type dayKey struct {
	day           int64
	flow, version string
}

// Report makes a report over [from, to), days of UTC; zero times leave a side open.
func (s *Service) Report(ctx context.Context, actor Actor, kind ReportKind, from, to time.Time) (*Report, error) {
	series, ok := s.stats.(Series)
	if !ok {
		return nil, flows.NewError(flows.CodeUnavailable, "no event store is open, so there is nothing to report")
	}
	if !slices.Contains(ReportKinds, kind) {
		return nil, flows.NewError(flows.CodeInvalid, fmt.Sprintf("report %q: use one of %v", kind, ReportKinds),
			flows.ErrorDetail{Pointer: "kind", Code: "invalid", Detail: fmt.Sprint(ReportKinds)})
	}
	data := &reportData{}
	err := s.view(ctx, actor, ActionRead, func(r *store.Reader, tenant string, _ Policy) (err error) {
		first, last := dayBounds(from, to)
		if kind == ReportAgents {
			data.agents, err = r.AgentDays(tenant, first, last)
			return err
		}
		if data.walks, err = r.FlowDays(tenant, first, last); err != nil {
			return err
		}
		if kind == ReportDrift {
			data.taken, err = takenOut(r, tenant, from, to)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if kind != ReportAgents && kind != ReportDrift {
		data.runs, err = series.RunDays(ctx, tenantOf(actor), from, to)
	}
	if err == nil && kind == ReportCoverage {
		data.sessions, err = series.SessionDays(ctx, tenantOf(actor), from, to)
	}
	if errors.Is(err, eventstore.ErrUnavailable) {
		return nil, &flows.Error{Code: flows.CodeUnavailable, Message: "the event store does not answer now; retry later", Err: err}
	}
	if err != nil {
		return nil, err
	}
	report := &Report{Kind: kind, From: from, To: to}
	report.Columns, report.Rows = data.table(kind)
	return report, nil
}

const secondsOfDay = 24 * 60 * 60

// dayBounds are the days of [from, to).
func dayBounds(from, to time.Time) (first, last int64) {
	first, last = 0, 1<<40
	if !from.IsZero() {
		first = from.Unix() / secondsOfDay
	}
	if !to.IsZero() {
		last = (to.Unix() + secondsOfDay - 1) / secondsOfDay
	}
	return first, last
}

// takenOut counts by day how often a version was sent to needs_review by pave itself.
func takenOut(r *store.Reader, tenant string, from, to time.Time) (map[dayKey]int64, error) {
	events, err := r.AuditOf(tenant, []string{"flow.drift", "flow.watch"}, from, to)
	if err != nil {
		return nil, err
	}
	out := map[dayKey]int64{}
	for _, e := range events {
		name, version, _ := strings.Cut(strings.TrimPrefix(e.Object, "flow/"), "@")
		out[dayKey{e.At.Unix() / secondsOfDay, name, version}]++
	}
	return out, nil
}

// reportData is what the reports are made of.
type reportData struct {
	walks    []store.FlowDayRow
	agents   []store.AgentDayRow
	runs     []eventstore.RunDay
	sessions []eventstore.SessionDay
	taken    map[dayKey]int64
}

func (d *reportData) table(kind ReportKind) (columns []string, rows [][]any) {
	switch kind {
	case ReportCoverage:
		return d.coverage()
	case ReportDrift, ReportAdoption:
		return d.byHand(kind)
	case ReportAgents:
		return d.byAgent()
	}
	columns = []string{"day", "flow", "version", "runs", "succeeded", "failed", "handed_back", "denied", "failure_rate", "mean_duration_ms"}
	if kind == ReportSavings {
		columns = []string{"day", "flow", "version", "runs", "llm_calls_avoided", "tokens_avoided", "cost_usd_avoided", "latency_ms_avoided", "run_time_ms"}
	}
	for i := range d.runs {
		r := &d.runs[i]
		row := []any{dayText(r.Day), r.Flow, r.Version, r.Runs}
		if kind == ReportSavings {
			row = append(row, r.LLMCallsAvoided, r.TokensAvoided, r.CostAvoidedUSD, millis(r.LatencyAvoided), millis(r.SumDuration))
		} else {
			row = append(row, r.Succeeded, r.Failed, r.HandedBack, r.Denied, share(r.Failed, r.Runs-r.Denied), millis(r.SumDuration)/float64(r.Runs))
		}
		rows = append(rows, row)
	}
	return columns, rows
}

// coverage has one row for each day.
func (d *reportData) coverage() (columns []string, rows [][]any) {
	walked, steps := map[int64]int64{}, map[int64]int64{}
	for _, w := range d.walks {
		walked[w.Day] += w.Calls
	}
	for i := range d.runs {
		steps[d.runs[i].Day] += d.runs[i].StepsDone
	}
	columns = []string{"day", "sessions", "tool_calls", "llm_calls", "walked_calls", "flow_steps", "coverage", "realised"}
	for _, s := range d.sessions {
		both := min(walked[s.Day]+steps[s.Day], s.ToolCalls)
		rows = append(rows, []any{dayText(s.Day), s.Sessions, s.ToolCalls, s.LLMCalls, walked[s.Day], steps[s.Day],
			share(both, s.ToolCalls), share(min(steps[s.Day], s.ToolCalls), s.ToolCalls)})
	}
	return columns, rows
}

// byHand has one row for each day and flow version that agents walked, ran, or that was taken out.
func (d *reportData) byHand(kind ReportKind) (columns []string, rows [][]any) {
	type counts struct{ walks, exact, runs, taken int64 }
	all := map[dayKey]counts{}
	for _, w := range d.walks {
		c := counts{walks: w.Walks, exact: w.Exact}
		if kind == ReportAdoption {
			c.walks = w.Missed
		}
		if c.walks > 0 {
			all[dayKey{w.Day, w.Flow, w.Version}] = c
		}
	}
	for i := range d.runs { // of adoption only
		key := dayKey{d.runs[i].Day, d.runs[i].Flow, d.runs[i].Version}
		c := all[key]
		c.runs = d.runs[i].Runs
		all[key] = c
	}
	for key, n := range d.taken {
		c := all[key]
		c.taken = n
		all[key] = c
	}
	keys := make([]dayKey, 0, len(all))
	for key := range all {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b dayKey) int {
		return cmp.Or(cmp.Compare(a.day, b.day), cmp.Compare(a.flow, b.flow), cmp.Compare(a.version, b.version))
	})
	columns = []string{"day", "flow", "version", "runs", "walks", "adoption"}
	if kind == ReportDrift {
		columns = []string{"day", "flow", "version", "walks", "exact", "conformance", "taken_out"}
	}
	for _, key := range keys {
		c := all[key]
		row := []any{dayText(key.day), key.flow, key.version}
		if kind == ReportDrift {
			row = append(row, c.walks, c.exact, share(c.exact, c.walks), c.taken)
		} else {
			row = append(row, c.runs, c.walks, share(c.runs, c.runs+c.walks))
		}
		rows = append(rows, row)
	}
	return columns, rows
}

// byAgent has one row for each day, flow version and agent.
func (d *reportData) byAgent() (columns []string, rows [][]any) {
	columns = []string{"day", "flow", "version", "agent", "flow_calls", "walks", "adoption"}
	for _, a := range d.agents {
		rows = append(rows, []any{dayText(a.Day), a.Flow, a.Version, a.Agent, a.FlowCalls, a.Walks, share(a.FlowCalls, a.FlowCalls+a.Walks)})
	}
	return columns, rows
}

func dayText(day int64) string { return time.Unix(day*secondsOfDay, 0).UTC().Format(time.DateOnly) }

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// share is a part of a whole, 0 of nothing.
func share(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// WriteCSV writes the report with a line of column names. A text that a spreadsheet would take for a formula is quoted
// by an apostrophe.
func (r *Report) WriteCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	if err := out.Write(r.Columns); err != nil {
		return err
	}
	line := make([]string, len(r.Columns))
	for _, row := range r.Rows {
		for i, cell := range row {
			switch v := cell.(type) {
			case string:
				line[i] = v
				if v != "" && strings.ContainsRune("=+-@\t\r", rune(v[0])) {
					line[i] = "'" + v
				}
			case int64:
				line[i] = strconv.FormatInt(v, 10)
			case float64:
				line[i] = strconv.FormatFloat(v, 'f', -1, 64)
			}
		}
		if err := out.Write(line); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}
