package store

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
)

// Page sizes of every list.
const (
	DefaultLimit = 50
	MaxLimit     = 500
)

// Page is one page of a list; Next is "" on the last.
type Page[T any] struct {
	Items []T
	Next  string
}

// order is one closed way to sort a list: a numeric SQL expression, ascending or descending, ties by id.
type order struct {
	expr string
	desc bool
}

// position is what a cursor holds: the sort it is for and the key of the last row seen.
type position struct {
	Sort string  `json:"s"`
	Key  float64 `json:"k"`
	ID   string  `json:"i"`
}

func encodeCursor(p position) string {
	raw, err := json.Marshal(p)
	if err != nil { // a NaN key cannot be stored, see the STRICT columns
		panic(fmt.Sprintf("encode cursor: %v", err))
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}

func decodeCursor(cursor, sort string) (position, error) {
	var p position
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || json.Unmarshal(raw, &p) != nil || p.Sort != sort || p.ID == "" {
		return position{}, ErrCursor
	}
	return p, nil
}

// pageQuery is a keyset query over a table whose rows have a tenant and an id. The first condition is the tenant.
type pageQuery struct {
	table, columns string
	where          []string // conditions with one placeholder each
	args           []any
	sort           string
	order          order
	limit          int
	cursor         string
	// chosen lets an index that has every condition and the key choose the ids of the page, so that rows beside it are not
	// read with their bodies. Without one the rows come sorted from an index.
	chosen bool
}

// clampLimit applies the default and the cap to a requested page size.
func clampLimit(limit int) int {
	if limit <= 0 {
		return DefaultLimit
	}
	return min(limit, MaxLimit)
}

// readPage runs q. scan gets the sort key and the id after the columns.
func readPage[T any](r *Reader, q pageQuery, scan func(s scanner, key *float64, id *string) (T, error)) (Page[T], error) {
	limit := clampLimit(q.limit)
	where, args := q.where, q.args
	less, dir := ">", "ASC"
	if q.order.desc {
		less, dir = "<", "DESC"
	}
	if q.cursor != "" {
		p, err := decodeCursor(q.cursor, q.sort)
		if err != nil {
			return Page[T]{}, err
		}
		where = append(where, fmt.Sprintf("(%s, id) %s (?, ?)", q.order.expr, less))
		args = append(args, p.Key, p.ID)
	}
	sorted := fmt.Sprintf(" ORDER BY %s %s, id %s", q.order.expr, dir, dir)
	from := fmt.Sprintf(" FROM %s WHERE %s%s LIMIT %d", q.table, strings.Join(where, " AND "), sorted, limit+1)
	query := fmt.Sprintf("SELECT %s, CAST(%s AS REAL), id", q.columns, q.order.expr)
	if q.chosen {
		from = fmt.Sprintf(" FROM %s WHERE %s AND id IN (SELECT id%s)%s", q.table, where[0], from, sorted)
		args = append([]any{args[0]}, args...)
	}
	query += from

	last := make([]position, 0, limit+1)
	items, err := collect(r, func(s scanner) (T, error) {
		p := position{Sort: q.sort}
		item, err := scan(s, &p.Key, &p.ID)
		last = append(last, p)
		return item, err
	}, query, args...)
	if err != nil {
		return Page[T]{}, err
	}
	page := Page[T]{Items: items}
	if len(items) > limit {
		page.Items, page.Next = items[:limit], encodeCursor(last[limit-1])
	}
	return page, nil
}
