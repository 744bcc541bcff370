package store

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/pressly/goose/v3"
	"github.com/stretchr/testify/require"
)

// made opens a file with the schema of a version.
func made(t *testing.T, path string, version int64) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", dsn(path, ""))
	require.NoError(t, err)
	files, err := fs.Sub(migrations, "migrations")
	require.NoError(t, err)
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, files, goose.WithDisableGlobalRegistry(true))
	require.NoError(t, err)
	_, err = provider.UpTo(t.Context(), version)
	require.NoError(t, err)
	return db
}

type column struct{ name, kind string }

// layout is every table of the schema with its columns.
func layout(t *testing.T, db *sql.DB) map[string][]column {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), `SELECT m.name, p.name, p.type FROM sqlite_master m, pragma_table_info(m.name) p
		WHERE m.type = 'table' AND m.name NOT LIKE 'goose_%' AND m.name NOT LIKE 'sqlite_%' ORDER BY m.name, p.cid`)
	require.NoError(t, err)
	defer func() { require.NoError(t, rows.Close()) }()
	out := map[string][]column{}
	for rows.Next() {
		var table string
		var c column
		require.NoError(t, rows.Scan(&table, &c.name, &c.kind))
		out[table] = append(out[table], c)
	}
	require.NoError(t, rows.Err())
	return out
}

// cell is the value of a column in row n: every one its own, so that nothing can be taken for another.
func cell(table string, c column, n int) any {
	text := fmt.Sprintf("%s.%s.%d", table, c.name, n)
	switch {
	case table == "runs" && c.name == "body":
		return []byte(fmt.Sprintf(`{"Result":{"trace_id":"trace%d","flow_name":"f"}}`, n))
	case table == "runs" && (c.name == "dry_run" || c.name == "exported"):
		return int64(n % 2)
	case c.kind == "INTEGER":
		return int64(len(text)*1000 + n)
	case c.kind == "REAL":
		return float64(len(text)) + float64(n)/4
	case c.kind == "BLOB":
		return []byte(`{"text":"` + text + `"}`)
	}
	return text
}

// fill writes three rows into every table.
func fill(t *testing.T, db *sql.DB, tables map[string][]column) {
	t.Helper()
	for table, columns := range tables {
		for n := range 3 {
			names, args := make([]string, len(columns)), make([]any, len(columns))
			for i, c := range columns {
				names[i], args[i] = c.name, cell(table, c, n)
			}
			_, err := db.ExecContext(t.Context(), fmt.Sprintf(`INSERT INTO %s (%s) VALUES (?%s)`, table, strings.Join(names, ", "), strings.Repeat(", ?", len(names)-1)), args...)
			require.NoError(t, err, table)
		}
	}
}

// TestFilesOfEverySchemaAreMigrated makes a file of each version that there was, with rows in every table, and opens it: no
// row and no value is lost, what is derived is there, and the schema is that of a new file.
func TestFilesOfEverySchemaAreMigrated(t *testing.T) {
	files, err := fs.Glob(migrations, "migrations/*.sql")
	require.NoError(t, err)
	fresh := made(t, temp(t), int64(len(files)))
	want := layout(t, fresh)
	var schema []string
	read := func(db *sql.DB) (out []string) {
		rows, err := db.QueryContext(t.Context(), `SELECT type || ' ' || name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' ORDER BY 1`)
		require.NoError(t, err)
		defer func() { require.NoError(t, rows.Close()) }()
		for rows.Next() {
			var s string
			require.NoError(t, rows.Scan(&s))
			out = append(out, s)
		}
		require.NoError(t, rows.Err())
		return out
	}
	schema = read(fresh)
	require.NoError(t, fresh.Close())
	require.Greater(t, len(want), 25)

	for version := int64(1); version <= int64(len(files)); version++ {
		t.Run(fmt.Sprint("version ", version), func(t *testing.T) {
			path := temp(t)
			old := made(t, path, version)
			had := layout(t, old)
			fill(t, old, had)
			require.NoError(t, old.Close())
			for range 2 { // the second time there is nothing to do
				db, err := Open(context.Background(), path)
				require.NoError(t, err)
				raw, err := sql.Open("sqlite", dsn(path, ""))
				require.NoError(t, err)
				require.Equal(t, want, layout(t, raw))
				require.Equal(t, schema, read(raw))
				for table, columns := range had {
					kept := slices.DeleteFunc(slices.Clone(columns), func(c column) bool { return !slices.Contains(want[table], c) })
					for _, c := range kept {
						for n := range 3 {
							var rows int
							require.NoError(t, raw.QueryRowContext(t.Context(), fmt.Sprintf(`SELECT count(*) FROM %s WHERE %s = ?`, table, c.name),
								cell(table, c, n)).Scan(&rows))
							require.GreaterOrEqual(t, rows, 1, "%s.%s of row %d", table, c.name, n)
						}
					}
					var rows int
					require.NoError(t, raw.QueryRowContext(t.Context(), `SELECT count(*) FROM `+table).Scan(&rows))
					require.Equal(t, 3, rows, table)
				}
				if version < 8 {
					view(t, db, func(r *Reader) error {
						runs, err := r.RunsOf("runs.tenant.1", []string{"trace1"}, nil)
						require.NoError(t, err)
						require.Len(t, runs, 1, "the trace of a run is found in what was kept of it")
						return nil
					})
				}
				require.NoError(t, raw.Close())
				require.NoError(t, db.Close())
			}
		})
	}
}
