package store

import "time"

// FlowDayRow counts walks of the path of a flow version that agents made themselves on one UTC day (days since 1970). Missed
// are those that the version could have replaced, because it was the one offered; Calls are the tool calls in these.
type FlowDayRow struct {
	Flow, Version               string
	Day                         int64
	Walks, Exact, Missed, Calls int64
}

// AddFlowDay adds counts to a day.
func (tx *Tx) AddFlowDay(tenant string, d FlowDayRow) error {
	_, err := tx.exec(`INSERT INTO flow_days (tenant, flow, version, day, walks, exact, missed, calls) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (tenant, flow, version, day) DO UPDATE SET walks = walks + excluded.walks, exact = exact + excluded.exact,
		missed = missed + excluded.missed, calls = calls + excluded.calls`, tenant, d.Flow, d.Version, d.Day, d.Walks, d.Exact, d.Missed, d.Calls)
	return err
}

// FlowDays lists the counts of days in [from, to), by day, flow and version.
func (r *Reader) FlowDays(tenant string, from, to int64) ([]FlowDayRow, error) {
	return collect(r, func(s scanner) (d FlowDayRow, err error) {
		err = s.Scan(&d.Flow, &d.Version, &d.Day, &d.Walks, &d.Exact, &d.Missed, &d.Calls)
		return d, err
	}, `SELECT flow, version, day, walks, exact, missed, calls FROM flow_days WHERE tenant = ? AND day >= ? AND day < ? ORDER BY day, flow, version`,
		tenant, from, to)
}

// AgentDayRow counts what an agent did on the path of a flow version on one UTC day (days since 1970): walks by hand and
// calls of the flow.
type AgentDayRow struct {
	Flow, Version, Agent string
	Day                  int64
	Walks, FlowCalls     int64
}

// AddAgentDay adds counts to an agent's day.
func (tx *Tx) AddAgentDay(tenant string, d AgentDayRow) error {
	_, err := tx.exec(`INSERT INTO flow_agent_days (tenant, flow, version, day, agent, walks, flow_calls) VALUES (?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (tenant, flow, version, day, agent) DO UPDATE SET walks = walks + excluded.walks, flow_calls = flow_calls + excluded.flow_calls`,
		tenant, d.Flow, d.Version, d.Day, d.Agent, d.Walks, d.FlowCalls)
	return err
}

// AgentDays lists the counts of days in [from, to), by day, flow, version and agent.
func (r *Reader) AgentDays(tenant string, from, to int64) ([]AgentDayRow, error) {
	return collect(r, func(s scanner) (d AgentDayRow, err error) {
		err = s.Scan(&d.Flow, &d.Version, &d.Day, &d.Agent, &d.Walks, &d.FlowCalls)
		return d, err
	}, `SELECT flow, version, day, agent, walks, flow_calls FROM flow_agent_days WHERE tenant = ? AND day >= ? AND day < ?
		ORDER BY day, flow, version, agent`, tenant, from, to)
}

// RunTail counts the last n finished runs of a flow version that started after a time, dry runs and those in the state aside
// apart: how many there are and how many of them failed; last is the newest start of all, zero when there is none.
func (r *Reader) RunTail(tenant, flow, version, failed, aside string, since time.Time, n int) (runs, failures int, last time.Time, err error) {
	const finished = `FROM runs WHERE tenant = ? AND flow = ? AND version = ? AND started_at > ? AND ended_at > 0 AND dry_run = 0`
	var at int64
	of := []any{tenant, flow, version, micros(since)}
	args := append(append([]any{failed}, of...), of...)
	err = r.row(`SELECT count(*), coalesce(sum(state = ?), 0), coalesce((SELECT max(started_at) `+finished+`), 0)
		FROM (SELECT state `+finished+` AND state <> ? ORDER BY started_at DESC LIMIT ?)`, append(args, aside, n), &runs, &failures, &at)
	return runs, failures, fromMicros(at), err
}

// DropShadow forgets what an object predicted.
func (tx *Tx) DropShadow(tenant, object string) error {
	_, err := tx.exec(`DELETE FROM shadows WHERE tenant = ? AND object = ?`, tenant, object)
	return err
}
