-- +goose Up

-- Small sessions are most of a file, so a name is written once: as names.name. Sessions of one start are listed in the
-- order in which they were first seen.
DROP INDEX sessions_start;
DROP INDEX sessions_sums;
ALTER TABLE sessions DROP COLUMN name;
-- One index serves lists and sums by day.
CREATE INDEX sessions_start ON sessions (tenant, start DESC, session, tool_calls, llm_calls);

-- 32 bits of FNV-1a, signed, are enough to find a name with: a collision costs one comparison.
UPDATE names SET hash = (hash & 4294967295) - ((hash & 2147483648) << 1);

-- From now on an origin that is "session:" and the name of a session that it is bound to has no row in names and none
-- in bindings: its id is the one after the session's, which no name has then.
