-- +goose Up

-- What each agent did on the path of a flow version, by UTC day: by hand, or by a call of the flow.
CREATE TABLE flow_agent_days (
    tenant     TEXT    NOT NULL,
    flow       TEXT    NOT NULL,
    version    TEXT    NOT NULL,
    day        INTEGER NOT NULL, -- since 1970
    agent      TEXT    NOT NULL, -- as its telemetry names it
    walks      INTEGER NOT NULL,
    flow_calls INTEGER NOT NULL,
    PRIMARY KEY (tenant, flow, version, day, agent)
) STRICT, WITHOUT ROWID;
CREATE INDEX flow_agent_days_day ON flow_agent_days (tenant, day);
