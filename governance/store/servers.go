package store

import "time"

// ServerRow is an MCP server.
type ServerRow struct {
	Name      string
	Revision  int64 // 1 for the first definition
	UpdatedBy string
	UpdatedAt time.Time
	Body      []byte // the server document as JSON
}

// DiscoveredRow is one tool that a server listed.
type DiscoveredRow struct {
	Server string
	Remote string
	Digest string
	SeenAt time.Time
	Body   []byte // the tool document as JSON
}

func scanServer(s scanner) (r ServerRow, err error) {
	var at int64
	err = s.Scan(&r.Name, &r.Revision, &r.UpdatedBy, &at, &r.Body)
	r.UpdatedAt = fromMicros(at)
	return r, err
}

func scanDiscovered(s scanner) (r DiscoveredRow, err error) {
	var at int64
	err = s.Scan(&r.Server, &r.Remote, &r.Digest, &at, &r.Body)
	r.SeenAt = fromMicros(at)
	return r, err
}

// Servers lists the MCP servers by name.
func (r *Reader) Servers(tenant string) ([]ServerRow, error) {
	return collect(r, scanServer, `SELECT name, revision, updated_by, updated_at, body FROM mcp_servers WHERE tenant = ? ORDER BY name`, tenant)
}

// Server reads one MCP server. Errors: ErrNotFound.
func (r *Reader) Server(tenant, name string) (ServerRow, error) {
	rows, err := collect(r, scanServer, `SELECT name, revision, updated_by, updated_at, body FROM mcp_servers WHERE tenant = ? AND name = ?`, tenant, name)
	if err != nil {
		return ServerRow{}, err
	}
	if len(rows) == 0 {
		return ServerRow{}, ErrNotFound
	}
	return rows[0], nil
}

// PutServer stores a server whose Revision follows the current one. Errors: ErrStale when another was stored since.
func (tx *Tx) PutServer(tenant string, s ServerRow) error {
	return tx.swap(`INSERT INTO mcp_servers (tenant, name, revision, updated_by, updated_at, body) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (tenant, name) DO UPDATE SET revision = excluded.revision, updated_by = excluded.updated_by,
			updated_at = excluded.updated_at, body = excluded.body
		WHERE revision = excluded.revision - 1`, tenant, s.Name, s.Revision, s.UpdatedBy, micros(s.UpdatedAt), s.Body)
}

// Discovered lists what servers listed, by server and remote name; server "" lists all.
func (r *Reader) Discovered(tenant, server string) ([]DiscoveredRow, error) {
	return collect(r, scanDiscovered, `SELECT server, remote, digest, seen_at, body FROM discovered_tools
		WHERE tenant = ? AND (? = '' OR server = ?) ORDER BY server, remote`, tenant, server, server)
}

// PutDiscovered replaces what is known of a server's list.
func (tx *Tx) PutDiscovered(tenant, server string, rows []DiscoveredRow) error {
	if _, err := tx.exec(`DELETE FROM discovered_tools WHERE tenant = ? AND server = ?`, tenant, server); err != nil {
		return err
	}
	for _, d := range rows {
		if _, err := tx.exec(`INSERT INTO discovered_tools (tenant, server, remote, digest, seen_at, body) VALUES (?, ?, ?, ?, ?, ?)`,
			tenant, server, d.Remote, d.Digest, micros(d.SeenAt), d.Body); err != nil {
			return err
		}
	}
	return nil
}
