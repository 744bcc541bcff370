-- +goose Up

ALTER TABLE proposals ADD COLUMN assignee TEXT NOT NULL DEFAULT '';
-- Projected saving: model calls that the flow would avoid a week, 0 where nothing is known.
ALTER TABLE proposals ADD COLUMN savings REAL NOT NULL DEFAULT 0;

-- What kind of change a request for changes wants; '' for other verdicts.
ALTER TABLE reviews ADD COLUMN feedback TEXT NOT NULL DEFAULT '';

-- Remarks on a draft; pointer leads into the flow document, '' is the whole; anchor is a
-- digest of what was there.
CREATE TABLE comments (
    tenant      TEXT    NOT NULL,
    proposal_id TEXT    NOT NULL,
    n           INTEGER NOT NULL,
    id          TEXT    NOT NULL,
    principal   TEXT    NOT NULL,
    pointer     TEXT    NOT NULL,
    anchor      TEXT    NOT NULL,
    digest      TEXT    NOT NULL,
    body        TEXT    NOT NULL,
    at          INTEGER NOT NULL,
    PRIMARY KEY (tenant, proposal_id, n)
) STRICT, WITHOUT ROWID;

-- The newest replay check of each draft that was checked.
CREATE TABLE replay_checks (
    tenant      TEXT    NOT NULL,
    proposal_id TEXT    NOT NULL,
    digest      TEXT    NOT NULL,
    at          INTEGER NOT NULL,
    body        BLOB    NOT NULL,
    PRIMARY KEY (tenant, proposal_id, digest)
) STRICT, WITHOUT ROWID;

-- Golden tests of flow versions: recorded sessions that the flow reproduced when it was promoted.
CREATE TABLE flow_tests (
    tenant  TEXT    NOT NULL,
    flow    TEXT    NOT NULL,
    version TEXT    NOT NULL,
    n       INTEGER NOT NULL,
    body    BLOB    NOT NULL,
    PRIMARY KEY (tenant, flow, version, n)
) STRICT, WITHOUT ROWID;

-- What drafts and flow versions predicted on live sessions.
CREATE TABLE shadows (
    tenant TEXT NOT NULL,
    object TEXT NOT NULL,
    body   BLOB NOT NULL,
    PRIMARY KEY (tenant, object)
) STRICT, WITHOUT ROWID;

-- Why a flow version has its status.
ALTER TABLE flow_versions ADD COLUMN reason TEXT NOT NULL DEFAULT '';
