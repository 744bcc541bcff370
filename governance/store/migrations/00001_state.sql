-- +goose Up

-- One row per tool and kind of knowledge: inferred definitions never touch declared ones.
CREATE TABLE tools (
    tenant            TEXT    NOT NULL,
    name              TEXT    NOT NULL,
    inferred          INTEGER NOT NULL,
    revision          INTEGER NOT NULL,
    schema_hash       TEXT    NOT NULL,
    definition_digest TEXT    NOT NULL,
    updated_by        TEXT    NOT NULL,
    updated_at        INTEGER NOT NULL,
    body              BLOB    NOT NULL,
    PRIMARY KEY (tenant, name, inferred)
) STRICT, WITHOUT ROWID;

CREATE TABLE tool_versions (
    tenant            TEXT    NOT NULL,
    name              TEXT    NOT NULL,
    inferred          INTEGER NOT NULL,
    revision          INTEGER NOT NULL,
    schema_hash       TEXT    NOT NULL,
    definition_digest TEXT    NOT NULL,
    updated_by        TEXT    NOT NULL,
    updated_at        INTEGER NOT NULL,
    body              BLOB    NOT NULL,
    PRIMARY KEY (tenant, name, inferred, revision)
) STRICT, WITHOUT ROWID;

-- The active pointer of a flow: the version that a run without a version takes.
CREATE TABLE flows (
    tenant         TEXT    NOT NULL,
    name           TEXT    NOT NULL,
    active_version TEXT    NOT NULL,
    PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE flow_versions (
    tenant      TEXT    NOT NULL,
    name        TEXT    NOT NULL,
    version     TEXT    NOT NULL,
    digest      TEXT    NOT NULL,
    status      TEXT    NOT NULL,
    revision    INTEGER NOT NULL,
    proposal_id TEXT    NOT NULL,
    promoted_by TEXT    NOT NULL,
    created_at  INTEGER NOT NULL,
    flow        BLOB    NOT NULL,
    savings     BLOB    NOT NULL,
    PRIMARY KEY (tenant, name, version)
) STRICT, WITHOUT ROWID;

-- Which tool definition each flow version was approved with.
CREATE TABLE flow_pins (
    tenant      TEXT NOT NULL,
    flow        TEXT NOT NULL,
    version     TEXT NOT NULL,
    tool        TEXT NOT NULL,
    schema_hash TEXT NOT NULL,
    PRIMARY KEY (tenant, flow, version, tool)
) STRICT, WITHOUT ROWID;
CREATE INDEX flow_pins_tool ON flow_pins (tenant, tool);

CREATE TABLE proposals (
    tenant           TEXT    NOT NULL,
    id               TEXT    NOT NULL,
    state            TEXT    NOT NULL,
    source           TEXT    NOT NULL,
    pattern_key      TEXT    NOT NULL,
    flow_name        TEXT    NOT NULL,
    digest           TEXT    NOT NULL,
    candidate_digest TEXT    NOT NULL,
    revision         INTEGER NOT NULL,
    author           TEXT    NOT NULL,
    rank             INTEGER NOT NULL,
    score            REAL    NOT NULL,
    created_at       INTEGER NOT NULL,
    updated_at       INTEGER NOT NULL,
    promoted_as      TEXT    NOT NULL,
    body             BLOB    NOT NULL,
    PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX proposals_pattern ON proposals (tenant, pattern_key, created_at);
CREATE INDEX proposals_name ON proposals (tenant, flow_name);
CREATE INDEX proposals_state ON proposals (tenant, state, source);

CREATE TABLE reviews (
    tenant      TEXT    NOT NULL,
    proposal_id TEXT    NOT NULL,
    n           INTEGER NOT NULL,
    id          TEXT    NOT NULL,
    principal   TEXT    NOT NULL,
    verdict     TEXT    NOT NULL,
    digest      TEXT    NOT NULL,
    comment     TEXT    NOT NULL,
    solo        INTEGER NOT NULL,
    dismissed   INTEGER NOT NULL,
    at          INTEGER NOT NULL,
    PRIMARY KEY (tenant, proposal_id, n)
) STRICT, WITHOUT ROWID;

CREATE TABLE audit_events (
    tenant   TEXT    NOT NULL,
    seq      INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    actor    TEXT    NOT NULL,
    action   TEXT    NOT NULL,
    object   TEXT    NOT NULL,
    detail   BLOB,
    prev_sum TEXT    NOT NULL,
    sum      TEXT    NOT NULL,
    PRIMARY KEY (tenant, seq)
) STRICT, WITHOUT ROWID;

-- The newest link of each chain, so that a cut tail is found too.
CREATE TABLE audit_heads (
    tenant TEXT    NOT NULL PRIMARY KEY,
    seq    INTEGER NOT NULL,
    sum    TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE principals (
    tenant     TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE api_keys (
    tenant     TEXT    NOT NULL,
    id         TEXT    NOT NULL,
    prefix     TEXT    NOT NULL UNIQUE,
    hash       BLOB    NOT NULL,
    principal  TEXT    NOT NULL,
    scopes     TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    last_used  INTEGER NOT NULL,
    revoked    INTEGER NOT NULL,
    PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE settings (
    tenant   TEXT    NOT NULL,
    name     TEXT    NOT NULL,
    revision INTEGER NOT NULL,
    value    BLOB    NOT NULL,
    PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;

-- Live and recent flow runs. exported = 0 until the finished run is in the event store.
CREATE TABLE runs (
    tenant      TEXT    NOT NULL,
    id          TEXT    NOT NULL,
    flow        TEXT    NOT NULL,
    version     TEXT    NOT NULL,
    state       TEXT    NOT NULL,
    caller      TEXT    NOT NULL,
    dry_run     INTEGER NOT NULL,
    started_at  INTEGER NOT NULL,
    ended_at    INTEGER NOT NULL,
    steps_saved INTEGER NOT NULL,
    exported    INTEGER NOT NULL,
    body        BLOB    NOT NULL,
    PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX runs_time ON runs (tenant, started_at, id);
CREATE INDEX runs_flow ON runs (tenant, flow, started_at);
CREATE INDEX runs_pending ON runs (tenant, started_at) WHERE exported = 0;
CREATE INDEX runs_live ON runs (tenant, started_at) WHERE state = 'running';

CREATE TABLE idempotency (
    tenant     TEXT    NOT NULL,
    principal  TEXT    NOT NULL,
    operation  TEXT    NOT NULL,
    key        TEXT    NOT NULL,
    body_hash  TEXT    NOT NULL,
    object     TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, principal, operation, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_age ON idempotency (created_at);

CREATE TABLE mining_runs (
    tenant     TEXT    NOT NULL,
    id         TEXT    NOT NULL,
    state      TEXT    NOT NULL,
    started_at INTEGER NOT NULL,
    ended_at   INTEGER NOT NULL,
    body       BLOB    NOT NULL,
    PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX mining_runs_time ON mining_runs (tenant, started_at, id);
