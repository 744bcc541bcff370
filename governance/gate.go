package governance

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"pave/governance/store"
)

// GateDecision is what the gate before a call decided.
type GateDecision struct {
	At      time.Time
	Actor   string // "" when nobody was authenticated
	Action  string // such as mcp.call
	Object  string
	Allowed bool
	Reason  string // why not
}

// AuditDecisions adds decisions to the audit log, in their order, as one transaction.
func (s *Service) AuditDecisions(ctx context.Context, tenant string, decisions []GateDecision) error {
	rows := make([]store.AuditRow, len(decisions))
	for i, d := range decisions {
		detail, err := json.Marshal(struct {
			Allowed bool   `json:"allowed"`
			Reason  string `json:"reason,omitempty"`
		}{d.Allowed, d.Reason})
		if err != nil {
			return fmt.Errorf("audit detail: %w", err)
		}
		rows[i] = store.AuditRow{At: d.At, Actor: cmp.Or(d.Actor, "anonymous"), Action: d.Action, Object: d.Object, Detail: detail}
	}
	return s.db.Update(ctx, func(tx *store.Tx) error { return tx.Audit(tenant, rows...) })
}
