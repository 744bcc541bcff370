-- +goose Up

-- The trace that a run belongs to, by which the runs of a session are found; '' when it is not known.
ALTER TABLE runs ADD COLUMN trace_id TEXT NOT NULL DEFAULT '';
UPDATE runs SET trace_id = coalesce(json_extract(CAST(body AS TEXT), '$.Result.trace_id'), '') WHERE json_valid(CAST(body AS TEXT));
CREATE INDEX runs_trace ON runs (tenant, trace_id) WHERE trace_id <> '';
