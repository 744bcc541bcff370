package store

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
)

// pool is a database handle that keeps its statements prepared, because preparing most of them costs more than running
// them. It is safe for concurrent use.
type pool struct {
	*sql.DB

	mu   sync.RWMutex
	kept map[string]*sql.Stmt // by their text
}

// maxKept bounds the statements kept; texts differ in the number of a list's elements only, so there are few.
const maxKept = 400

func openPool(dsn string, conns int) (*pool, error) {
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, fmt.Errorf("open state store: %w", err)
	}
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return &pool{DB: db, kept: map[string]*sql.Stmt{}}, nil
}

// prepared is the statement of a query in the transaction; nil when it is not kept.
func (r *Reader) prepared(query string) *sql.Stmt {
	in := r.in
	if s := in.stmts[query]; s != nil {
		return s
	}
	in.from.mu.RLock()
	kept := in.from.kept[query]
	in.from.mu.RUnlock()
	if kept == nil {
		in.missed = append(in.missed, query)
		return nil
	}
	if in.stmts == nil {
		in.stmts = map[string]*sql.Stmt{}
	}
	s := in.tx.StmtContext(r.ctx, kept)
	in.stmts[query] = s
	return s
}

// prepare keeps queries from now on. It needs a connection, so it comes after the transaction that missed them. A query
// that cannot be prepared now is missed again.
func (p *pool) prepare(ctx context.Context, queries *[]string) {
	for _, query := range *queries {
		p.mu.RLock()
		full, kept := len(p.kept) >= maxKept, p.kept[query] != nil
		p.mu.RUnlock()
		if full || kept {
			continue
		}
		s, err := p.PrepareContext(ctx, query)
		if err != nil {
			return
		}
		p.mu.Lock()
		if p.kept[query] == nil {
			p.kept[query], s = s, nil
		}
		p.mu.Unlock()
		if s != nil { // another was faster
			_ = s.Close()
		}
	}
}
