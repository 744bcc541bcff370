package governance

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"pave/flows"
	"pave/governance/store"
)

// MaxBulk is how many proposals one bulk rejection takes.
const MaxBulk = 500

// BulkItem names a proposal to reject; Digest, when given, is the content that was read.
type BulkItem struct {
	ID     string
	Digest string
}

// BulkOutcome is what became of one item; Err is nil when it was rejected.
type BulkOutcome struct {
	ID  string
	Err *flows.Error
}

// BulkReject rejects proposals with one reason, in one transaction. An item that cannot be rejected says why and stops
// no other.
func (s *Service) BulkReject(ctx context.Context, actor Actor, items []BulkItem, reason string) (out []BulkOutcome, err error) {
	if len(items) == 0 || len(items) > MaxBulk {
		return nil, flows.NewError(flows.CodeInvalid, fmt.Sprintf("name 1 to %d proposals", MaxBulk),
			flows.ErrorDetail{Pointer: "/items", Code: "out_of_range", Detail: fmt.Sprintf("1 to %d", MaxBulk)})
	}
	if strings.TrimSpace(reason) == "" {
		return nil, flows.NewError(flows.CodeInvalid, "a rejection needs a reason",
			flows.ErrorDetail{Pointer: "/reason", Code: "missing", Detail: "the reason, for authors and for later passes"})
	}
	err = s.update(ctx, actor, ActionDisprove, func(c *change) error {
		out = make([]BulkOutcome, 0, len(items))
		tools, err := toolsIn(&c.Reader, c.tenant)
		if err != nil {
			return err
		}
		for _, item := range items {
			refused, err := c.rejectOne(item, reason, tools)
			if err != nil {
				return err
			}
			out = append(out, BulkOutcome{ID: item.ID, Err: refused})
		}
		return nil
	})
	return out, err
}

// rejectOne rejects one item; refused says why it may not be.
func (c *change) rejectOne(item BulkItem, reason string, tools *library) (refused *flows.Error, err error) {
	_, err = c.changeOne(item.ID, ActionDisprove, 0, tools, func(c *change, e *entry, now content, _ Decision) error {
		if item.Digest != "" && item.Digest != e.Digest {
			return flows.NewError(flows.CodeStale, fmt.Sprintf("the draft changed since it was read: its digest is %s now", e.Digest))
		}
		return c.review(e, ReviewRequest{Verdict: VerdictReject, Comment: reason}, now, false)
	})
	if errors.As(err, &refused) {
		return refused, nil
	}
	return nil, err
}

// Rejection is what is remembered of a proposal that was rejected or withdrawn: the pattern is not proposed again
// until one of Lifts holds.
type Rejection struct {
	ProposalID string
	PatternKey string
	Flow       string
	State      State
	Closing
	Support   int     // sessions behind it then, 0 for what was not mined
	Exactness float64 // share of examined occurrences that it reproduced then, or in which callers knew several calls; -1 when unknown
	// Lifts are the changes that let it come back, each for itself, in words with figures.
	Lifts []string
}

// Rejections lists what is remembered, the newest first, at most limit (0 means 50, at most 500).
func (s *Service) Rejections(ctx context.Context, actor Actor, limit int) (out []Rejection, err error) {
	err = s.view(ctx, actor, ActionRead, func(r *store.Reader, tenant string, _ Policy) error {
		rows, err := r.ProposalsSettled(tenant, limit, string(StateRejected), string(StateWithdrawn))
		if err != nil {
			return err
		}
		for _, row := range rows {
			e, err := load(r, tenant, row)
			if err != nil {
				return err
			}
			out = append(out, rejectionOf(e))
		}
		return nil
	})
	return out, err
}

func rejectionOf(e *entry) Rejection {
	j := Rejection{ProposalID: e.ID, PatternKey: e.PatternKey, Flow: e.Flow.Name, State: e.State,
		Closing: Closing{At: e.UpdatedAt}, Support: support(e.Evidence), Exactness: exactness(e.Evidence)}
	if e.Closed != nil {
		j.Closing = *e.Closed
	}
	if j.Support > 0 {
		j.Lifts = append(j.Lifts, fmt.Sprintf("support reaches %d sessions (then %d)", 2*j.Support, j.Support))
	}
	if j.Exactness >= 0 && j.Exactness <= 0.95 {
		j.Lifts = append(j.Lifts, fmt.Sprintf("%s reaches %.0f %% (then %.0f %%)", exactnessName(e.Evidence), 100*j.Exactness+5, 100*j.Exactness))
	}
	if len(e.ToolHashes) > 0 {
		j.Lifts = append(j.Lifts, "the schema of one of its tools changes: "+strings.Join(ToolNames(e.Flow), ", "))
	}
	return j
}
