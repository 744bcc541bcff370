package store

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"
	"time"
)

// DefaultLimit is the page size when a filter has none.
const DefaultLimit = 50

// Position is where a page of sessions or runs ended: the sort key of its last row. Its text form is the cursor.
type Position struct {
	Start time.Time // zero: none; to the nanosecond, between the years 1678 and 2261
	ID    string
}

// cursorVersion is the first byte of a cursor, so that a later form is told from this one.
const cursorVersion = 1

// Cursor encodes the position for Page.Next.
func (p Position) Cursor() string {
	b := []byte{cursorVersion, 0}
	if !p.Start.IsZero() {
		b[1] = 1
		b = binary.BigEndian.AppendUint64(b, uint64(p.Start.UnixNano()))
	}
	return base64.RawURLEncoding.EncodeToString(append(b, p.ID...))
}

// ParseCursor decodes a cursor; what Position.Cursor did not make is ErrCursor.
func ParseCursor(cursor string) (Position, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	// The decoder skips line ends; a cursor has none.
	if err != nil || strings.ContainsAny(cursor, "\r\n") || len(b) < 2 || b[0] != cursorVersion || b[1] > 1 {
		return Position{}, fmt.Errorf("%w %.40q: take the value of next from the page before", ErrCursor, cursor)
	}
	if b[1] == 0 {
		return Position{ID: string(b[2:])}, nil
	}
	if len(b) < 10 {
		return Position{}, fmt.Errorf("%w %.40q: it is cut", ErrCursor, cursor)
	}
	return Position{Start: time.Unix(0, int64(binary.BigEndian.Uint64(b[2:]))).UTC(), ID: string(b[10:])}, nil
}
