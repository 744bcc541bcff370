package governance

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"pave/flows"
	"pave/flows/diff"
	"pave/flows/value"
	"pave/governance/store"
)

// Comment is a remark on a draft: on the whole of it, or on the place that Pointer leads to in the flow document, such
// as /steps/1 or /steps/1/input_mapping. Outdated says that this place is not what it was when the remark was made.
type Comment struct {
	ID        string
	Principal string
	Pointer   string
	Digest    string // of the draft that it was made on
	Body      string
	At        time.Time
	Outdated  bool
}

// CommentRequest is a remark to make.
type CommentRequest struct {
	Pointer string
	Body    string
}

// maxComment bounds a remark, in bytes.
const maxComment = 10_000

// Comment makes a remark on a proposal, open or not. A pointer that leads nowhere in the draft is CodeInvalid.
func (s *Service) Comment(ctx context.Context, actor Actor, ref string, req CommentRequest) (*Comment, error) {
	if strings.TrimSpace(req.Body) == "" || len(req.Body) > maxComment {
		return nil, flows.NewError(flows.CodeInvalid, fmt.Sprintf("a remark has 1 to %d bytes of text", maxComment),
			flows.ErrorDetail{Pointer: "/body", Code: "length", Detail: fmt.Sprintf("1 to %d bytes", maxComment)})
	}
	var made *Comment
	err := s.update(ctx, actor, ActionComment, func(c *change) error {
		e, err := find(&c.Reader, c.tenant, ref)
		if err != nil {
			return err
		}
		anchor, err := anchorOf(e.Flow, req.Pointer)
		if err != nil {
			return err
		}
		if anchor == "" {
			return flows.NewError(flows.CodeInvalid, fmt.Sprintf("%q leads nowhere in the draft; use a JSON pointer such as /steps/0", req.Pointer),
				flows.ErrorDetail{Pointer: "/pointer", Code: "not_found", Detail: "a JSON pointer into the flow document"})
		}
		made = &Comment{ID: s.newID(), Principal: actor.Principal, Pointer: req.Pointer, Digest: e.Digest, Body: req.Body, At: c.at}
		if err := c.InsertComment(c.tenant, e.ID, store.CommentRow{ID: made.ID, Principal: made.Principal, Pointer: made.Pointer,
			Anchor: anchor, Digest: made.Digest, Body: made.Body, At: made.At}); err != nil {
			return err
		}
		return c.audit("proposal.comment", "proposal/"+e.ID, map[string]any{"comment": made.ID, "pointer": made.Pointer})
	})
	if err != nil {
		return nil, err
	}
	return made, nil
}

// Comments lists the remarks on a proposal, oldest first.
func (s *Service) Comments(ctx context.Context, actor Actor, ref string) (out []Comment, err error) {
	err = s.view(ctx, actor, ActionRead, func(r *store.Reader, tenant string, _ Policy) error {
		e, err := find(r, tenant, ref)
		if err != nil {
			return err
		}
		rows, err := r.Comments(tenant, e.ID)
		if err != nil {
			return err
		}
		for _, row := range rows {
			anchor, err := anchorOf(e.Flow, row.Pointer)
			if err != nil {
				return err
			}
			out = append(out, Comment{ID: row.ID, Principal: row.Principal, Pointer: row.Pointer, Digest: row.Digest, Body: row.Body,
				At: row.At, Outdated: anchor != row.Anchor})
		}
		return nil
	})
	return out, err
}

// anchorOf is a digest of what a pointer leads to in a flow document, "" when it leads nowhere.
func anchorOf(flow *flows.Flow, pointer string) (string, error) {
	doc, err := value.Of(flow)
	if err != nil {
		return "", fmt.Errorf("flow document: %w", err)
	}
	found, ok := value.Lookup(doc, pointer)
	if !ok {
		return "", nil
	}
	sum := sha256.Sum256(value.Canonical(found))
	return hex.EncodeToString(sum[:]), nil
}

// Diff compares a proposal's draft with a flow version: against is "name@version", or "" for the active version of the
// flow. Where there is none, everything in the draft is new. What a promotion writes is left out: it is in every version
// and in no draft, and nobody edited it.
func (s *Service) Diff(ctx context.Context, actor Actor, ref, against string) (d *diff.Diff, err error) {
	err = s.view(ctx, actor, ActionRead, func(r *store.Reader, tenant string, _ Policy) error {
		e, err := find(r, tenant, ref)
		if err != nil {
			return err
		}
		name, version, exact := strings.Cut(against, "@")
		if against != "" && (!exact || name == "" || version == "") {
			return flows.NewError(flows.CodeInvalid, fmt.Sprintf("against %q: use NAME@VERSION", against),
				flows.ErrorDetail{Pointer: "against", Code: "invalid", Detail: "NAME@VERSION"})
		}
		if against == "" {
			name = e.Flow.Name
		}
		before := &FlowVersion{Flow: &flows.Flow{Name: name, FormatVersion: e.Flow.FormatVersion, Type: e.Flow.Type}}
		row, err := flowRowIn(r, tenant, name, version)
		switch {
		case err == nil:
			if before, err = flowVersion(row); err != nil {
				return err
			}
		case against != "" || flows.CodeOf(err) != flows.CodeNotFound:
			return err
		}
		d, err = diff.Named(name+"@"+before.Flow.Version, asDrafted(before.Flow), e.Flow.Name+"@draft", asDrafted(e.Flow))
		return err
	})
	return d, err
}
