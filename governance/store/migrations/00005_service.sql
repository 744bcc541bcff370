-- +goose Up

-- First answers to requests with an Idempotency-Key; status 0 while the first request is at work.
CREATE TABLE kept_answers (
    tenant     TEXT    NOT NULL,
    principal  TEXT    NOT NULL,
    operation  TEXT    NOT NULL,
    key        TEXT    NOT NULL,
    body_hash  TEXT    NOT NULL,
    status     INTEGER NOT NULL,
    headers    BLOB    NOT NULL,
    body       BLOB    NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, principal, operation, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX kept_answers_age ON kept_answers (created_at);

CREATE TABLE webhooks (
    tenant     TEXT    NOT NULL,
    id         TEXT    NOT NULL,
    revision   INTEGER NOT NULL,
    url        TEXT    NOT NULL,
    events     TEXT    NOT NULL, -- joined by spaces, '' for all
    secret     TEXT    NOT NULL,
    state      TEXT    NOT NULL, -- active, paused, disabled
    reason     TEXT    NOT NULL, -- why it is disabled
    failing    INTEGER NOT NULL, -- since when every attempt failed, 0 when the last one did not
    created_by TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;

-- The outbox: one row per event and webhook, written with the change that it tells of.
CREATE TABLE deliveries (
    tenant   TEXT    NOT NULL,
    id       TEXT    NOT NULL,
    webhook  TEXT    NOT NULL,
    event    TEXT    NOT NULL,
    body     BLOB    NOT NULL,
    state    TEXT    NOT NULL, -- pending, delivered, failed
    attempts INTEGER NOT NULL,
    next_at  INTEGER NOT NULL,
    last_at  INTEGER NOT NULL,
    status   INTEGER NOT NULL, -- HTTP status of the last attempt, 0 when there was no answer
    error    TEXT    NOT NULL,
    at       INTEGER NOT NULL,
    PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX deliveries_due ON deliveries (next_at) WHERE state = 'pending';
CREATE INDEX deliveries_log ON deliveries (tenant, webhook, at, id);
