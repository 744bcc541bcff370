-- Every table has a deduplication window: a batch that is sent again with the same insert_deduplication_token, because
-- its first answer was lost, is stored once. The window counts inserts, not rows.

-- +goose NO TRANSACTION
-- +goose Up

-- The log: one row per stored event, copies included, in the order of arrival.
-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS events
(
    tenant         LowCardinality(String),
    arrival        Int64                     COMMENT 'nanoseconds of the acknowledging machine''s clock, one apart at least: the order of arrival',
    spool          UInt64                    COMMENT 'which spool; with arrival the identity of the row',
    kind           UInt8                     COMMENT '1 tool call, 2 LLM call, 3 user message, 4 session end, 5 span',
    present        UInt8                     COMMENT 'bits: 1 seq, 2 turn, 4 start, 8 truncated, 16 cost',
    origin         String                    COMMENT 'trace:<id>, session:<id> or request:<id>',
    session_id     String                    COMMENT 'explicit session id of the record, empty when none',
    trace_id       String,
    span_id        String,
    parent_span_id String,
    run_id         String,
    agent          LowCardinality(String),
    source         LowCardinality(String),
    origin_kind    LowCardinality(String)    COMMENT 'agent, flow or flow_call',
    seq            Int64,
    turn           Int32,
    started        DateTime64(9, 'UTC'),
    duration       Int64                     COMMENT 'nanoseconds',
    received       DateTime64(9, 'UTC'),
    identity       String                    COMMENT 'events with equal, non-empty identity are copies of one',
    metadata       String                    CODEC(ZSTD(1)),
    tool           LowCardinality(String),
    call_id        String,
    args           String                    CODEC(ZSTD(1)),
    result         String                    CODEC(ZSTD(1)),
    status         LowCardinality(String),
    error          String                    CODEC(ZSTD(1)),
    model          LowCardinality(String),
    llm_calls      Int32,
    input_tokens   Int64                     COMMENT '-1 unknown',
    output_tokens  Int64                     COMMENT '-1 unknown',
    cached_tokens  Int64                     COMMENT '-1 unknown; part of input_tokens',
    cost_usd       Float64,
    text           String                    CODEC(ZSTD(1)),
    INDEX origin_ix origin TYPE bloom_filter(0.01) GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(fromUnixTimestamp64Nano(arrival, 'UTC'))
ORDER BY (tenant, arrival)
SETTINGS index_granularity = 1024, non_replicated_deduplication_window = 10000;
-- +goose StatementEnd

-- What is known of an origin without reading its events: one row per append, origin and explicit session.
-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS origins
(
    tenant        LowCardinality(String),
    origin        String,
    session       String                     COMMENT 'explicit session of these events, empty when none',
    spool         UInt64,
    entry         Int64                      COMMENT 'which append: the arrival of its first event',
    events        UInt64,
    tool_calls    UInt64,
    bytes         UInt64                     COMMENT 'payload bytes, uncompressed',
    first_arrival Int64,
    last_arrival  Int64,
    last_received Int64                      COMMENT 'unix nanoseconds'
)
ENGINE = ReplacingMergeTree
ORDER BY (tenant, origin, session, spool, entry)
SETTINGS index_granularity = 1024, non_replicated_deduplication_window = 10000;
-- +goose StatementEnd

-- Which origins belong to a session.
-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS bindings
(
    tenant  LowCardinality(String),
    session String,
    origin  String
)
ENGINE = ReplacingMergeTree
ORDER BY (tenant, session, origin)
SETTINGS index_granularity = 1024, non_replicated_deduplication_window = 10000;
-- +goose StatementEnd

-- What changed when: the feed from which sessions to assemble are found. Written last of a batch.
-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS touches
(
    tenant  LowCardinality(String),
    noticed DateTime64(6, 'UTC')             DEFAULT now64(6, 'UTC'),
    spool   UInt64,
    origin  String
)
ENGINE = MergeTree
ORDER BY (tenant, noticed)
SETTINGS index_granularity = 1024, non_replicated_deduplication_window = 10000;
-- +goose StatementEnd

-- Assembled sessions: the newest version of an id counts; removed ones stay for their watermark.
-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS sessions
(
    tenant              LowCardinality(String),
    id                  String,
    version             Int64,
    removed             UInt8,
    watermark           Int64                COMMENT 'events that the assembly saw',
    has_start           UInt8,
    has_end             UInt8,
    started             DateTime64(9, 'UTC'),
    ended               DateTime64(9, 'UTC'),
    agents              Array(String),
    sources             Array(String),
    tool_calls          Int64,
    errors              Int64,
    repeats             Int64,
    user_turns          Int64,
    conflicts           Int64,
    llm_calls           Int64,
    input_tokens        Int64,
    output_tokens       Int64,
    cached_tokens       Int64,
    calls_with_tokens   Int64,
    cost_usd            Float64,
    calls_with_cost     Int64,
    llm_duration        Int64                COMMENT 'nanoseconds',
    calls_with_duration Int64,
    tools               Array(LowCardinality(String)) COMMENT 'tools called, in order, one agent run after the other' CODEC(ZSTD(1)),
    sequence_agents     Array(LowCardinality(String)) COMMENT 'agents of the sequences',
    sequences_from      Int64                COMMENT 'earliest start of a sequence, unix nanoseconds',
    sequences_to        Int64                COMMENT 'latest start of a sequence, unix nanoseconds',
    sequences           String               COMMENT 'the sequences that mining reads, compact binary form' CODEC(ZSTD(1))
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (tenant, id)
SETTINGS index_granularity = 1024, non_replicated_deduplication_window = 10000;
-- +goose StatementEnd

-- The tool dictionary: ids are the ranks of (added, name).
-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS tools
(
    tenant LowCardinality(String),
    name   String,
    added  SimpleAggregateFunction(min, Int64)
)
ENGINE = AggregatingMergeTree
ORDER BY (tenant, name)
SETTINGS non_replicated_deduplication_window = 10000;
-- +goose StatementEnd

-- Finished flow runs: the newest version of an id counts.
-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS runs
(
    tenant            LowCardinality(String),
    id                String,
    version           Int64,
    flow              LowCardinality(String),
    flow_version      LowCardinality(String),
    status            LowCardinality(String),
    caller            String,
    has_start         UInt8,
    started           DateTime64(9, 'UTC'),
    duration          Int64                  COMMENT 'nanoseconds',
    steps             Int64,
    steps_done        Int64,
    error_code        LowCardinality(String),
    result            String                 CODEC(ZSTD(1)),
    llm_calls_avoided Float64,
    tokens_avoided    Float64,
    cost_avoided_usd  Float64,
    latency_avoided   Int64                  COMMENT 'nanoseconds'
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (tenant, id)
SETTINGS index_granularity = 1024, non_replicated_deduplication_window = 10000;
-- +goose StatementEnd
