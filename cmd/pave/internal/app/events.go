package app

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"

	"pave/flows"
	"pave/ingest"
	"pave/ingest/store/clickhouse"
	"pave/ingest/store/sqlite"
)

// openEvents opens the event store, on the engine on which the directory's events are.
func (a *App) openEvents(ctx context.Context) (err error) {
	if a.opts.ClickHouse != "" {
		if problems := CheckDSN(a.opts.ClickHouse); len(problems) > 0 {
			return flows.NewError(flows.CodeInvalid, problems[0])
		}
		if err := a.mustBeOnClickHouse(ctx); err != nil {
			return err
		}
		a.events, err = clickhouse.Open(ctx, clickhouse.Config{DSN: a.opts.ClickHouse,
			SpoolPath: filepath.Join(a.opts.DataDir, spoolFile), Logger: a.log})
	} else if spool := filepath.Join(a.opts.DataDir, spoolFile); exists(spool) {
		// Quietly opening an empty SQLite store would answer as if nothing had ever been recorded.
		return flows.NewError(flows.CodeConflict, fmt.Sprintf("the events of this data directory are on ClickHouse: give --clickhouse DSN"+
			" (or PAVE_CLICKHOUSE, or clickhouse in the settings file); to go on with SQLite instead, remove %s and what it still holds", spool))
	} else {
		file := filepath.Join(a.opts.DataDir, eventsFile)
		if a.known && empty(file) {
			a.log.WarnContext(ctx, "the data directory has a state and no recorded calls: "+eventsFile+" is missing or empty. "+
				"If calls were recorded here, stop and restore it from a backup; an empty one is made now", "data_dir", a.opts.DataDir)
		}
		a.events, err = sqlite.Open(ctx, file, sqlite.Options{})
	}
	if err != nil {
		return err
	}
	a.defers(a.events.Close)
	return nil
}

// mustBeOnClickHouse refuses a directory whose calls were recorded in SQLite: on ClickHouse they would be gone from every
// answer, and the spool that one command leaves would keep later ones from going on with SQLite.
func (a *App) mustBeOnClickHouse(ctx context.Context) error {
	file := filepath.Join(a.opts.DataDir, eventsFile)
	if empty(file) || exists(filepath.Join(a.opts.DataDir, spoolFile)) {
		return nil
	}
	events, err := sqlite.Open(ctx, file, sqlite.Options{})
	if err != nil {
		return err
	}
	stats, err := events.Stats(ctx, ingest.DefaultTenant)
	if err = errors.Join(err, events.Close()); err != nil {
		return err
	}
	if stats.Events == 0 {
		return nil
	}
	return flows.NewError(flows.CodeConflict, fmt.Sprintf("the events of this data directory are in SQLite (%s): go on without --clickhouse, or take another"+
		" data directory for ClickHouse; to leave what was recorded behind, move that file away", file))
}

// CheckDSN says what is wrong with the address of ClickHouse. It does not repeat it, for it may hold a password.
func CheckDSN(dsn string) []string {
	u, err := url.Parse(dsn)
	if err != nil || u.Host == "" || !slices.Contains([]string{"clickhouse", "tcp", "native", "http", "https"}, u.Scheme) {
		return []string{"clickhouse: it is no DSN such as clickhouse://127.0.0.1:9000/pave"}
	}
	return nil
}

// empty reports a file that is not there or holds nothing.
func empty(path string) bool {
	info, err := os.Stat(path)
	return err != nil || info.Size() == 0
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
