-- +goose Up

-- Since when a flow version has its status; 0 is since its promotion.
ALTER TABLE flow_versions ADD COLUMN status_at INTEGER NOT NULL DEFAULT 0;

-- What agents still did by hand of the path of a flow version, by UTC day.
CREATE TABLE flow_days (
    tenant  TEXT    NOT NULL,
    flow    TEXT    NOT NULL,
    version TEXT    NOT NULL,
    day     INTEGER NOT NULL, -- since 1970
    walks   INTEGER NOT NULL,
    exact   INTEGER NOT NULL,
    calls   INTEGER NOT NULL,
    PRIMARY KEY (tenant, flow, version, day)
) STRICT, WITHOUT ROWID;
CREATE INDEX flow_days_day ON flow_days (tenant, day);
