-- +goose Up

-- The days of sessions (since 1970, UTC; -2147483648 without a start), with a number that goes up with every change of
-- one of its sessions. Triggers keep them, so that whatever changes sessions changes their days.
CREATE TABLE session_days (
    tenant   INTEGER NOT NULL,
    day      INTEGER NOT NULL,
    version  INTEGER NOT NULL,
    sessions INTEGER NOT NULL,
    PRIMARY KEY (tenant, day)
) WITHOUT ROWID;

INSERT INTO session_days (tenant, day, version, sessions)
SELECT tenant,
       CASE WHEN start = -9223372036854775808 THEN -2147483648
            ELSE start / 86400000000000 - (start % 86400000000000 < 0) END AS day,
       1, COUNT(*)
FROM sessions GROUP BY 1, 2;

-- +goose StatementBegin
CREATE TRIGGER session_days_added AFTER INSERT ON sessions BEGIN
    INSERT INTO session_days (tenant, day, version, sessions)
    VALUES (NEW.tenant,
            CASE WHEN NEW.start = -9223372036854775808 THEN -2147483648
                 ELSE NEW.start / 86400000000000 - (NEW.start % 86400000000000 < 0) END,
            1, 1)
    ON CONFLICT (tenant, day) DO UPDATE SET version = version + 1, sessions = sessions + 1;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER session_days_removed AFTER DELETE ON sessions BEGIN
    UPDATE session_days SET version = version + 1, sessions = sessions - 1
    WHERE tenant = OLD.tenant
      AND day = CASE WHEN OLD.start = -9223372036854775808 THEN -2147483648
                     ELSE OLD.start / 86400000000000 - (OLD.start % 86400000000000 < 0) END;
END;
-- +goose StatementEnd

-- What mining counted: which sequences, and the counts of each day when it had that version.
CREATE TABLE tally_sets (
    tenant INTEGER PRIMARY KEY,
    data   BLOB    NOT NULL
);

CREATE TABLE tally_days (
    tenant  INTEGER NOT NULL,
    day     INTEGER NOT NULL,
    version TEXT    NOT NULL,
    counts  BLOB    NOT NULL,
    PRIMARY KEY (tenant, day)
);
