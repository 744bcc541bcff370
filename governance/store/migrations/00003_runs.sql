-- +goose Up

-- What a decision on a run is made against.
ALTER TABLE runs ADD COLUMN revision INTEGER NOT NULL DEFAULT 1;
CREATE INDEX runs_waiting ON runs (tenant, started_at) WHERE state = 'awaiting_approval';

-- Where a run can go on: how it began, and how far it came. Both are encrypted.
CREATE TABLE run_checkpoints (
    tenant     TEXT    NOT NULL,
    run_id     TEXT    NOT NULL,
    begun      BLOB    NOT NULL,
    reached    BLOB,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, run_id)
) STRICT;
CREATE INDEX run_checkpoints_expiry ON run_checkpoints (expires_at) WHERE expires_at > 0;

-- Calls that wait, or waited, for a person.
CREATE TABLE run_approvals (
    tenant       TEXT    NOT NULL,
    run_id       TEXT    NOT NULL,
    step         TEXT    NOT NULL,
    decision     TEXT    NOT NULL,
    requested_at INTEGER NOT NULL,
    expires_at   INTEGER NOT NULL,
    decided_at   INTEGER NOT NULL,
    decided_by   TEXT    NOT NULL,
    reason       TEXT    NOT NULL,
    inputs_mac   BLOB    NOT NULL,
    body         BLOB    NOT NULL,
    PRIMARY KEY (tenant, run_id, step)
) STRICT, WITHOUT ROWID;
CREATE INDEX run_approvals_pending ON run_approvals (tenant, expires_at) WHERE decision = 'pending';
