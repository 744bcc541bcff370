package governance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"pave/flows"
	"pave/flows/schema"
	"pave/governance/store"
)

// ToolChange says what ApplyTools did with one tool.
type ToolChange struct {
	Name          string
	Change        string // created, updated, unchanged
	SchemaChanged bool
	Riskier       bool // its side effects are worse than before
	Revision      int64
}

// ApplyReport is the outcome of ApplyTools. NeedsReview lists the flow versions ("name@version") that a changed
// schema or worse side effects took out of service.
type ApplyReport struct {
	Tools       []ToolChange
	Servers     []ToolChange
	NeedsReview []string
}

// ApplyTools declares tools: new ones are created, changed ones get a new version, equal ones stay. A schema
// that is not the one a flow version was approved with sends that version to needs_review, and so do side effects
// that are worse than before, for which other approvals may be due. All or nothing.
func (s *Service) ApplyTools(ctx context.Context, actor Actor, tools []*flows.Tool) (ApplyReport, error) {
	return s.applyTools(ctx, actor, tools, 0)
}

// ApplyTool declares one tool; ifRevision is the revision that the caller read, Absent when there was no tool, 0
// when none was given.
func (s *Service) ApplyTool(ctx context.Context, actor Actor, tool *flows.Tool, ifRevision int64) (ApplyReport, error) {
	return s.applyTools(ctx, actor, []*flows.Tool{tool}, ifRevision)
}

func (s *Service) applyTools(ctx context.Context, actor Actor, tools []*flows.Tool, ifRevision int64) (ApplyReport, error) {
	if err := checkTools(tools); err != nil {
		return ApplyReport{}, err
	}
	var report ApplyReport
	err := s.update(ctx, actor, ActionAdmin, func(c *change) (err error) {
		report, err = c.applyTools(tools, ifRevision)
		return err
	})
	return report, err
}

func (c *change) applyTools(tools []*flows.Tool, ifRevision int64) (report ApplyReport, err error) {
	var touched []string
	for _, tool := range tools {
		done, err := c.putTool(tool, false, ifRevision)
		if err != nil {
			return report, err
		}
		report.Tools = append(report.Tools, done)
		if done.Change == "unchanged" {
			continue
		}
		touched = append(touched, done.Name)
		if err := c.audit("tool.apply", "tool/"+done.Name, map[string]any{"change": done.Change,
			"schema_changed": done.SchemaChanged, "riskier": done.Riskier, "revision": done.Revision}); err != nil {
			return report, err
		}
		gone, err := c.driftOf(tool, done.Riskier)
		if err != nil {
			return report, err
		}
		report.NeedsReview = append(report.NeedsReview, gone...)
	}
	if touched == nil {
		return report, nil
	}
	return report, c.rejudge(touched)
}

// putTool stores a definition when it differs from the current one.
func (c *change) putTool(tool *flows.Tool, inferred bool, ifRevision int64) (ToolChange, error) {
	body, err := json.Marshal(tool)
	if err != nil {
		return ToolChange{}, fmt.Errorf("encode tool %s: %w", tool.Name, err)
	}
	row := store.ToolRow{Name: tool.Name, Inferred: inferred, SchemaHash: flows.SchemaHash(tool), DefinitionDigest: flows.DefinitionDigest(tool),
		UpdatedBy: c.actor.Principal, UpdatedAt: c.at, Body: body}
	done := ToolChange{Name: tool.Name, Change: "created"}
	old, err := c.Tool(c.tenant, tool.Name, inferred)
	switch {
	case err == nil:
		done.Change, done.SchemaChanged = "updated", old.SchemaHash != row.SchemaHash
		if bytes.Equal(old.Body, body) {
			done.Change = "unchanged"
		}
		was, err := toolVersion(old)
		if err != nil {
			return done, err
		}
		done.Riskier = flows.Exceeds(flows.Effects(tool.Safety), flows.Effects(was.Tool.Safety))
	case !errors.Is(err, store.ErrNotFound):
		return done, err
	}
	if err := checkRevision("tool "+tool.Name, ifRevision, old.Revision); err != nil {
		return done, err
	}
	if done.Revision = old.Revision; done.Change == "unchanged" {
		return done, nil
	}
	row.Revision = old.Revision + 1
	done.Revision = row.Revision
	return done, c.PutTool(c.tenant, row)
}

// driftOf takes the active flow versions that pin another schema of the tool out of service, or all that use it
// when its side effects got worse.
func (c *change) driftOf(tool *flows.Tool, riskier bool) ([]string, error) {
	pins, err := c.PinsOn(c.tenant, tool.Name)
	if err != nil {
		return nil, err
	}
	hash := flows.SchemaHash(tool)
	var gone []string
	for _, pin := range pins {
		if pin.SchemaHash == hash && !riskier {
			continue
		}
		reason := "the schema of tool " + tool.Name + " is not the one that was approved"
		if riskier {
			reason = "the side effects of tool " + tool.Name + " are worse than those that were approved"
		}
		suspended, err := c.suspend(pin.Flow, pin.Version, reason,
			map[string]any{"tool": tool.Name, "pinned": pin.SchemaHash, "now": hash, "riskier": riskier})
		if err != nil {
			return nil, err
		}
		if suspended {
			gone = append(gone, pin.Flow+"@"+pin.Version)
		}
	}
	return gone, nil
}

// suspend sends a flow version to review because a tool drifted; false when it is not active.
func (c *change) suspend(flow, version, reason string, detail map[string]any) (bool, error) {
	row, err := c.FlowVersion(c.tenant, flow, version)
	if err != nil || row.Status != string(flows.StatusActive) {
		return false, err
	}
	v, err := flowVersion(row)
	if err != nil {
		return false, err
	}
	return true, c.setStatus(v, flows.StatusNeedsReview, nil, "flow.drift", reason, detail)
}

// RecordInferred keeps tool definitions that were inferred from observed values. They inform schemas and
// reviews, never overwrite a declared tool and never run. What is observed has any name: a definition that no
// tool file could hold is left out, and does not stop the others.
func (s *Service) RecordInferred(ctx context.Context, actor Actor, tools []*flows.Tool) error {
	tools = slices.DeleteFunc(slices.Clone(tools), func(tool *flows.Tool) bool {
		err := checkTools([]*flows.Tool{tool})
		if err != nil {
			s.log.InfoContext(ctx, "an observed tool cannot be declared", "tool", tool.Name, "error", err)
		}
		return err != nil
	})
	return s.update(ctx, actor, ActionPropose, func(c *change) error {
		var changed []string
		for _, tool := range tools {
			done, err := c.putTool(tool, true, 0)
			if err != nil {
				return err
			}
			if done.Change != "unchanged" {
				changed = append(changed, tool.Name)
			}
		}
		if changed == nil {
			return nil
		}
		return c.audit("tool.infer", "tools", map[string]any{"tools": changed})
	})
}

// checkTools refuses names, schemas and repetitions that could not be kept.
func checkTools(tools []*flows.Tool) error {
	var details []flows.ErrorDetail
	seen := map[string]bool{}
	for i, tool := range tools {
		at := func(field, code, detail string) {
			details = append(details, flows.ErrorDetail{Pointer: fmt.Sprintf("/%d/%s", i, field), Code: code, Detail: detail})
		}
		if !ValidToolName(tool.Name) {
			at("name", "invalid", fmt.Sprintf("tool name %q: use 1 to 128 of A-Z a-z 0-9 _ . -", tool.Name))
		} else if seen[tool.Name] {
			at("name", "duplicate", "tool "+tool.Name+" is declared twice")
		}
		seen[tool.Name] = true
		if _, err := schema.Compile(tool.InputSchema); tool.InputSchema != nil && err != nil {
			at("input_schema", "invalid", tool.Name+": "+err.Error())
		}
		if _, err := schema.Compile(tool.OutputSchema); tool.OutputSchema != nil && err != nil {
			at("output_schema", "invalid", tool.Name+": "+err.Error())
		}
	}
	if len(details) == 0 {
		return nil
	}
	return flows.NewError(flows.CodeInvalid, details[0].Detail, details...)
}

// ValidToolName says whether a tool file could declare a tool of this name.
func ValidToolName(name string) bool {
	if name == "" || len(name) > 128 {
		return false
	}
	return !slices.ContainsFunc([]byte(name), func(b byte) bool {
		letter := b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9'
		return !letter && b != '_' && b != '.' && b != '-'
	})
}

// Tools lists the current definitions by name: the declared one, else the inferred one (see Tool.Origin).
func (s *Service) Tools(ctx context.Context, actor Actor) (out []ToolVersion, err error) {
	err = s.view(ctx, actor, ActionRead, func(r *store.Reader, tenant string, _ Policy) error {
		lib, err := toolsIn(r, tenant)
		if err != nil {
			return err
		}
		for _, t := range lib.toolset {
			out = append(out, t)
		}
		return nil
	})
	slices.SortFunc(out, func(a, b ToolVersion) int { return strings.Compare(a.Tool.Name, b.Tool.Name) })
	return out, err
}

// DeclaredTools lists the declared tools by name, for those who make candidates of them.
func (s *Service) DeclaredTools(ctx context.Context, actor Actor) (out []*flows.Tool, err error) {
	err = s.view(ctx, actor, ActionPropose, func(r *store.Reader, tenant string, _ Policy) error {
		rows, err := r.Tools(tenant)
		if err != nil {
			return err
		}
		for _, row := range rows {
			if row.Inferred {
				continue
			}
			t, err := toolVersion(row)
			if err != nil {
				return err
			}
			out = append(out, t.Tool)
		}
		return nil
	})
	return out, err
}

// Tool reads the current definition of one tool, declared before inferred.
func (s *Service) Tool(ctx context.Context, actor Actor, name string) (v *ToolVersion, err error) {
	err = s.view(ctx, actor, ActionRead, func(r *store.Reader, tenant string, _ Policy) error {
		row, err := r.Tool(tenant, name, false)
		if errors.Is(err, store.ErrNotFound) {
			row, err = r.Tool(tenant, name, true)
		}
		if err != nil {
			return notFound(err, "there is no tool %q", name)
		}
		v, err = toolVersion(row)
		return err
	})
	return v, err
}

// ToolVersions lists every definition that a declared tool has had, newest first.
func (s *Service) ToolVersions(ctx context.Context, actor Actor, name string) (out []ToolVersion, err error) {
	err = s.view(ctx, actor, ActionRead, func(r *store.Reader, tenant string, _ Policy) error {
		rows, err := r.ToolVersions(tenant, name)
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			return notFound(store.ErrNotFound, "there is no declared tool %q", name)
		}
		for _, row := range rows {
			v, err := toolVersion(row)
			if err != nil {
				return err
			}
			out = append(out, *v)
		}
		return nil
	})
	return out, err
}
