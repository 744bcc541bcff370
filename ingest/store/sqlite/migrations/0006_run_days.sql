-- +goose Up

-- A run that goes is taken out of its day, instead of summing the day anew: erasing the values of every run of a busy day
-- replaces them one by one. What is left of fractions is below what anybody reads, and nothing is left of an empty day.
DROP TRIGGER run_days_removed;
-- +goose StatementBegin
CREATE TRIGGER run_days_removed AFTER DELETE ON runs BEGIN
    UPDATE run_days SET runs = runs - 1, succeeded = succeeded - (OLD.status = 'succeeded'), failed = failed - (OLD.status = 'failed'),
        handed_back = handed_back - (OLD.status = 'handed_back'), steps_done = steps_done - OLD.steps_done, duration = duration - OLD.duration,
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
