package clickhouse

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/pressly/goose/v3"
)

//go:embed migrations/*.sql
var migrations embed.FS

// errNewerSchema tells that the tables were made by a version of pave that this one does not know.
var errNewerSchema = errors.New("the ClickHouse database was written by a newer pave; use that version")

// migrateWait bounds one attempt to bring the tables up to date.
const migrateWait = time.Minute

// ready returns nil once the tables are there. Concurrent callers share one attempt, and each attempt asks the
// server anew.
func (s *Store) ready(ctx context.Context) error {
	if s.migrated.Load() {
		return nil
	}
	if s.closed.Load() {
		return errClosed
	}
	attempt := s.migrate.DoChan("", func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), migrateWait)
		defer cancel()
		err := s.migrateTables(ctx)
		if err == nil {
			s.migrated.Store(true)
		}
		return nil, err
	})
	select {
	case done := <-attempt:
		if errors.Is(done.Err, errNewerSchema) {
			return done.Err
		}
		return s.failed(ctx, "prepare the tables", done.Err)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// unknownDatabase is ClickHouse's code for a database that does not exist.
const unknownDatabase = 81

func (s *Store) migrateTables(ctx context.Context) error {
	err := s.conn.Ping(ctx)
	var refused *clickhouse.Exception
	if errors.As(err, &refused) && refused.Code == unknownDatabase {
		err = s.createDatabase(ctx)
	}
	if err != nil {
		return err
	}
	dir, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	db := clickhouse.OpenDB(s.opt)
	defer db.Close()
	provider, err := goose.NewProvider(goose.DialectClickHouse, db, dir, goose.WithTableName("pave_schema"))
	if err != nil {
		return err
	}
	have, err := provider.GetDBVersion(ctx)
	if err != nil {
		return err
	}
	sources := provider.ListSources()
	if newest := sources[len(sources)-1].Version; have > newest {
		return fmt.Errorf("%w (schema %d, this one knows %d)", errNewerSchema, have, newest)
	}
	_, err = provider.Up(ctx)
	return err
}

func (s *Store) createDatabase(ctx context.Context) error {
	opt := *s.opt
	opt.Auth.Database = ""
	conn, err := clickhouse.Open(&opt)
	if err != nil {
		return err
	}
	defer conn.Close()
	return conn.Exec(ctx, "CREATE DATABASE IF NOT EXISTS {name:Identifier}", clickhouse.Named("name", s.opt.Auth.Database))
}
