-- +goose Up

-- A key that came of rotations knows the first key of its line; '' for a first key.
ALTER TABLE api_keys ADD COLUMN first_key TEXT NOT NULL DEFAULT '';

-- How long the key was made for, in microseconds; 0 for ever. A rotation shortens expires_at, and the next successor is to
-- live as long as the first.
ALTER TABLE api_keys ADD COLUMN lifetime INTEGER NOT NULL DEFAULT 0;
UPDATE api_keys SET lifetime = expires_at - created_at WHERE expires_at > 0;
