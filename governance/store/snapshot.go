package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
)

// Snapshot copies an SQLite file as it is at one moment, while others read and write it. The copy is compact; to must
// not be there. It serves every SQLite file of a data directory.
func Snapshot(ctx context.Context, path, to string) (err error) {
	if _, err := os.Stat(path); err != nil {
		return err
	}
	db, err := sql.Open("sqlite", dsn(path, ""))
	if err != nil {
		return fmt.Errorf("snapshot of %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if _, err := db.ExecContext(ctx, "VACUUM INTO ?", to); err != nil {
		return fmt.Errorf("snapshot of %s: %w", path, classify(err))
	}
	return nil
}

// Inspect checks an SQLite file of a data directory without changing it: problems is what the engine finds wrong with
// its pages and indexes, at most 20 texts; schema is the number of its newest migration, 0 without one.
func Inspect(ctx context.Context, path string) (problems []string, schema int64, err error) {
	if _, err := os.Stat(path); err != nil {
		return nil, 0, err
	}
	db, err := sql.Open("sqlite", dsn(path, ""))
	if err != nil {
		return nil, 0, fmt.Errorf("inspect %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	rows, err := db.QueryContext(ctx, "PRAGMA integrity_check(20)")
	if err != nil {
		return []string{err.Error()}, 0, nil
	}
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, 0, errors.Join(err, rows.Close())
		}
		if text != "ok" {
			problems = append(problems, text)
		}
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil { // a page that cannot be read at all
		return append(problems, err.Error()), 0, nil
	}
	if err := db.QueryRowContext(ctx, "SELECT coalesce(max(version_id), 0) FROM goose_db_version").Scan(&schema); err != nil {
		schema = 0 // a file of another kind
	}
	return problems, schema, nil
}
