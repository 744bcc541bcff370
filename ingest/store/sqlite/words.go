package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// wordKind names a dictionary of a tenant.
type wordKind int64

const (
	wordTool   wordKind = 0
	wordAgent  wordKind = 1
	wordSource wordKind = 2
)

// maxWords is how many words a word set can tell apart.
const maxWords = 1 << 21

type dictionaryKey struct {
	tenant int64
	kind   wordKind
}

// dictionary is the writer's copy of one: word -> id, dense from 0.
type dictionary struct {
	key dictionaryKey
	ids map[string]uint32
}

// dictionary reads one, at first use.
func (w *writer) dictionary(ctx context.Context, tenant int64, kind wordKind) (*dictionary, error) {
	key := dictionaryKey{tenant, kind}
	if d := w.dictionaries[key]; d != nil {
		return d, nil
	}
	words, err := queryWords(ctx, w.conn, "SELECT word FROM words WHERE tenant = ? AND kind = ? ORDER BY id", tenant, kind)
	if err != nil {
		return nil, err
	}
	d := &dictionary{key: key, ids: make(map[string]uint32, len(words))}
	for i, word := range words {
		d.ids[word] = uint32(i)
	}
	w.dictionaries[key] = d
	return d, nil
}

// word gives the id of a word, which it adds.
func (w *writer) word(ctx context.Context, d *dictionary, word string) (uint32, error) {
	if id, ok := d.ids[word]; ok {
		return id, nil
	}
	if len(d.ids) >= maxWords {
		return 0, fmt.Errorf("more than %d different names of tools, agents or sources", maxWords)
	}
	id := uint32(len(d.ids))
	d.ids[word] = id
	return id, w.words.add(ctx, d.key.tenant, int64(d.key.kind), int64(id), word)
}

type queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

func queryWords(ctx context.Context, q queryer, query string, args ...any) ([]string, error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var words []string
	for rows.Next() {
		var word string
		if err := rows.Scan(&word); err != nil {
			return nil, err
		}
		words = append(words, word)
	}
	return words, rows.Err()
}

// readWords reads a dictionary: index = id.
func readWords(ctx context.Context, q queryer, tenant string, kind wordKind) ([]string, error) {
	return queryWords(ctx, q, "SELECT word FROM words WHERE tenant = "+tenantID+" AND kind = ?2 ORDER BY id", tenant, kind)
}

// findWord gives the id of a word, and whether there is one.
func findWord(ctx context.Context, tx *sql.Tx, tenant string, kind wordKind, word string) (id uint32, ok bool, err error) {
	err = tx.QueryRowContext(ctx, "SELECT id FROM words WHERE tenant = "+tenantID+" AND kind = ?2 AND word = ?3", tenant, kind, word).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, false, nil
	}
	return id, err == nil, err
}

// ToolNames returns the tool dictionary; see store.Store.
func (s *Store) ToolNames(ctx context.Context, tenant string) ([]string, error) {
	names, err := readWords(ctx, s.read, tenant, wordTool)
	return names, s.wrap("read tool names of", err)
}

// appendToSet adds a word to a set that SQL can search for a member with instr: ids are three bytes of which only the
// first has its high bit set, so nothing is found across two of them.
func appendToSet(set []byte, id uint32) []byte {
	return append(set, 0x80|byte(id>>14), byte(id>>7)&0x7f, byte(id)&0x7f)
}

func wordSet(ids []uint32) []byte {
	set := make([]byte, 0, 3*len(ids))
	for _, id := range ids {
		set = appendToSet(set, id)
	}
	return set
}

// members reads a set.
func members(set []byte) []uint32 {
	ids := make([]uint32, 0, len(set)/3)
	for ; len(set) >= 3; set = set[3:] {
		ids = append(ids, uint32(set[0]&0x7f)<<14|uint32(set[1])<<7|uint32(set[2]))
	}
	return ids
}
