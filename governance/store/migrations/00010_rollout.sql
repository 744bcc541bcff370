-- +goose Up

-- A version may serve a share of the callers who name none; rest_version serves the others, '' hands them back.
ALTER TABLE flows ADD COLUMN share REAL NOT NULL DEFAULT 1;
ALTER TABLE flows ADD COLUMN rest_version TEXT NOT NULL DEFAULT '';
