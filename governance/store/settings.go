package store

// Setting reads a named JSON value and its revision. Errors: ErrNotFound.
func (r *Reader) Setting(tenant, name string) (value []byte, revision int64, err error) {
	err = r.row(`SELECT value, revision FROM settings WHERE tenant = ? AND name = ?`, []any{tenant, name}, &value, &revision)
	return value, revision, err
}

// PutSetting stores a value over the one with revision ifRevision, 0 when there is none yet; the new revision
// is one higher. Errors: ErrStale.
func (tx *Tx) PutSetting(tenant, name string, value []byte, ifRevision int64) error {
	if ifRevision == 0 {
		return tx.swap(`INSERT INTO settings (tenant, name, revision, value) VALUES (?, ?, 1, ?) ON CONFLICT DO NOTHING`, tenant, name, value)
	}
	return tx.swap(`UPDATE settings SET value = ?, revision = revision + 1 WHERE tenant = ? AND name = ? AND revision = ?`,
		value, tenant, name, ifRevision)
}

// SettingRow is a named value.
type SettingRow struct {
	Name     string
	Revision int64
	Value    []byte
}

// SettingsLike lists the values whose names begin with prefix, by name.
func (r *Reader) SettingsLike(tenant, prefix string) ([]SettingRow, error) {
	return collect(r, func(s scanner) (row SettingRow, err error) {
		err = s.Scan(&row.Name, &row.Revision, &row.Value)
		return row, err
	}, `SELECT name, revision, value FROM settings WHERE tenant = ? AND substr(name, 1, ?) = ? ORDER BY name`, tenant, len(prefix), prefix)
}
