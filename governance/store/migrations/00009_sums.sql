-- +goose Up

-- Reports sum runs, walks and audit events of a year: each reads one index and no bodies.
CREATE INDEX runs_sums ON runs (tenant, dry_run, started_at, flow, version, steps_saved);
DROP INDEX flow_days_day;
CREATE INDEX flow_days_sums ON flow_days (tenant, day, flow, version, walks, exact, calls);
CREATE INDEX audit_events_action ON audit_events (tenant, action, at);
