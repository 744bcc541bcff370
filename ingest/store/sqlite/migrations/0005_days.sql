-- +goose Up

-- Reports sum by day, so days are summed when sessions and runs change, by triggers: whatever changes them changes their
-- days. The day of a start rounds down; -2147483648 is the day of what has no start.
ALTER TABLE session_days ADD COLUMN tool_calls INTEGER NOT NULL DEFAULT 0;
ALTER TABLE session_days ADD COLUMN llm_calls INTEGER NOT NULL DEFAULT 0;

UPDATE session_days SET tool_calls = was.tool_calls, llm_calls = was.llm_calls
FROM (SELECT tenant,
             CASE WHEN start = -9223372036854775808 THEN -2147483648
                  ELSE start / 86400000000000 - (start % 86400000000000 < 0) END AS day,
             sum(tool_calls) AS tool_calls, sum(llm_calls) AS llm_calls
      FROM sessions GROUP BY 1, 2) AS was
WHERE was.tenant = session_days.tenant AND was.day = session_days.day;

DROP TRIGGER session_days_added;
-- +goose StatementBegin
CREATE TRIGGER session_days_added AFTER INSERT ON sessions BEGIN
    INSERT INTO session_days (tenant, day, version, sessions, tool_calls, llm_calls)
    VALUES (NEW.tenant,
            CASE WHEN NEW.start = -9223372036854775808 THEN -2147483648
                 ELSE NEW.start / 86400000000000 - (NEW.start % 86400000000000 < 0) END,
            1, 1, NEW.tool_calls, NEW.llm_calls)
    ON CONFLICT (tenant, day) DO UPDATE SET version = version + 1, sessions = sessions + 1,
        tool_calls = tool_calls + excluded.tool_calls, llm_calls = llm_calls + excluded.llm_calls;
END;
-- +goose StatementEnd

DROP TRIGGER session_days_removed;
-- +goose StatementBegin
CREATE TRIGGER session_days_removed AFTER DELETE ON sessions BEGIN
    UPDATE session_days SET version = version + 1, sessions = sessions - 1,
        tool_calls = tool_calls - OLD.tool_calls, llm_calls = llm_calls - OLD.llm_calls
    WHERE tenant = OLD.tenant
      AND day = CASE WHEN OLD.start = -9223372036854775808 THEN -2147483648
                     ELSE OLD.start / 86400000000000 - (OLD.start % 86400000000000 < 0) END;
END;
-- +goose StatementEnd

CREATE TABLE run_days (
    tenant            INTEGER NOT NULL,
    day               INTEGER NOT NULL,
    flow              TEXT    NOT NULL,
    version           TEXT    NOT NULL,
    runs              INTEGER NOT NULL,
    succeeded         INTEGER NOT NULL,
    failed            INTEGER NOT NULL,
    handed_back       INTEGER NOT NULL,
    steps_done        INTEGER NOT NULL,
    duration          INTEGER NOT NULL,
    llm_calls_avoided REAL    NOT NULL,
    tokens_avoided    REAL    NOT NULL,
    cost_avoided_usd  REAL    NOT NULL,
    latency_avoided   INTEGER NOT NULL,
    PRIMARY KEY (tenant, day, flow, version)
) WITHOUT ROWID;

INSERT INTO run_days
SELECT tenant,
       CASE WHEN start = -9223372036854775808 THEN -2147483648
            ELSE start / 86400000000000 - (start % 86400000000000 < 0) END AS day,
       flow, version, count(*), sum(status = 'succeeded'), sum(status = 'failed'), sum(status = 'handed_back'), sum(steps_done),
       sum(duration), sum(llm_calls_avoided), sum(tokens_avoided), sum(cost_avoided_usd), sum(latency_avoided)
FROM runs GROUP BY 1, 2, 3, 4;

-- +goose StatementBegin
CREATE TRIGGER run_days_added AFTER INSERT ON runs BEGIN
    INSERT INTO run_days
    VALUES (NEW.tenant,
            CASE WHEN NEW.start = -9223372036854775808 THEN -2147483648
                 ELSE NEW.start / 86400000000000 - (NEW.start % 86400000000000 < 0) END,
            NEW.flow, NEW.version, 1, NEW.status = 'succeeded', NEW.status = 'failed', NEW.status = 'handed_back', NEW.steps_done,
            NEW.duration, NEW.llm_calls_avoided, NEW.tokens_avoided, NEW.cost_avoided_usd, NEW.latency_avoided)
    ON CONFLICT (tenant, day, flow, version) DO UPDATE SET runs = runs + 1, succeeded = succeeded + excluded.succeeded,
        failed = failed + excluded.failed, handed_back = handed_back + excluded.handed_back, steps_done = steps_done + excluded.steps_done,
        duration = duration + excluded.duration, llm_calls_avoided = llm_calls_avoided + excluded.llm_calls_avoided,
        tokens_avoided = tokens_avoided + excluded.tokens_avoided, cost_avoided_usd = cost_avoided_usd + excluded.cost_avoided_usd,
        latency_avoided = latency_avoided + excluded.latency_avoided;
END;
-- +goose StatementEnd

-- A run is seldom replaced, so its day is summed anew: what is subtracted from sums of fractions leaves a rest.
-- +goose StatementBegin
CREATE TRIGGER run_days_removed AFTER DELETE ON runs BEGIN
    DELETE FROM run_days
    WHERE tenant = OLD.tenant AND flow = OLD.flow AND version = OLD.version
      AND day = CASE WHEN OLD.start = -9223372036854775808 THEN -2147483648
                     ELSE OLD.start / 86400000000000 - (OLD.start % 86400000000000 < 0) END;
    INSERT INTO run_days
    SELECT tenant,
           CASE WHEN OLD.start = -9223372036854775808 THEN -2147483648
                ELSE OLD.start / 86400000000000 - (OLD.start % 86400000000000 < 0) END AS day,
           flow, version, count(*), sum(status = 'succeeded'), sum(status = 'failed'), sum(status = 'handed_back'), sum(steps_done),
           sum(duration), sum(llm_calls_avoided), sum(tokens_avoided), sum(cost_avoided_usd), sum(latency_avoided)
    FROM runs
    WHERE tenant = OLD.tenant AND flow = OLD.flow AND version = OLD.version
      AND start >= CASE WHEN OLD.start = -9223372036854775808 THEN OLD.start
                        ELSE OLD.start - (OLD.start % 86400000000000 + 86400000000000) % 86400000000000 END
      AND start <= CASE WHEN OLD.start = -9223372036854775808 THEN OLD.start
                        ELSE OLD.start - (OLD.start % 86400000000000 + 86400000000000) % 86400000000000 + 86399999999999 END
    GROUP BY tenant, flow, version;
END;
-- +goose StatementEnd
