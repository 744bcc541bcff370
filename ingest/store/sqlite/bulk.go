package sqlite

import (
	"context"
	"database/sql"
	"strings"
)

// bulkSizes are the numbers of rows per statement, largest first: one statement for many rows costs a fraction of
// many statements.
var bulkSizes = [...]int{64, 8, 1}

// bulk collects rows of one table and writes them with few statements.
type bulk struct {
	columns int
	stmts   [len(bulkSizes)]*sql.Stmt
	args    []any
}

// prepareBulk prepares "<verb> <target> VALUES (...), ... <tail>", such as INSERT INTO t (a, b).
func prepareBulk(ctx context.Context, conn *sql.Conn, insert string, columns int, tail string) (*bulk, error) {
	b := &bulk{columns: columns}
	row := "(?" + strings.Repeat(",?", columns-1) + ")"
	for i, n := range bulkSizes {
		text := insert + " VALUES " + row + strings.Repeat(","+row, n-1) + " " + tail
		stmt, err := conn.PrepareContext(ctx, text)
		if err != nil {
			return nil, err
		}
		b.stmts[i] = stmt
	}
	return b, nil
}

// add queues a row, and writes when enough are queued.
func (b *bulk) add(ctx context.Context, values ...any) error {
	b.args = append(b.args, values...)
	if len(b.args) < bulkSizes[0]*b.columns {
		return nil
	}
	return b.flush(ctx)
}

// flush writes what is queued.
func (b *bulk) flush(ctx context.Context) error {
	rest := b.args
	for i, n := range bulkSizes {
		for n *= b.columns; len(rest) >= n; rest = rest[n:] {
			if _, err := b.stmts[i].ExecContext(ctx, rest[:n]...); err != nil {
				return err
			}
		}
	}
	b.reset()
	return nil
}

// reset drops what is queued and what it refers to.
func (b *bulk) reset() {
	clear(b.args)
	b.args = b.args[:0]
}
