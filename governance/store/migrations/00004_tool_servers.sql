-- +goose Up

-- Servers of the Model Context Protocol at which tools are reached.
CREATE TABLE mcp_servers (
    tenant     TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    revision   INTEGER NOT NULL,
    updated_by TEXT    NOT NULL,
    updated_at INTEGER NOT NULL,
    body       BLOB    NOT NULL,
    PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;

-- What each server listed when it was read last.
CREATE TABLE discovered_tools (
    tenant  TEXT    NOT NULL,
    server  TEXT    NOT NULL,
    remote  TEXT    NOT NULL,
    digest  TEXT    NOT NULL,
    seen_at INTEGER NOT NULL,
    body    BLOB    NOT NULL,
    PRIMARY KEY (tenant, server, remote)
) STRICT, WITHOUT ROWID;
