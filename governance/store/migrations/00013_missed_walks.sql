-- +goose Up

-- Several versions of a flow may be in service, and a walk by hand is compared with each. Those that the version which was
-- offered could have replaced are missed: adoption and coverage count a walk once. Earlier rows keep what they counted.
ALTER TABLE flow_days ADD COLUMN missed INTEGER NOT NULL DEFAULT 0;
UPDATE flow_days SET missed = walks;
DROP INDEX flow_days_sums;
CREATE INDEX flow_days_sums ON flow_days (tenant, day, flow, version, walks, exact, missed, calls);
