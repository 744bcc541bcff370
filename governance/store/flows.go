package store

import "time"

// Pointer is where the active pointer of a flow points: Version serves Share of the callers who name no version, 0 < Share
// <= 1, and Rest the others; Rest "" is none.
type Pointer struct {
	Version string
	Share   float64
	Rest    string
}

// FlowVersionRow is one version of a flow. Active says that the flow's active pointer names it.
type FlowVersionRow struct {
	Name       string
	Version    string
	Digest     string
	Status     string
	Revision   int64
	ProposalID string
	PromotedBy string
	CreatedAt  time.Time
	Flow       []byte    // the flow as JSON
	Savings    []byte    // JSON
	Reason     string    // of the status
	StatusAt   time.Time // since when it has the status; zero is since its promotion
	Active     bool
	Pointer    Pointer // of the flow
}

// PinRow is the tool definition that a flow version was approved with.
type PinRow struct {
	Flow, Version, Tool, SchemaHash string
}

const flowSelect = `SELECT v.name, v.version, v.digest, v.status, v.revision, v.proposal_id, v.promoted_by, v.created_at,
	v.flow, v.savings, v.reason, v.status_at, coalesce(f.active_version, ''), coalesce(f.share, 1), coalesce(f.rest_version, '')
	FROM flow_versions v LEFT JOIN flows f ON f.tenant = v.tenant AND f.name = v.name WHERE v.tenant = ?`

func scanFlow(s scanner) (f FlowVersionRow, err error) {
	var at, since int64
	err = s.Scan(&f.Name, &f.Version, &f.Digest, &f.Status, &f.Revision, &f.ProposalID, &f.PromotedBy, &at,
		&f.Flow, &f.Savings, &f.Reason, &since, &f.Pointer.Version, &f.Pointer.Share, &f.Pointer.Rest)
	f.CreatedAt, f.StatusAt, f.Active = fromMicros(at), fromMicros(since), f.Pointer.Version == f.Version
	return f, err
}

// FlowVersions lists every version of every flow (name "") or of one, by name, oldest version first.
func (r *Reader) FlowVersions(tenant, name string) ([]FlowVersionRow, error) {
	return collect(r, scanFlow, flowSelect+` AND (? = '' OR v.name = ?) ORDER BY v.name, v.created_at, v.version`, tenant, name, name)
}

// FlowVersion reads one version; version "" is the one that the active pointer names. Errors: ErrNotFound.
func (r *Reader) FlowVersion(tenant, name, version string) (FlowVersionRow, error) {
	rows, err := collect(r, scanFlow, flowSelect+` AND v.name = ? AND v.version = CASE ? WHEN '' THEN f.active_version ELSE ? END`,
		tenant, name, version, version)
	if err != nil {
		return FlowVersionRow{}, err
	}
	if len(rows) == 0 {
		return FlowVersionRow{}, ErrNotFound
	}
	return rows[0], nil
}

// InsertFlowVersion stores a new version with its pins. Errors: ErrExists.
func (tx *Tx) InsertFlowVersion(tenant string, f FlowVersionRow, pins map[string]string) error {
	if _, err := tx.exec(`INSERT INTO flow_versions
		(tenant, name, version, digest, status, revision, proposal_id, promoted_by, created_at, flow, savings)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, tenant, f.Name, f.Version, f.Digest, f.Status, f.Revision, f.ProposalID,
		f.PromotedBy, micros(f.CreatedAt), f.Flow, f.Savings); err != nil {
		return err
	}
	return tx.putPins(tenant, f.Name, f.Version, pins)
}

// NextFlowRevision is the revision of the next change of a flow. Revisions count over all versions of one: no two ever
// have the same, so that who changes the active version by the revision that they read never changes another one.
func (r *Reader) NextFlowRevision(tenant, name string) (next int64, err error) {
	err = r.row(`SELECT coalesce(max(revision), 0) + 1 FROM flow_versions WHERE tenant = ? AND name = ?`, []any{tenant, name}, &next)
	return next, err
}

// UpdateFlowVersion stores status, flow and revision of a version whose revision is still ifRevision; pins nil keeps the
// pins. Errors: ErrStale.
func (tx *Tx) UpdateFlowVersion(tenant string, f FlowVersionRow, pins map[string]string, ifRevision int64) error {
	if err := tx.swap(`UPDATE flow_versions SET status = ?, flow = ?, reason = ?, status_at = ?, revision = ?
		WHERE tenant = ? AND name = ? AND version = ? AND revision = ?`,
		f.Status, f.Flow, f.Reason, micros(f.StatusAt), f.Revision, tenant, f.Name, f.Version, ifRevision); err != nil {
		return err
	}
	if pins == nil {
		return nil
	}
	return tx.putPins(tenant, f.Name, f.Version, pins)
}

func (tx *Tx) putPins(tenant, name, version string, pins map[string]string) error {
	if _, err := tx.exec(`DELETE FROM flow_pins WHERE tenant = ? AND flow = ? AND version = ?`, tenant, name, version); err != nil {
		return err
	}
	for tool, hash := range pins {
		if _, err := tx.exec(`INSERT INTO flow_pins (tenant, flow, version, tool, schema_hash) VALUES (?, ?, ?, ?, ?)`,
			tenant, name, version, tool, hash); err != nil {
			return err
		}
	}
	return nil
}

// SetActive points the flow's active pointer.
func (tx *Tx) SetActive(tenant, name string, to Pointer) error {
	_, err := tx.exec(`INSERT INTO flows (tenant, name, active_version, share, rest_version) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (tenant, name) DO UPDATE SET active_version = excluded.active_version, share = excluded.share,
		rest_version = excluded.rest_version`, tenant, name, to.Version, to.Share, to.Rest)
	return err
}

// PinsOf lists the pins of one flow version, by tool.
func (r *Reader) PinsOf(tenant, name, version string) ([]PinRow, error) {
	return r.pins(`flow = ? AND version = ? ORDER BY tool`, tenant, name, version)
}

// PinsOn lists the flow versions that pin a tool, by flow and version.
func (r *Reader) PinsOn(tenant, tool string) ([]PinRow, error) {
	return r.pins(`tool = ? ORDER BY flow, version`, tenant, tool)
}

func (r *Reader) pins(where string, args ...any) ([]PinRow, error) {
	return collect(r, func(s scanner) (p PinRow, err error) {
		err = s.Scan(&p.Flow, &p.Version, &p.Tool, &p.SchemaHash)
		return p, err
	}, `SELECT flow, version, tool, schema_hash FROM flow_pins WHERE tenant = ? AND `+where, args...)
}
