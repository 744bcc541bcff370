-- +goose Up

-- The counters are kept in the transaction that changes what they count.
CREATE TABLE tenants (
    id                INTEGER PRIMARY KEY,
    name              TEXT    NOT NULL UNIQUE,
    events            INTEGER NOT NULL DEFAULT 0,
    tool_call_events  INTEGER NOT NULL DEFAULT 0,
    sessions          INTEGER NOT NULL DEFAULT 0,
    tool_calls        INTEGER NOT NULL DEFAULT 0,
    llm_calls         INTEGER NOT NULL DEFAULT 0
);

-- Names of origins and of sessions: an origin without a session id is its own session, so both are one id.
-- hash is FNV-1a of the name: names are random and long, and an index on them costs three times as many pages.
CREATE TABLE names (
    id     INTEGER PRIMARY KEY,
    tenant INTEGER NOT NULL,
    hash   INTEGER NOT NULL,
    name   TEXT    NOT NULL
);
CREATE INDEX names_hash ON names (hash);

-- A block holds the events of one transaction, or a part of them when they are many: head their fields, payload
-- their contents, both zstd. received is the newest receive time in it (ns).
CREATE TABLE blocks (
    id       INTEGER PRIMARY KEY,
    received INTEGER NOT NULL,
    events   INTEGER NOT NULL,
    head     BLOB    NOT NULL,
    payload  BLOB    NOT NULL
);

-- A segment lists the events of one origin in one block. The segments of an origin are a list from heads through
-- prev (0 ends it), so that appending writes at the end of tables only.
CREATE TABLE segments (
    id     INTEGER PRIMARY KEY,
    origin INTEGER NOT NULL,
    prev   INTEGER NOT NULL,
    block  INTEGER NOT NULL,
    events BLOB    NOT NULL
);

CREATE TABLE heads (
    origin  INTEGER PRIMARY KEY,
    segment INTEGER NOT NULL
);

CREATE TABLE bindings (
    origin  INTEGER NOT NULL,
    session INTEGER NOT NULL,
    PRIMARY KEY (origin, session)
) WITHOUT ROWID;
CREATE INDEX bindings_session ON bindings (session, origin);

-- newest is the newest receive time (ns), touched the last segment that concerns the session.
CREATE TABLE dirty (
    session INTEGER PRIMARY KEY,
    tenant  INTEGER NOT NULL,
    newest  INTEGER NOT NULL,
    touched INTEGER NOT NULL
);
CREATE INDEX dirty_newest ON dirty (tenant, newest);

-- Dictionaries of a tenant by kind (0 tools, 1 agents, 2 sources), ids from 0.
CREATE TABLE words (
    tenant INTEGER NOT NULL,
    kind   INTEGER NOT NULL,
    id     INTEGER NOT NULL,
    word   TEXT    NOT NULL,
    PRIMARY KEY (tenant, kind, id),
    UNIQUE (tenant, kind, word)
) WITHOUT ROWID;

-- tools and agents are sets of word ids of three bytes each, of which only the first has its high bit set.
CREATE TABLE sessions (
    session    INTEGER PRIMARY KEY,
    tenant     INTEGER NOT NULL,
    name       TEXT    NOT NULL,
    start      INTEGER NOT NULL,
    tool_calls INTEGER NOT NULL,
    llm_calls  INTEGER NOT NULL,
    tools      BLOB    NOT NULL,
    agents     BLOB    NOT NULL,
    summary    BLOB    NOT NULL
);
CREATE INDEX sessions_start ON sessions (tenant, start DESC, name);

CREATE TABLE sequences (
    tenant  INTEGER NOT NULL,
    session INTEGER NOT NULL,
    run     INTEGER NOT NULL,
    start   INTEGER NOT NULL,
    data    BLOB    NOT NULL,
    PRIMARY KEY (tenant, session, run)
) WITHOUT ROWID;

-- Times and durations in ns.
CREATE TABLE runs (
    tenant            INTEGER NOT NULL,
    id                TEXT    NOT NULL,
    flow              TEXT    NOT NULL,
    version           TEXT    NOT NULL,
    status            TEXT    NOT NULL,
    caller            TEXT    NOT NULL,
    start             INTEGER NOT NULL,
    duration          INTEGER NOT NULL,
    steps             INTEGER NOT NULL,
    steps_done        INTEGER NOT NULL,
    error_code        TEXT    NOT NULL,
    llm_calls_avoided REAL    NOT NULL,
    tokens_avoided    REAL    NOT NULL,
    cost_avoided_usd  REAL    NOT NULL,
    latency_avoided   INTEGER NOT NULL,
    result            BLOB,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX runs_start ON runs (tenant, start DESC, id);
