package governance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"pave/flows"
	"pave/flows/diff"
	"pave/flows/schema"
	"pave/governance/store"
)

// MCPServer is a declared server of the Model Context Protocol.
type MCPServer struct {
	Server    *flows.MCPServer
	Revision  int64
	UpdatedBy string
	UpdatedAt time.Time
	Tools     []DiscoveredTool // what it listed when it was read last
}

// Match says how a discovered tool relates to the catalogue.
type Match string

const (
	MatchNew      Match = "new"       // nothing of this name is known
	MatchBound    Match = "bound"     // a tool is bound to it, and pinned to this definition
	MatchChanged  Match = "changed"   // a tool is bound to it, and pinned to another definition
	MatchObserved Match = "observed"  // agents were seen calling a tool of this name with arguments that it takes
	MatchDiffers  Match = "differs"   // agents were seen calling a tool of this name, but not with its arguments
	MatchUnbound  Match = "unbound"   // a tool of this name is declared without a way to reach it
	MatchElse     Match = "elsewhere" // a tool of this name is reached in another way
)

// DiscoveredTool is a tool that a server lists. Tool is nil when it cannot be used; Reason says why, or why it does not
// match.
type DiscoveredTool struct {
	Server string
	Remote string
	Tool   *flows.Tool
	Digest string
	SeenAt time.Time
	Match  Match
	For    string // the name of the tool in the catalogue that is, or would be, bound to it
	Reason string
}

// ApplyToolFile declares what a tool file holds, all or nothing: MCP servers first, then tools as ApplyTools does.
func (s *Service) ApplyToolFile(ctx context.Context, actor Actor, file *flows.ToolFile) (ApplyReport, error) {
	if err := checkTools(file.Tools); err != nil {
		return ApplyReport{}, err
	}
	var report ApplyReport
	err := s.update(ctx, actor, ActionAdmin, func(c *change) (err error) {
		var changed []string
		for _, server := range file.Servers {
			done, err := c.putServer(server)
			if err != nil {
				return err
			}
			changed = append(changed, done)
		}
		report, err = c.applyTools(file.Tools, 0)
		report.Servers = nil
		for i, server := range file.Servers {
			report.Servers = append(report.Servers, ToolChange{Name: server.Name, Change: changed[i]})
		}
		return err
	})
	return report, err
}

// putServer stores a server when it differs from the current one.
func (c *change) putServer(server *flows.MCPServer) (string, error) {
	body, err := json.Marshal(server)
	if err != nil {
		return "", fmt.Errorf("encode MCP server %s: %w", server.Name, err)
	}
	old, err := c.Server(c.tenant, server.Name)
	done := "created"
	switch {
	case err == nil && bytes.Equal(old.Body, body):
		return "unchanged", nil
	case err == nil:
		done = "updated"
	case !errors.Is(err, store.ErrNotFound):
		return "", err
	}
	if err := c.PutServer(c.tenant, store.ServerRow{Name: server.Name, Revision: old.Revision + 1, UpdatedBy: c.actor.Principal, UpdatedAt: c.at, Body: body}); err != nil {
		return "", err
	}
	return done, c.audit("mcp_server.apply", "mcp-server/"+server.Name, map[string]any{"change": done, "transport": server.Transport, "command": server.Command, "url": server.URL})
}

// ServerOf finds a server for a binding. The same definition gives the same pointer.
func (s *Service) ServerOf(ctx context.Context, tenant, name string) (*flows.MCPServer, error) {
	var row store.ServerRow
	err := s.db.View(ctx, func(r *store.Reader) (err error) {
		row, err = r.Server(tenant, name)
		return notFound(err, "there is no MCP server %q; declare it in a tool file (kind: MCPServer) and apply it", name)
	})
	if err != nil {
		return nil, visible(err)
	}
	key := tenant + "/" + name
	s.serversMu.Lock()
	defer s.serversMu.Unlock()
	if known, ok := s.servers[key]; ok && known.revision == row.Revision {
		return known.server, nil
	}
	server := new(flows.MCPServer)
	if err := json.Unmarshal(row.Body, server); err != nil {
		return nil, fmt.Errorf("stored MCP server %s: %w", name, err)
	}
	s.servers[key] = knownServer{row.Revision, server}
	return server, nil
}

type knownServer struct {
	revision int64
	server   *flows.MCPServer
}

// MCPServers lists the declared servers by name with what they listed last.
func (s *Service) MCPServers(ctx context.Context, actor Actor) (out []MCPServer, err error) {
	err = s.view(ctx, actor, ActionRead, func(r *store.Reader, tenant string, _ Policy) error {
		rows, err := r.Servers(tenant)
		if err != nil {
			return err
		}
		found, err := discoveredIn(r, tenant, "")
		if err != nil {
			return err
		}
		for _, row := range rows {
			m := MCPServer{Revision: row.Revision, UpdatedBy: row.UpdatedBy, UpdatedAt: row.UpdatedAt, Server: new(flows.MCPServer)}
			if err := json.Unmarshal(row.Body, m.Server); err != nil {
				return fmt.Errorf("stored MCP server %s: %w", row.Name, err)
			}
			for _, d := range found {
				if d.Server == row.Name {
					m.Tools = append(m.Tools, d)
				}
			}
			out = append(out, m)
		}
		return nil
	})
	return out, err
}

// ServerListed takes in what a server lists now: the definitions are kept, a bound tool that is pinned to none is pinned
// to what it is bound to, and flows whose tools are pinned to another definition than the server now has go to review.
func (s *Service) ServerListed(ctx context.Context, tenant, server string, tools []DiscoveredTool) (report ApplyReport, err error) {
	system := Actor{Tenant: tenant, Principal: SystemPrincipal, Scopes: []Scope{ScopeAdmin}}
	err = s.update(ctx, system, ActionAdmin, func(c *change) error {
		report = ApplyReport{}
		rows := make([]store.DiscoveredRow, 0, len(tools))
		now := map[string]DiscoveredTool{}
		for _, d := range tools {
			if d.Tool == nil {
				continue
			}
			body, err := json.Marshal(d.Tool)
			if err != nil {
				return fmt.Errorf("encode tool %s: %w", d.Remote, err)
			}
			now[d.Remote] = d
			rows = append(rows, store.DiscoveredRow{Server: server, Remote: d.Remote, Digest: d.Digest, SeenAt: c.at, Body: body})
		}
		if err := c.PutDiscovered(c.tenant, server, rows); err != nil {
			return err
		}
		all, err := c.Tools(c.tenant)
		if err != nil {
			return err
		}
		for _, row := range all {
			t, err := toolVersion(row)
			if err != nil {
				return err
			}
			if b := t.Tool.Binding; row.Inferred || b == nil || b.Kind != flows.BindMCP || b.Server != server {
				continue
			}
			if err := c.listed(t.Tool, now[t.Tool.Binding.Tool], &report); err != nil {
				return err
			}
		}
		return nil
	})
	return report, err
}

// listed compares one bound tool with what its server has now; found is empty when the server has it no more.
func (c *change) listed(tool *flows.Tool, found DiscoveredTool, report *ApplyReport) error {
	switch pin := tool.Binding.DefinitionDigest; {
	case found.Tool != nil && pin == found.Digest:
		return nil
	case found.Tool != nil && pin == "":
		pinned := *tool
		binding := *tool.Binding
		binding.DefinitionDigest = found.Digest
		pinned.Binding = &binding
		done, err := c.putTool(&pinned, false, 0)
		if err != nil {
			return err
		}
		report.Tools = append(report.Tools, done)
		return c.audit("tool.pin", "tool/"+tool.Name, map[string]any{"server": binding.Server, "definition_digest": found.Digest, "first": true})
	}
	reason := "MCP server " + tool.Binding.Server + " changed the definition of tool " + tool.Name
	if found.Tool == nil {
		reason = "MCP server " + tool.Binding.Server + " has no tool " + tool.Binding.Tool + " any more"
	}
	gone, err := c.suspendUsers(tool.Name, reason, map[string]any{"tool": tool.Name, "server": tool.Binding.Server, "pinned": tool.Binding.DefinitionDigest, "now": found.Digest})
	report.NeedsReview = append(report.NeedsReview, gone...)
	return err
}

// suspendUsers sends the active versions of flows that use a tool to review.
func (c *change) suspendUsers(tool, reason string, detail map[string]any) ([]string, error) {
	pins, err := c.PinsOn(c.tenant, tool)
	if err != nil {
		return nil, err
	}
	var gone []string
	for _, pin := range pins {
		suspended, err := c.suspend(pin.Flow, pin.Version, reason, maps.Clone(detail))
		if err != nil {
			return nil, err
		}
		if suspended {
			gone = append(gone, pin.Flow+"@"+pin.Version)
		}
	}
	return gone, nil
}

// discoveredIn reads what servers listed and matches it with the catalogue.
func discoveredIn(r *store.Reader, tenant, server string) ([]DiscoveredTool, error) {
	rows, err := r.Discovered(tenant, server)
	if err != nil {
		return nil, err
	}
	known, err := r.Tools(tenant)
	if err != nil {
		return nil, err
	}
	catalogue := make([]*ToolVersion, 0, len(known))
	for _, row := range known {
		t, err := toolVersion(row)
		if err != nil {
			return nil, err
		}
		catalogue = append(catalogue, t)
	}
	out := make([]DiscoveredTool, len(rows))
	for i, row := range rows {
		d := DiscoveredTool{Server: row.Server, Remote: row.Remote, Digest: row.Digest, SeenAt: row.SeenAt, Tool: new(flows.Tool)}
		if err := json.Unmarshal(row.Body, d.Tool); err != nil {
			return nil, fmt.Errorf("stored definition of %s: %w", row.Remote, err)
		}
		d.match(catalogue)
		out[i] = d
	}
	return out, nil
}

// match finds the tool of the catalogue that a discovered one is, or would be, bound to.
func (d *DiscoveredTool) match(catalogue []*ToolVersion) {
	d.Match, d.For = MatchNew, d.Remote
	for _, t := range catalogue {
		b := t.Tool.Binding
		if b != nil && b.Kind == flows.BindMCP && b.Server == d.Server && b.Tool == d.Remote && t.Tool.Origin != flows.ToolInferred {
			d.Match, d.For = MatchBound, t.Tool.Name
			if b.DefinitionDigest != "" && b.DefinitionDigest != d.Digest {
				d.Match = MatchChanged
			}
			return
		}
	}
	for _, t := range catalogue { // declared ones come first
		if t.Tool.Name != d.Remote {
			continue
		}
		switch {
		case t.Tool.Origin != flows.ToolInferred && t.Tool.Binding == nil:
			d.Match = MatchUnbound
		case t.Tool.Origin != flows.ToolInferred:
			d.Match, d.Reason = MatchElse, "its binding is "+t.Tool.Binding.Kind
		default:
			d.Match = MatchObserved
			if d.Reason = takes(t.Tool.InputSchema, d.Tool.InputSchema); d.Reason != "" {
				d.Match = MatchDiffers
			}
		}
		return
	}
}

// takes says why arguments as they were observed would not be taken, "" when they would.
func takes(observed, declared flows.RawSchema) string {
	if observed == nil || declared == nil {
		return ""
	}
	out, err := schema.Compile(observed)
	if err != nil {
		return ""
	}
	in, err := schema.Compile(declared)
	if err != nil {
		return "its input schema: " + err.Error()
	}
	if ok, reason := schema.Assignable(out, in); !ok {
		return "observed arguments: " + reason
	}
	return ""
}

// PinRequest accepts a definition that a server lists. Server may be "" when only one has the tool. Force accepts one
// that does not take the arguments with which agents were seen calling the tool.
type PinRequest struct {
	Server string
	Force  bool
}

// PinTool binds a tool of the catalogue to a discovered one and accepts its definition, or accepts the definition that a
// bound tool has now. Flows that were approved with another schema or less side effects go to review.
func (s *Service) PinTool(ctx context.Context, actor Actor, name string, req PinRequest) (report ApplyReport, err error) {
	err = s.update(ctx, actor, ActionAdmin, func(c *change) error {
		found, err := c.discoveredFor(name, req.Server)
		if err != nil {
			return err
		}
		if found.Match == MatchDiffers && !req.Force {
			return flows.NewError(flows.CodeConflict, fmt.Sprintf("%s of server %s does not take what agents were seen sending to %s (%s); compare them, and force the pin if it is the right one",
				found.Remote, found.Server, name, found.Reason))
		}
		tool := *found.Tool
		tool.Name, tool.Origin = name, flows.ToolDiscovered
		if old, err := c.Tool(c.tenant, name, false); err == nil { // what an operator set stays
			was, err := toolVersion(old)
			if err != nil {
				return err
			}
			tool.TimeoutSeconds, tool.MaxOutputSize, tool.Metadata, tool.SchemaVersion = was.Tool.TimeoutSeconds, was.Tool.MaxOutputSize, was.Tool.Metadata, was.Tool.SchemaVersion
			if was.Tool.Safety != nil && was.Tool.Safety.Source != "mcp_annotations" {
				tool.Safety, tool.DeclaredIdempotent, tool.Cacheable = was.Tool.Safety, was.Tool.DeclaredIdempotent, was.Tool.Cacheable
			}
			if tool.OutputSchema == nil {
				tool.OutputSchema = was.Tool.OutputSchema
			}
		} else if !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if report, err = c.applyTools([]*flows.Tool{&tool}, 0); err != nil {
			return err
		}
		return c.audit("tool.pin", "tool/"+name, map[string]any{"server": found.Server, "definition_digest": found.Digest, "match": found.Match, "force": req.Force})
	})
	return report, err
}

// discoveredFor finds the one discovered tool for a name of the catalogue.
func (c *change) discoveredFor(name, server string) (*DiscoveredTool, error) {
	all, err := discoveredIn(&c.Reader, c.tenant, server)
	if err != nil {
		return nil, err
	}
	var found *DiscoveredTool
	for i := range all {
		if all[i].For != name {
			continue
		}
		if all[i].Match == MatchBound || all[i].Match == MatchChanged { // the one that it is bound to
			return &all[i], nil
		}
		if found != nil {
			return nil, flows.NewError(flows.CodeConflict, fmt.Sprintf("servers %s and %s both have a tool %s; name the server", found.Server, all[i].Server, name))
		}
		found = &all[i]
	}
	if found == nil {
		return nil, flows.NewError(flows.CodeNotFound, fmt.Sprintf("no MCP server has listed a tool %q; ask one first (pave tools discover SERVER)", name))
	}
	return found, nil
}

// ToolDrift compares the accepted definition of a tool with what its server lists now, or, for a tool that no server
// has, with what agents were seen sending and getting. The second result says what is compared.
func (s *Service) ToolDrift(ctx context.Context, actor Actor, name string) (d *diff.ToolDiff, against string, err error) {
	err = s.view(ctx, actor, ActionRead, func(r *store.Reader, tenant string, _ Policy) error {
		row, err := r.Tool(tenant, name, false)
		if err != nil {
			return notFound(err, "there is no declared tool %q", name)
		}
		t, err := toolVersion(row)
		if err != nil {
			return err
		}
		now := t.Tool
		against = "its own declaration: nothing else is known of it"
		if b := t.Tool.Binding; b != nil && b.Kind == flows.BindMCP {
			found, err := discoveredIn(r, tenant, b.Server)
			if err != nil {
				return err
			}
			against = "MCP server " + b.Server + ", which does not list it"
			for _, f := range found {
				if f.Remote == b.Tool {
					now, against = f.Tool, "MCP server "+b.Server
					if t.Tool.Safety != nil && t.Tool.Safety.Source != "mcp_annotations" {
						same := *now // the reviewer's word on safety stands beside the server's
						same.Safety, same.DeclaredIdempotent = t.Tool.Safety, t.Tool.DeclaredIdempotent
						now = &same
					}
				}
			}
		}
		d, err = diff.Tools(t.Tool, now)
		return err
	})
	return d, against, err
}

// binders says of each tool without a binding what would bind it.
func (l *library) binders(unbound []string) map[string]string {
	if len(unbound) == 0 {
		return nil
	}
	out := make(map[string]string, len(unbound))
	found, err := l.found()
	for _, name := range unbound {
		out[name] = "a tool document with this name and a binding (kind: http, mcp, worker or local) would bind it: `pave tools apply FILE`"
		for _, d := range found {
			if err != nil || d.For != name || d.Match == MatchBound || d.Match == MatchChanged {
				continue
			}
			out[name] = fmt.Sprintf("MCP server %s lists a tool of this name: `pave tools pin %s --mcp %s` binds it", d.Server, name, d.Server)
			if d.Match == MatchDiffers {
				out[name] += ", but " + d.Reason
			}
		}
	}
	return out
}
