-- +goose Up

-- The rows of a page of the queue are chosen from this index, and only these are read with their bodies.
DROP INDEX proposals_state;
CREATE INDEX proposals_queue ON proposals (tenant, state, source, assignee, rank, score, created_at, updated_at, savings);

-- One index of states serves every list by state; the two before were for one state each.
DROP INDEX runs_live;
DROP INDEX runs_waiting;
CREATE INDEX runs_state ON runs (tenant, state, started_at);

-- What the planner believes of tables that it has no statistics of is that a tenant has ten rows; then it reads all rows of a
-- tenant where an index leads to one. So it is told how an installation looks after a year: one tenant, many rows.
ANALYZE goose_db_version;
DELETE FROM sqlite_stat1;
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('proposals', 'proposals', '10000 10000 1'),
    ('proposals', 'proposals_queue', '10000 10000 1000 500 100 1 1 1 1 1'),
    ('proposals', 'proposals_name', '10000 10000 1'),
    ('proposals', 'proposals_pattern', '10000 10000 1 1'),
    ('runs', 'runs', '100000 100000 1'),
    ('runs', 'runs_time', '100000 100000 1 1'),
    ('runs', 'runs_flow', '100000 100000 1000 1'),
    ('runs', 'runs_state', '100000 100000 10000 1'),
    ('runs', 'runs_trace', '100000 100000 1'),
    ('runs', 'runs_pending', '10 10 1'),
    ('runs', 'runs_sums', '100000 100000 50000 1 1 1 1'),
    ('audit_events', 'audit_events', '100000 100000 1'),
    ('audit_events', 'audit_events_action', '100000 100000 2000 1'),
    ('mining_runs', 'mining_runs', '1000 1000 1'),
    ('mining_runs', 'mining_runs_time', '1000 1000 1 1'),
    ('flow_pins', 'flow_pins', '1000 1000 5 3 1'),
    ('flow_pins', 'flow_pins_tool', '1000 1000 20'),
    ('deliveries', 'deliveries', '10000 10000 1'),
    ('deliveries', 'deliveries_log', '10000 10000 1000 1 1'),
    ('deliveries', 'deliveries_due', '10 1');
ANALYZE sqlite_schema;
