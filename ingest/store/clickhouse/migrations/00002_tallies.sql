-- +goose NO TRANSACTION
-- +goose Up

-- What mining counted. The row of the greatest day holds which sequences were counted, the others the counts of a day
-- when it had that version; rows of another epoch than that row's belong to a set that was replaced.
-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS tallies
(
    tenant  LowCardinality(String),
    day     Int64,
    put     Int64,
    epoch   Int64,
    version String,
    data    String CODEC(ZSTD(1))
)
ENGINE = ReplacingMergeTree(put)
ORDER BY (tenant, day)
SETTINGS index_granularity = 128, non_replicated_deduplication_window = 1000;
-- +goose StatementEnd
