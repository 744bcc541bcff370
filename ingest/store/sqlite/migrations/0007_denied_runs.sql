-- +goose Up

-- Runs that ended because a person denied a call, or did not decide in time, are apart from those that failed.
ALTER TABLE run_days ADD COLUMN denied INTEGER NOT NULL DEFAULT 0;

DROP TRIGGER run_days_added;
-- +goose StatementBegin
CREATE TRIGGER run_days_added AFTER INSERT ON runs BEGIN
    INSERT INTO run_days (tenant, day, flow, version, runs, succeeded, failed, handed_back, denied, steps_done, duration,
        llm_calls_avoided, tokens_avoided, cost_avoided_usd, latency_avoided)
    VALUES (NEW.tenant,
            CASE WHEN NEW.start = -9223372036854775808 THEN -2147483648
                 ELSE NEW.start / 86400000000000 - (NEW.start % 86400000000000 < 0) END,
            NEW.flow, NEW.version, 1, NEW.status = 'succeeded', NEW.status = 'failed', NEW.status = 'handed_back', NEW.status = 'denied',
            NEW.steps_done, NEW.duration, NEW.llm_calls_avoided, NEW.tokens_avoided, NEW.cost_avoided_usd, NEW.latency_avoided)
    ON CONFLICT (tenant, day, flow, version) DO UPDATE SET runs = runs + 1, succeeded = succeeded + excluded.succeeded,
        failed = failed + excluded.failed, handed_back = handed_back + excluded.handed_back, denied = denied + excluded.denied,
        steps_done = steps_done + excluded.steps_done,
        duration = duration + excluded.duration, llm_calls_avoided = llm_calls_avoided + excluded.llm_calls_avoided,
        tokens_avoided = tokens_avoided + excluded.tokens_avoided, cost_avoided_usd = cost_avoided_usd + excluded.cost_avoided_usd,
        latency_avoided = latency_avoided + excluded.latency_avoided;
END;
-- +goose StatementEnd

DROP TRIGGER run_days_removed;
-- +goose StatementBegin
CREATE TRIGGER run_days_removed AFTER DELETE ON runs BEGIN
    UPDATE run_days SET runs = runs - 1, succeeded = succeeded - (OLD.status = 'succeeded'), failed = failed - (OLD.status = 'failed'),
        handed_back = handed_back - (OLD.status = 'handed_back'), denied = denied - (OLD.status = 'denied'),
        steps_done = steps_done - OLD.steps_done, duration = duration - OLD.duration,
        llm_calls_avoided = llm_calls_avoided - OLD.llm_calls_avoided, tokens_avoided = tokens_avoided - OLD.tokens_avoided,
        cost_avoided_usd = cost_avoided_usd - OLD.cost_avoided_usd, latency_avoided = latency_avoided - OLD.latency_avoided
    WHERE tenant = OLD.tenant AND flow = OLD.flow AND version = OLD.version
      AND day = CASE WHEN OLD.start = -9223372036854775808 THEN -2147483648
                     ELSE OLD.start / 86400000000000 - (OLD.start % 86400000000000 < 0) END;
    DELETE FROM run_days
    WHERE tenant = OLD.tenant AND flow = OLD.flow AND version = OLD.version AND runs = 0
      AND day = CASE WHEN OLD.start = -9223372036854775808 THEN -2147483648
                     ELSE OLD.start / 86400000000000 - (OLD.start % 86400000000000 < 0) END;
END;
-- +goose StatementEnd
