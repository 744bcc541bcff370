package store

import "time"

// ToolRow is one definition of a tool. Inferred and declared definitions of one name live side by side.
type ToolRow struct {
	Name             string
	Inferred         bool
	Revision         int64 // 1 for the first definition
	SchemaHash       string
	DefinitionDigest string
	UpdatedBy        string
	UpdatedAt        time.Time
	Body             []byte // the tool as JSON
}

const toolColumns = `name, inferred, revision, schema_hash, definition_digest, updated_by, updated_at, body`

func scanTool(s scanner) (t ToolRow, err error) {
	var at int64
	err = s.Scan(&t.Name, &t.Inferred, &t.Revision, &t.SchemaHash, &t.DefinitionDigest, &t.UpdatedBy, &at, &t.Body)
	t.UpdatedAt = fromMicros(at)
	return t, err
}

// Tool reads the current definition. Errors: ErrNotFound.
func (r *Reader) Tool(tenant, name string, inferred bool) (ToolRow, error) {
	rows, err := collect(r, scanTool, `SELECT `+toolColumns+` FROM tools WHERE tenant = ? AND name = ? AND inferred = ?`,
		tenant, name, inferred)
	if err != nil {
		return ToolRow{}, err
	}
	if len(rows) == 0 {
		return ToolRow{}, ErrNotFound
	}
	return rows[0], nil
}

// Tools lists all current definitions by name, the declared one of a name first.
func (r *Reader) Tools(tenant string) ([]ToolRow, error) {
	return collect(r, scanTool, `SELECT `+toolColumns+` FROM tools WHERE tenant = ? ORDER BY name, inferred`, tenant)
}

// ToolVersions lists every definition that a declared tool has had, newest first.
func (r *Reader) ToolVersions(tenant, name string) ([]ToolRow, error) {
	return collect(r, scanTool, `SELECT `+toolColumns+` FROM tool_versions
		WHERE tenant = ? AND name = ? AND inferred = 0 ORDER BY revision DESC`, tenant, name)
}

// PutTool stores a new definition whose Revision follows the current one, and keeps the old ones as versions.
// Errors: ErrStale when another definition was stored since.
func (tx *Tx) PutTool(tenant string, t ToolRow) error {
	args := []any{tenant, t.Name, t.Inferred, t.Revision, t.SchemaHash, t.DefinitionDigest, t.UpdatedBy, micros(t.UpdatedAt), t.Body}
	err := tx.swap(`INSERT INTO tools (tenant, name, inferred, revision, schema_hash, definition_digest, updated_by, updated_at, body)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (tenant, name, inferred) DO UPDATE SET revision = excluded.revision, schema_hash = excluded.schema_hash,
			definition_digest = excluded.definition_digest, updated_by = excluded.updated_by,
			updated_at = excluded.updated_at, body = excluded.body
		WHERE revision = excluded.revision - 1`, args...)
	if err != nil {
		return err
	}
	_, err = tx.exec(`INSERT INTO tool_versions (tenant, name, inferred, revision, schema_hash, definition_digest, updated_by, updated_at, body)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`, args...)
	return err
}
