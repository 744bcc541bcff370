-- +goose Up

-- Sums by day read this index alone, and not the sessions with their summaries. The planner prefers it to sessions_start
-- only where it covers the query.
CREATE INDEX sessions_sums ON sessions (tenant, start, tool_calls, llm_calls);
